"""What a shard is opened from: the group's offset, the changelog, the store.

In this order. The group's offset comes first, as it waits until no older owner can commit any more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from simhash_core.log.packets import Chain
from simhash_core.log.records import NO_CONTROL, Progress
from streams.intake.raw_consumer import RawConsumer
from streams.kafka.log_reader import LogReader
from streams.ordering.index_identity import Claim
from streams.store.shard_store import ShardStore

logger = logging.getLogger(__name__)

_OPENED_TOGETHER: Final = 4
"""Shards opened at one time: each reads its changelog in a thread."""


class IndexOnKafka(Protocol):
    """What is read from Kafka before shards are opened. Each may raise ``FirstseenError``."""

    async def topic_id(self) -> str:
        """Return the id of the raw topic, "" where the broker has none."""
        ...

    async def claim(self) -> Claim | None:
        """Return the last progress of shard 0, known to be of an index with these settings."""
        ...

    async def grow_changelog(self) -> None:
        """Make sure that the changelog has a partition for each of the raw topic."""
        ...

    async def abort_left_open(self, partitions: Iterable[int]) -> None:
        """Abort what the last owners of partitions left open, if they are gone."""
        ...


class OpenStore(Protocol):
    """Opens the store of a shard, brought up to what is committed; blocking."""

    def open(self, partition: int, committed_next: int, interrupted: threading.Event) -> ShardStore:
        """Raise ``InterruptedError`` soon after ``interrupted`` is set."""
        ...


class StandbyShards(Protocol):
    """The standbys of the worker: copies of shards that other workers own."""

    def __contains__(self, partition: int) -> bool:
        """Return whether there is a standby of a shard."""
        ...

    async def level(self, chain: Chain, committed_next: int) -> ShardStore | None:
        """Return the store of a standby, brought up to what is committed.

        None where there is none; then no store of the shard is open here.
        """
        ...

    def promote(self, progress: Progress) -> ShardStore | None:
        """Let a standby become the shard; None: it is gone, and the shard is to be opened."""
        ...

    def before_session(self, log_start: int) -> None:
        """Let those go that need more of the log than there is."""
        ...

    async def close(self) -> None:
        """Let all go."""
        ...


class ShardSources(NamedTuple):
    """What a shard is opened from."""

    stores: OpenStore
    on_kafka: IndexOnKafka
    consumer: RawConsumer
    log_reader: LogReader
    standbys: StandbyShards


class OpenedShard(NamedTuple):
    """A shard whose store is open.

    ``is_new``: its progress is to be committed first. ``log_end``: of the log, before its changelog
    was read. ``is_standby``: the store is a standby's, until that becomes the shard.
    """

    partition: int
    store: ShardStore
    progress: Progress
    is_new: bool
    log_end: int
    is_standby: bool = False

    def close(self) -> None:
        """Let the store go, unless it is a standby's."""
        if not self.is_standby:
            self.store.close()


class ShardOpener:
    """Opens the stores of shards. On the event loop."""

    def __init__(self, topic: str, sources: ShardSources) -> None:
        """``topic``: the raw topic."""
        self._topic = topic
        self._stores, self._index, self._consumer, self._log_reader, self._standbys = sources

    async def open(
        self, partitions: Sequence[int], interrupted: Mapping[int, threading.Event]
    ) -> list[OpenedShard]:
        """Open the stores of partitions, or none.

        Those whose event in ``interrupted`` is set are left out. Raises ``BrokerUnavailableError``
        and other ``FirstseenError``.
        """
        logger.info("shards opening: %s", " ".join(map(str, partitions)))
        topic_id = await self._index.topic_id()
        claim = await self._index.claim()
        await self._index.grow_changelog()
        await self._index.abort_left_open(partitions)
        committed = await self._consumer.committed_stable(partitions)
        log_end = await self._log_reader.end_offset()
        threads = asyncio.Semaphore(_OPENED_TOGETHER)

        async def open_one(partition: int) -> OpenedShard | None:
            chain = Chain(self._topic, topic_id, partition)
            next_offset = committed.get(partition, 0)
            async with threads:
                store = await self._standbys.level(chain, next_offset)
                stored = None if store is None else store.progress()
                if store is not None and stored is not None:
                    return OpenedShard(
                        partition, store, stored.progress, False, log_end, is_standby=True
                    )
                try:
                    store = await asyncio.to_thread(
                        self._stores.open, partition, next_offset, interrupted[partition]
                    )
                except InterruptedError:
                    return None
            progress, is_new = await self._progress(store, chain, claim)
            return OpenedShard(partition, store, progress, is_new, log_end)

        results = await asyncio.gather(*map(open_one, partitions), return_exceptions=True)
        opened = [each for each in results if isinstance(each, OpenedShard)]
        errors = [each for each in results if isinstance(each, BaseException)]
        if errors:
            for each in opened:
                each.close()
            raise errors[0]
        return opened

    async def _progress(
        self, store: ShardStore, chain: Chain, claim: Claim | None
    ) -> tuple[Progress, bool]:
        """Return where a shard goes on, and whether that is to be committed first."""
        stored = store.progress()
        if stored is not None and stored.progress.chain == chain:
            return stored.progress, False
        if stored is not None:
            logger.warning(
                "%s/%d was deleted and created again (topic id %s, before %s): reading it from "
                "its beginning",
                chain.topic,
                chain.partition,
                chain.topic_id,
                stored.progress.chain.topic_id,
            )
            before = stored.progress
            return Progress(chain, 0, before.position, before.control, before.clock), True
        if claim is not None:
            return Progress(chain, 0, claim.position, claim.control, claim.clock), True
        return Progress(chain, 0, await self._log_reader.start_offset(), NO_CONTROL), True
