"""Shards: opened when the group assigns their raw partitions, closed when it takes them away.

A shard is opened in this order: the group's offset (which waits until no older owner can commit any
more), the changelog, the store, the index, and then the log from the position that was committed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, Protocol

from simhash_core.errors import FirstseenError
from simhash_core.log.packets import Chain
from simhash_core.log.participant import LEADING_SHARD, Participant, ShardReady
from simhash_core.log.records import NO_CONTROL, Progress
from simhash_core.log.shard_stream import Ready
from streams.errors import BrokerUnavailableError
from streams.intake.raw_consumer import RawConsumer
from streams.kafka.commit_errors import AbortedError, FencedError, StaleGenerationError
from streams.kafka.log_reader import LogReader
from streams.metrics import Metrics
from streams.ordering.index_identity import Claim
from streams.ordering.raw_batches import RawArrival
from streams.output.put_out import PutOut
from streams.store.shard_store import ShardStore

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_PASSING: Final = (BrokerUnavailableError, AbortedError, FencedError, StaleGenerationError)
"""The broker is away, or the group rebalances: shards are opened a little later."""
_OPENED_TOGETHER: Final = 4
"""Shards opened at one time: each reads its changelog in a thread."""


class IndexOnKafka(Protocol):
    """What is asked of Kafka before shards are opened. Each may raise ``FirstseenError``."""

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


class ShardSources(NamedTuple):
    """What a shard is opened from."""

    stores: OpenStore
    on_kafka: IndexOnKafka
    consumer: RawConsumer
    log_reader: LogReader


class _Opened(NamedTuple):
    partition: int
    store: ShardStore
    progress: Progress
    is_new: bool


class ShardSessions:
    """The shards of one worker. On the event loop."""

    def __init__(
        self,
        topic: str,
        participant: Participant[RawArrival],
        sources: ShardSources,
        put_out: PutOut,
        metrics: Metrics,
        *,
        prepare_leader: Callable[[], Awaitable[None]],
        on_session: Callable[[], object],
        on_failure: Callable[[FirstseenError], None],
    ) -> None:
        """Nothing is opened before ``assigned``."""
        self.epoch = -1
        self.starts: dict[int, int] = {}
        self.opening: dict[int, threading.Event] = {}
        self._topic = topic
        self._participant = participant
        self._stores, self._index, self._consumer, self._log_reader = sources
        self._put_out = put_out
        self._metrics = metrics
        self._prepare_leader = prepare_leader
        self._on_session = on_session
        self._on_failure = on_failure
        self._moves = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.assigned_once = False

    @property
    def ready(self) -> bool:
        """Whether partitions were assigned, all are open, and the log is read to its end."""
        return self.assigned_once and not self.opening and self._participant.caught_up

    def assigned(self, partitions: Iterable[int]) -> None:
        """Begin to open shards."""
        fresh = sorted(set(partitions) - self._participant.shards.keys() - self.opening.keys())
        for partition in fresh:
            self.opening[partition] = threading.Event()
        self.assigned_once = True
        self._note()
        self._begin(self._open(fresh))

    async def revoked(self, partitions: Iterable[int]) -> None:
        """Close shards, after the commit that is under way."""
        gone = set(partitions)
        for partition in gone & self.opening.keys():
            self.opening[partition].set()
        async with self._moves, self._put_out.lock:
            for partition in gone:
                self._close(partition, "the group takes its partition")
        self._note()

    def lost(self, partitions: Iterable[int]) -> None:
        """Close shards that others may own by now; their commits are refused."""
        self._begin(self.revoked(frozenset(partitions)))

    async def reopen(self, why: FirstseenError) -> None:
        """Open all shards again: it is not known what is committed."""
        async with self._moves, self._put_out.lock:
            partitions = sorted(self._participant.shards)
            for partition in partitions:
                self._close(partition, f"{why}: it is opened again")
        self.assigned(partitions)

    def interrupt(self) -> None:
        """Let openings that are under way end soon."""
        for interrupted in self.opening.values():
            interrupted.set()

    async def close(self) -> None:
        """Close all shards, after the commit that is under way."""
        self.interrupt()
        if self._tasks:
            await asyncio.wait(self._tasks)
        async with self._put_out.lock:
            for partition in list(self._participant.shards):
                self._close(partition, "the worker stops")

    def _begin(self, work: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except FirstseenError as error:
                self._on_failure(error)
            except Exception as error:
                logger.exception("shards cannot be opened")
                self._on_failure(FirstseenError(f"shards cannot be opened: {error!r}"))

        task = asyncio.ensure_future(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, partitions: list[int]) -> None:
        if not partitions:
            return
        started = time.monotonic()
        async with self._moves:
            try:
                while waiting := [p for p in partitions if not self.opening[p].is_set()]:
                    try:
                        await self._open_once(waiting)
                        break
                    except _PASSING as error:
                        logger.warning("shards are not open yet: %s", error)
                        await asyncio.sleep(_RETRY_SECONDS)
                        await self._consumer.refresh_metadata()
            finally:
                for partition in partitions:
                    self.opening.pop(partition, None)
                self._note()
        self._metrics.recovered(time.monotonic() - started)
        for partition in partitions:
            shard = self._participant.shards.get(partition)
            if shard is not None:
                logger.info(
                    "shard %d open: %d documents, next raw offset %d",
                    partition,
                    len(self._put_out.stores[partition]),
                    shard.stream.next,
                )

    async def _open_once(self, partitions: list[int]) -> None:
        """Open shards, or none of them. Raises ``BrokerUnavailableError``: to be tried again."""
        opened = await self._opened(partitions)
        slots: dict[int, int] = {}
        try:
            await self._take_in(opened, slots)
        except BaseException:
            for each in opened:
                self._participant.drop_shard(each.partition)
                self._put_out.stores.pop(each.partition, None)
            for slot in slots.values():
                self._participant.index.drop_slot(slot)
            raise
        finally:
            for each in opened:
                if each.partition not in self._put_out.stores:
                    each.store.close()

    async def _opened(self, partitions: list[int]) -> list[_Opened]:
        """Open the stores of partitions, those left out that were taken away meanwhile."""
        logger.info("shards opening: %s", " ".join(map(str, partitions)))
        topic_id = await self._index.topic_id()
        claim = await self._index.claim()
        await self._index.grow_changelog()
        await self._index.abort_left_open(partitions)
        committed = await self._consumer.committed_stable(partitions)
        threads = asyncio.Semaphore(_OPENED_TOGETHER)

        async def open_one(partition: int) -> _Opened | None:
            interrupted = self.opening[partition]
            async with threads:
                try:
                    store = await asyncio.to_thread(
                        self._stores.open, partition, committed.get(partition, 0), interrupted
                    )
                except InterruptedError:
                    return None
            chain = Chain(self._topic, topic_id, partition)
            progress, is_new = await self._progress(store, chain, claim)
            return _Opened(partition, store, progress, is_new)

        found = await asyncio.gather(*map(open_one, partitions), return_exceptions=True)
        opened = [each for each in found if isinstance(each, _Opened)]
        errors = [each for each in found if isinstance(each, BaseException)]
        if errors:
            for each in opened:
                each.store.close()
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
                "%s/%d was deleted and created again (topic id %s, before %s): it is read from its "
                "beginning",
                chain.topic,
                chain.partition,
                chain.topic_id,
                stored.progress.chain.topic_id,
            )
            before = stored.progress
            return Progress(chain, 0, before.position, before.control), True
        if claim is not None:
            return Progress(chain, 0, claim.position, claim.control), True
        return Progress(chain, 0, await self._log_reader.start_offset(), NO_CONTROL), True

    async def _take_in(self, opened: list[_Opened], slots: dict[int, int]) -> None:
        """Load the entries of shards into the index, and begin a session with them.

        ``slots``: filled with the slots of the index that are opened.
        """
        index = self._participant.index
        for each in opened:
            slots[each.partition] = index.open_slot(visible=False)
            for sequences, fingerprints in each.store.fingerprints():
                index.add(slots[each.partition], sequences, fingerprints)
                await asyncio.sleep(0)
        async with self._put_out.lock:
            kept = [each for each in opened if not self.opening[each.partition].is_set()]
            for each in opened:
                if each not in kept:
                    index.drop_slot(slots[each.partition])
            kept = await self._commit_new(kept)
            for each in kept:
                self._participant.show_shard(each.progress, each.store, slots[each.partition])
                self._put_out.stores[each.partition] = each.store
            if not kept:
                return
            end = await self._log_reader.end_offset()
            if LEADING_SHARD in self._participant.shards:
                await self._prepare_leader()
            self.epoch = self._log_reader.seek(self._participant.begin(end))
        self._on_session()
        for each in kept:
            offset = each.progress.next
            self.starts[each.partition] = self._consumer.start(each.partition, offset)

    async def _commit_new(self, opened: list[_Opened]) -> list[_Opened]:
        """Commit the first progress of shards, before anything of them is in the log.

        Returns all with the progress that they have now. The position is shard 0's of this moment:
        the leader trims the log only to positions that are a minute old.
        """
        if not any(each.is_new for each in opened):
            return opened
        claim = await self._index.claim()
        found = []
        for each in opened:
            progress = each.progress
            if each.is_new and claim is not None and claim.position > progress.position:
                chain, first = progress.chain, progress.next
                progress = Progress(chain, first, claim.position, claim.control)
            found.append(each._replace(progress=progress))
        first_progress: list[ShardReady[RawArrival]] = [
            ShardReady(each.partition, Ready([], [], each.progress.next), each.progress)
            for each in found
            if each.is_new
        ]
        ends = await self._put_out.commit_first(first_progress)
        stores = {each.partition: each.store for each in found}
        for ready in first_progress:
            stores[ready.partition].commit([], self._put_out.stored(ready, ends))
        return found

    def _close(self, partition: int, why: str) -> None:
        if partition not in self._participant.shards:
            return
        self._participant.drop_shard(partition)
        self.starts.pop(partition, None)
        store = self._put_out.stores.pop(partition, None)
        if store is not None:
            store.close()
        logger.info("shard %d closed: %s", partition, why)

    def _note(self) -> None:
        self._metrics.assigned_shards(len(self._participant.shards) + len(self.opening))
        self._metrics.opening_shards(len(self.opening))
