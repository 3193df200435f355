"""Faust's Kafka transport, reading only what transactions have committed.

Faust chooses the isolation level itself, and reads what is not committed unless its own
exactly-once mode is on, which does not cover our sends. The consumer keeps the level in an
attribute until it is started; that is set here (faust-streaming 0.15.3, aiokafka 0.14.0, pinned;
a test on a real broker with an aborted transaction holds it).
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

import aiokafka
from faust.transport.drivers import aiokafka as driver
from faust.types.transports import ConsumerT


class _CommittedConsumerThread(driver.AIOKafkaConsumerThread):
    def _create_consumer(self, loop: asyncio.AbstractEventLoop) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_consumer(loop)
        if not hasattr(consumer, "_isolation_level"):
            raise RuntimeError("this aiokafka keeps its isolation level elsewhere: see the pins")
        consumer._isolation_level = "read_committed"  # noqa: SLF001 - see the module's docstring
        return consumer


class _CommittedConsumer(driver.Consumer):
    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _CommittedConsumerThread(self, loop=self.loop, beacon=self.beacon)


class CommittedTransport(driver.Transport):
    """The transport for ``app.transport``."""

    Consumer: ClassVar[type[ConsumerT]] = _CommittedConsumer
