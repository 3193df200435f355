"""Faust's Kafka transport, reading only what transactions have committed, and not waiting long.

Faust chooses the isolation level itself, and reads what is not committed unless its own
exactly-once mode is on, which does not cover our sends. The consumer keeps the level in an
attribute until it is started; that is set here (faust-streaming 0.15.3, aiokafka 0.14.0, pinned;
a test on a real broker with an aborted transaction holds it).

So is how long a broker may hold a fetch that finds nothing, for which Faust has 1.5 s. A consumer
has one fetch at a time under way to a broker, so partitions whose records have been used up wait
for those that have none; and the embedded broker holds a fetch to its end, whatever arrives.

And a consumer that is stopped while a broker is away: aiokafka then raises the cancellation of a
fetch of its own, and mode waits a minute for the end of a thread that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import ClassVar, cast

import aiokafka
from faust.transport.drivers import aiokafka as driver
from faust.types.transports import ConsumerT


class _CommittedConsumerThread(driver.AIOKafkaConsumerThread):
    def _create_consumer(self, loop: asyncio.AbstractEventLoop) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_consumer(loop)
        for name in ("_isolation_level", "_fetch_max_wait_ms"):
            if not hasattr(consumer, name):
                raise RuntimeError(f"this aiokafka keeps its {name} elsewhere: see the pins")
        consumer._isolation_level = "read_committed"  # noqa: SLF001 - see the module's docstring
        transport = cast(CommittedTransport, self.transport)
        consumer._fetch_max_wait_ms = transport.fetch_wait_ms  # noqa: SLF001
        return consumer

    async def on_thread_stop(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await super().on_thread_stop()


class _CommittedConsumer(driver.Consumer):
    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _CommittedConsumerThread(self, loop=self.loop, beacon=self.beacon)


class CommittedTransport(driver.Transport):
    """The transport for ``app.transport``; ``fetch_wait_ms`` is for consumers not yet started."""

    fetch_wait_ms: int = 100

    Consumer: ClassVar[type[ConsumerT]] = _CommittedConsumer
