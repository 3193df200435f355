"""An owner of a raw consumer that notes everything that it is told."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from simhash_core.errors import FirstseenError
from streams.intake.raw_consumer import RawConsumer
from streams.intake.raw_records import RawRecords
from streams.kafka.client_config import raw_consumer_config
from streams.settings.settings import Settings
from tests.rigs.brokers.broker import Broker

WAIT_SECONDS = 30.0


async def until(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Wait for a condition, at most so long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not come to be in time"
        await asyncio.sleep(0.01)


def settings_for(broker: Broker, application: str, *, instance_id: str | None = None) -> Settings:
    """Settings of a worker whose group rebalances quickly."""
    return Settings(
        application_id=application,
        brokers=broker.bootstrap_servers,
        group_instance_id=instance_id,
        kafka={"fetch.wait.max.ms": "20"},
    )


class RecordingOwner:
    """Starts each partition at ``starts`` (0 unless given), and keeps what comes."""

    def __init__(self, *, starts: dict[int, int] | None = None, is_eager: bool = True) -> None:
        self.consumer: RawConsumer | None = None
        self.starts = starts or {}
        self.is_eager = is_eager
        self.batches: list[Sequence[RawRecords]] = []
        self.offsets: dict[int, list[int]] = defaultdict(list)
        self.events: list[tuple[str, frozenset[int]]] = []
        self.generations = 0
        self.failure: FirstseenError | None = None
        self.before_record: Callable[[], Awaitable[object]] | None = None
        self.on_revoke: Callable[[frozenset[int]], Awaitable[None]] | None = None

    def open(
        self,
        settings: Settings,
        topic: str,
        *,
        config: dict[str, Any] | None = None,
        **limits: Any,  # noqa: ANN401 - of several types
    ) -> RawConsumer:
        """Make the consumer, and join."""
        self.consumer = RawConsumer(
            {**raw_consumer_config(settings, "worker"), **(config or {})}, topic, self, **limits
        )
        self.consumer.open()
        return self.consumer

    @property
    def count(self) -> int:
        """Records that have come."""
        return sum(map(len, self.offsets.values()))

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that are owned now."""
        assert self.consumer is not None
        return self.consumer.assignment

    async def records(self, batch: Sequence[RawRecords]) -> None:
        """Keep a batch."""
        if self.before_record is not None:
            await self.before_record()
        self.batches.append(batch)
        for run in batch:
            self.offsets[run.partition] += [message.offset() or 0 for message in run.messages]

    def assigned(self, partitions: frozenset[int]) -> None:
        """Start them."""
        self.events.append(("assigned", partitions))
        assert self.consumer is not None
        if self.is_eager:
            for partition in partitions:
                self.consumer.start(partition, self.starts.get(partition, 0))

    async def revoked(self, partitions: frozenset[int]) -> None:
        """Do as ``on_revoke`` says."""
        if self.on_revoke is not None:
            await self.on_revoke(partitions)
        self.events.append(("revoked", partitions))

    def lost(self, partitions: frozenset[int]) -> None:
        """Note it."""
        self.events.append(("lost", partitions))

    def generation_changed(self) -> None:
        """Note it."""
        self.generations += 1

    def failed(self, error: FirstseenError) -> None:
        """Note it; more than once would be a fault."""
        assert self.failure is None
        self.failure = error
