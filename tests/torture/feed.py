"""Sends the plan to the raw topic at a steady rate, even during faults of the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message

from simhash_core.documents import SourcePosition
from streams.kafka.client_config import client_config
from streams.kafka.clients import Producer
from streams.settings.settings import Settings
from tests.torture.plan import Planned

TICK_SECONDS = 0.02
ACKNOWLEDGE_SECONDS = 120.0
METADATA_SECONDS = 5.0


class FeedError(RuntimeError):
    """The broker does not accept the documents, so the run shows nothing about the workers."""


class Feed:
    """Sends records, and keeps the acknowledged ones by source position.

    ``sent`` has all records, each with its partition. ``unplaced`` has the acknowledged ones of
    which the broker no longer knew the offset.
    """

    def __init__(
        self, settings: Settings, plan: Iterable[Planned], per_second: float, partitions: int
    ) -> None:
        self.acknowledged: dict[SourcePosition, Planned] = {}
        self.unplaced: list[Planned] = []
        self.sent: set[Planned] = set()
        self.partitions = partitions
        self.topic = settings.topics.raw
        self._used = partitions
        self._plan = plan
        self._per_second = per_second
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            client_config(
                settings,
                # With this, only few records are appended twice (``raw_topic``), and none out of
                # order.
                enable_idempotence=True,
                linger_ms=5,
                message_timeout_ms=int(ACKNOWLEDGE_SECONDS * 1000),
            )
        )

    @property
    def arrived(self) -> int:
        """The number of acknowledged records."""
        return len(self.acknowledged) + len(self.unplaced)

    async def run(self) -> None:
        """Send all records; return when all are acknowledged, or raise ``FeedError``."""
        started, sent = time.monotonic(), 0
        for planned in self._plan:
            if self._used < self.partitions:
                await self._learn_partitions()
            while sent >= (time.monotonic() - started) * self._per_second:
                self._poll()
                await asyncio.sleep(TICK_SECONDS)
            self._send(planned)
            sent += 1
            if sent % 100 == 0:  # it has to catch up if the broker was away
                self._poll()
                await asyncio.sleep(0)
        deadline = time.monotonic() + ACKNOWLEDGE_SECONDS
        while self.arrived < sent:
            self._poll()
            if time.monotonic() > deadline:
                raise FeedError(f"{sent - self.arrived} records are not acknowledged")
            await asyncio.sleep(TICK_SECONDS)

    async def _learn_partitions(self) -> None:
        """Use all partitions that this client knows from the broker."""
        with suppress(KafkaException):
            told = await asyncio.to_thread(
                self._producer.list_topics, self.topic, timeout=METADATA_SECONDS
            )
            self._used = max(self._used, len(told.topics[self.topic].partitions))

    def _send(self, planned: Planned) -> None:
        sent = planned._replace(partition=planned.partition % self._used)
        self.sent.add(sent)
        self._producer.produce(
            self.topic,
            sent.value,
            sent.key,
            partition=sent.partition,
            on_delivery=partial(self._delivered, sent),
        )

    def _poll(self) -> None:
        self._producer.poll(0)
        if self._failures:
            raise FeedError(f"the broker does not take the documents: {self._failures[0].str()}")

    def _delivered(self, sent: Planned, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None:
            self._failures.append(error)
        elif partition is None or offset is None or offset < 0:
            self.unplaced.append(sent)
        else:
            self.acknowledged[SourcePosition(self.topic, partition, offset)] = sent
