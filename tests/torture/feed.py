"""Sends the plan to the raw topic at a steady rate, whatever happens to the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from simhash_core.documents import SourcePosition
from streams.kafka_config import librdkafka_config
from streams.settings import Settings
from tests.torture.plan import Planned

TICK_SECONDS = 0.02
ACKNOWLEDGE_SECONDS = 120.0


class FeedError(RuntimeError):
    """The broker does not take the documents: the run says nothing about the workers."""


class Feed:
    """Sends records, and keeps those that the broker has acknowledged, by source position."""

    def __init__(self, settings: Settings, plan: Iterable[Planned], per_second: float) -> None:
        self.acknowledged: dict[SourcePosition, Planned] = {}
        self._topic = settings.topics.raw
        self._plan = plan
        self._per_second = per_second
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            librdkafka_config(
                settings,
                # A feed that repeats records, or changes their order, would be judged for it.
                enable_idempotence=True,
                linger_ms=5,
                message_timeout_ms=int(ACKNOWLEDGE_SECONDS * 1000),
            )
        )

    async def run(self) -> None:
        """Send everything; returns when all is acknowledged.

        Raises:
            FeedError: Something was refused, or not acknowledged within two minutes.
        """
        started, sent = time.monotonic(), 0
        for planned in self._plan:
            while sent >= (time.monotonic() - started) * self._per_second:
                self._poll()
                await asyncio.sleep(TICK_SECONDS)
            self._send(planned)
            sent += 1
            if sent % 100 == 0:  # while it catches up after the broker was away
                self._poll()
                await asyncio.sleep(0)
        deadline = time.monotonic() + ACKNOWLEDGE_SECONDS
        while len(self.acknowledged) < sent:
            self._poll()
            if time.monotonic() > deadline:
                raise FeedError(f"{sent - len(self.acknowledged)} records are not acknowledged")
            await asyncio.sleep(TICK_SECONDS)

    def _send(self, planned: Planned) -> None:
        self._producer.produce(
            self._topic,
            planned.value,
            planned.key,
            partition=planned.partition,
            on_delivery=partial(self._delivered, planned),
        )

    def _poll(self) -> None:
        self._producer.poll(0)
        if self._failures:
            raise FeedError(f"the broker does not take the documents: {self._failures[0].str()}")

    def _delivered(self, planned: Planned, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None or offset is None or offset < 0:
            self._failures.append(error or KafkaError(KafkaError.UNKNOWN))
            return
        self.acknowledged[SourcePosition(self._topic, planned.partition, offset)] = planned
