"""The owner of a raw consumer in tests, which records every event."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from simhash_core.errors import FirstseenError
from streams.kafka.client_config import raw_consumer_config
from streams.kafka.clients import RawOffset
from streams.kafka.raw_consumer import Fetched, RawConsumer
from streams.settings.settings import Settings
from streams.worker.clients import GroupMember
from tests.rigs.async_tests import WAIT_SECONDS
from tests.rigs.brokers.broker import Broker


def settings_for(broker: Broker, application: str, *, instance_id: str | None = None) -> Settings:
    """Return settings of a worker whose group rebalances quickly."""
    return Settings(
        application_id=application,
        brokers=broker.bootstrap_servers,
        group_instance_id=instance_id,
        kafka={"fetch.wait.max.ms": "20"},
    )


class RecordingOwner:
    """Implements ``GroupEvents``.

    If ``is_eager``, it reads each partition from ``starts`` (by default 0). It takes fetched
    records unless ``is_held``. Each reading gets the next number.
    """

    def __init__(self, *, starts: dict[int, int] | None = None, is_eager: bool = True) -> None:
        self.consumer: GroupMember | None = None
        self.starts = starts or {}
        self.is_eager = is_eager
        self.is_held = False
        self.fetches: list[Fetched] = []
        self.offsets: dict[int, list[int]] = defaultdict(list)
        self.readings = 0
        self.events: list[tuple[str, frozenset[int]]] = []
        self.announced: list[str] = []
        self.metadata = b""
        self.owned: frozenset[int] = frozenset()
        self.failure: FirstseenError | None = None
        self.on_revoke: Callable[[frozenset[int]], Awaitable[None]] | None = None
        self._closings: list[asyncio.Task[None]] = []

    def open(
        self,
        settings: Settings,
        topic: str,
        *,
        config: dict[str, Any] | None = None,
        **limits: Any,  # noqa: ANN401 - of several types
    ) -> RawConsumer:
        self.consumer = consumer = RawConsumer(
            {**raw_consumer_config(settings, "worker"), **(config or {})}, topic, **limits
        )
        consumer.open(self)
        self._closings.append(asyncio.create_task(self._close_with_the_test(consumer)))
        return consumer

    async def _close_with_the_test(self, consumer: RawConsumer) -> None:
        """Close what a failed test leaves open: its warnings would be in the output of others."""
        try:
            await asyncio.Event().wait()
        finally:
            await consumer.close()

    @property
    def count(self) -> int:
        return sum(map(len, self.offsets.values()))

    @property
    def generations(self) -> int:
        return sum(name == "assigned" for name, _ in self.events)

    def read(self, partition: int, offset: int) -> int:
        assert self.consumer is not None
        self.readings += 1
        self.consumer.read(partition, RawOffset(offset), self.readings)
        return self.readings

    async def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the group's offsets once no transaction on them is open; -1 means none."""
        assert self.consumer is not None
        wanted, offsets = set(partitions), dict[int, int]()
        deadline = time.monotonic() + WAIT_SECONDS
        while missing := wanted - offsets.keys():
            assert time.monotonic() < deadline, f"offsets of {missing} are not stable"
            offsets |= await self.consumer.committed(missing)
        return offsets

    def fetched(self) -> None:
        assert self.consumer is not None
        while not self.is_held and (fetched := self.consumer.take()) is not None:
            self.fetches.append(fetched)
            for run in fetched.runs:
                offsets = [message.offset() or 0 for message in run.messages]
                self.offsets[run.partition] += offsets

    def release(self) -> None:
        self.is_held = False
        self.fetched()

    def assigned(self, partitions: frozenset[int], metadata: bytes) -> None:
        self.announced.append("assigned")
        self._note("assigned", partitions, metadata)
        self.owned |= partitions
        if self.is_eager:
            for partition in partitions:
                self.read(partition, self.starts.get(partition, 0))

    def revoked(self, partitions: frozenset[int], metadata: bytes) -> Awaitable[None]:
        self.announced.append("revoked")
        return self._released(partitions, metadata)

    async def _released(self, partitions: frozenset[int], metadata: bytes) -> None:
        self.metadata = metadata
        if self.on_revoke is not None:
            await self.on_revoke(partitions)
        self._note("revoked", partitions, metadata)
        self.owned -= partitions

    def lost(self, partitions: frozenset[int], metadata: bytes) -> None:
        self._note("lost", partitions, metadata)
        self.owned -= partitions

    def failed(self, error: FirstseenError) -> None:
        assert self.failure is None
        self.failure = error

    def _note(self, event: str, partitions: frozenset[int], metadata: bytes) -> None:
        self.events.append((event, partitions))
        self.metadata = metadata
