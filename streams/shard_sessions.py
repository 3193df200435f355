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
from typing import Final

from simhash_core.errors import FirstseenError
from simhash_core.log.outputs import Ready
from simhash_core.log.participant import LEADING_SHARD, Participant, ShardReady
from simhash_core.log.records import Progress
from streams.errors import BrokerUnavailableError
from streams.intake.raw_batches import RawArrival
from streams.kafka.commit_errors import AbortedError, FencedError, StaleGenerationError
from streams.monitoring.metrics import Metrics
from streams.ordering.shard_opening import OpenedShard, ShardOpener, ShardSources
from streams.output.put_out import PutOut
from streams.store.index_filling import fill_index

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_PASSING: Final = (BrokerUnavailableError, AbortedError, FencedError, StaleGenerationError)
"""The broker is away, or the group rebalances: shards are opened a little later."""


class _NoIndexYetError(Exception):
    """No worker has begun the index, and this one does not open its first shard."""


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
        self._participant = participant
        _, self._index, self._consumer, self._log_reader, self._standbys = sources
        self._opener = ShardOpener(topic, sources)
        self._put_out = put_out
        self._metrics = metrics
        self._prepare_leader = prepare_leader
        self._on_session = on_session
        self._on_failure = on_failure
        self._moves = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.assigned_once = False
        self._closing = False

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
        revoked = set(partitions)
        for partition in revoked & self.opening.keys():
            self.opening[partition].set()
        async with self._moves, self._put_out.lock:
            for partition in revoked:
                self._close(partition, "the group moves its partition")
        self._note()
        if self._participant.shards:
            self._on_session()  # who does not lead any more reports to who does
        self._open_missing(revoked)

    def lost(self, partitions: Iterable[int]) -> None:
        """Close shards that others may own by now; their commits are refused."""
        self._begin(self.revoked(frozenset(partitions)))

    async def reopen(self, why: FirstseenError) -> None:
        """Open all shards again: it is not known what is committed."""
        async with self._moves, self._put_out.lock:
            partitions = sorted(self._participant.shards)
            for partition in partitions:
                self._close(partition, f"{why}: opening it again")
        self.assigned(partitions)

    def has(self, partition: int) -> bool:
        """Return whether a shard is owned here, or being opened."""
        return partition in self._participant.shards or partition in self.opening

    async def join(self, add: Callable[[], bool]) -> None:
        """Call ``add`` while no shard comes or goes; begin a session if it returns true."""
        async with self._moves, self._put_out.lock:
            if self._closing or not add():
                return
            await self._begin_session()
        self._on_session()

    def interrupt(self) -> None:
        """Let openings that are under way end soon."""
        for interrupted in self.opening.values():
            interrupted.set()

    async def close(self) -> None:
        """Close all shards, after the commit that is under way."""
        self._closing = True
        self.interrupt()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._standbys.close()
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
        try:
            async with self._moves:
                await self._open_all(partitions)
        except _NoIndexYetError:
            named = " ".join(map(str, partitions))
            logger.info("shards wait until shard 0 has begun the new index: %s", named)
            # Not with the lock, as this worker may become the owner of the first shard meanwhile.
            await asyncio.sleep(_RETRY_SECONDS)
        finally:
            for partition in partitions:
                self.opening.pop(partition, None)
            self._note()
        self._open_missing(partitions)
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

    async def _open_all(self, partitions: list[int]) -> None:
        """Open shards, again after errors that pass, but for those that are revoked meanwhile."""
        while waiting := [p for p in partitions if not self.opening[p].is_set()]:
            try:
                if await self._open_once(waiting):
                    return
            except _PASSING as error:
                logger.warning("shards are not open yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                await self._consumer.refresh_metadata()

    def _open_missing(self, partitions: Iterable[int]) -> None:
        """Open what is owned and not open: it was revoked and assigned again, or had to wait."""
        owned = self._consumer.assignment & set(partitions)
        missing = owned - self._participant.shards.keys() - self.opening.keys()
        if missing and not self._closing:
            self.assigned(missing)

    async def _open_once(self, partitions: list[int]) -> bool:
        """Open shards, or none of them; return false where some are to be opened once more.

        Raises ``BrokerUnavailableError``: to be tried again.
        """
        opened = await self._opener.open(partitions, self.opening)
        slots: dict[int, int] = {}
        try:
            return await self._take_in(opened, slots)
        except BaseException:
            for each in opened:
                self._participant.drop_shard(each.partition)
                self._put_out.stores.pop(each.partition, None)
            for slot in slots.values():
                self._participant.index.drop_slot(slot)
            raise
        finally:
            for each in opened:
                partition = each.partition
                if partition not in self._put_out.stores and partition not in self._standbys:
                    each.store.close()

    async def _take_in(self, opened: list[OpenedShard], slots: dict[int, int]) -> bool:
        """Load the entries of shards into the index, and begin a session with them.

        ``slots``: filled with the slots of the index that are opened. Returns whether all standbys
        among them have become shards; those that have not are gone.
        """
        index = self._participant.index
        for each in opened:
            if not each.is_standby:
                slots[each.partition] = index.open_slot(visible=False)
                for _ in fill_index(index, slots[each.partition], each.store):
                    await asyncio.sleep(0)
        async with self._put_out.lock:
            kept = [each for each in opened if not self.opening[each.partition].is_set()]
            for partition in slots.keys() - {each.partition for each in kept}:
                index.drop_slot(slots[partition])
            wanted = await self._commit_new(kept)
            kept = [each for each in wanted if self._owned(each, slots)]
            if not kept:
                return not wanted
            await self._begin_session()
        self._on_session()
        for each in kept:
            offset = each.progress.next
            self.starts[each.partition] = self._consumer.start(each.partition, offset)
        return len(kept) == len(wanted)

    def _owned(self, opened: OpenedShard, slots: dict[int, int]) -> bool:
        """Own a shard from the next session on; return false for a standby that is gone."""
        partition, store, progress = opened.partition, opened.store, opened.progress
        if opened.is_standby:
            if self._standbys.promote(progress) is None:
                return False
        else:
            self._participant.show_shard(progress, store, slots[partition], opened.log_end)
        self._put_out.stores[partition] = store
        return True

    async def _begin_session(self) -> None:
        """Read the log again, as far back as those need it that are held now."""
        offsets = asyncio.ensure_future(self._log_reader.offsets())
        try:
            if LEADING_SHARD in self._participant.shards:
                await self._prepare_leader()
        finally:
            start, end = await offsets  # each may wait for a fetch that the broker holds
        self._standbys.before_session(start)
        self.epoch = self._log_reader.seek(self._participant.begin(end))

    async def _commit_new(self, opened: list[OpenedShard]) -> list[OpenedShard]:
        """Commit the first progress of shards, before anything of them is in the log.

        Returns all with the progress that they have now. The position is shard 0's of this moment:
        the leader trims the log only to positions that are a minute old. Raises
        ``_NoIndexYetError``: the settings of an index are those of its first shard, so the others
        wait for that.
        """
        if not any(each.is_new for each in opened):
            return opened
        claim = await self._index.claim()
        if claim is None and all(each.partition != LEADING_SHARD for each in opened):
            raise _NoIndexYetError
        committed = []
        for each in opened:
            progress = each.progress
            if each.is_new and claim is not None and claim.position > progress.position:
                chain, first = progress.chain, progress.next
                progress = Progress(chain, first, claim.position, claim.control, claim.clock)
            committed.append(each._replace(progress=progress))
        first_progress: list[ShardReady[RawArrival]] = [
            ShardReady(each.partition, Ready([], [], each.progress.next), each.progress)
            for each in committed
            if each.is_new
        ]
        stores = {each.partition: each.store for each in committed}
        ends = await self._put_out.commit_first(first_progress, stores)
        for ready in first_progress:
            stores[ready.partition].commit([], self._put_out.stored(ready, ends))
        return committed

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
