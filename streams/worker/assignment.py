"""Assignment: opens a shard when the group assigns its partition, and closes it on revocation.

These are the steps of opening a shard: get the group's offset, which the broker returns only when
no older owner can commit any more; read the changelog; open the store; fill the index; commit the
first progress of a new shard. Then a *session* of the log begins with all filled shards: the worker
reads the log from the earliest position that they have committed. Shards open independently, so an
error of one does not stop the others. No step is cancelled; instead, each step first checks whether
its shard was closed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import LEADING_SHARD
from simhash_core.log.records import NO_CONTROL, Chain, Progress
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import RawOffset
from streams.kafka.errors import AbortedError, FencedError, StaleGenerationError
from streams.monitoring.metrics import AcquisitionPhase
from streams.monitoring.worker_state import partition_ranges
from streams.store.changelog import ChangelogBehindError
from streams.store.recovery import fill_index
from streams.store.row_codec import StoredProgress
from streams.store.shard_store import ShardStore
from streams.worker.acquisition import Acquisitions
from streams.worker.clients import offsets_after
from streams.worker.context import WorkerContext
from streams.worker.index_on_kafka import Claim
from streams.worker.shard import Acquisition, LeaderEpochs, Shard
from streams.worker.standbys import Standbys

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_UNSTABLE_SECONDS: Final = 0.05  # between requests for an offset that is in an open transaction
_UNSTABLE_LINE_SECONDS: Final = 60.0
# How long a session waits for opening shards, because it reads the log again.
_TOGETHER_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.02
_SHARED_SECONDS: Final = 15.0
"""After this long without partitions, others have them all: they release some within less time."""
_OPENED_TOGETHER: Final = 4  # how many shards open at once; each reads its changelog in a thread
_PASSING: Final = (BrokerUnavailableError, AbortedError, FencedError, StaleGenerationError)
"""Temporary errors: the broker is unavailable, or the group rebalances."""


class AssignmentEvents(NamedTuple):
    """Callbacks to the rest of the worker when shards open and close.

    ``prepare_leader`` runs before a session in which this worker may lead. ``on_session`` gets the
    log offset to read from. ``begin`` gets new shards, whose first progress must be committed.
    ``without`` waits until no commit has any of the shards. ``keeps_moved`` says whether shards
    that move stay as standbys.
    """

    prepare_leader: Callable[[], Awaitable[None]]
    on_session: Callable[[int], None]
    on_open: Callable[[Shard], None]
    on_closed: Callable[[Shard], None]
    begin: Callable[[Iterable[Shard]], None]
    without: Callable[[Iterable[Shard]], Awaitable[None]]
    on_revoked: Callable[[], None]
    keeps_moved: Callable[[], bool]


class _Cluster(NamedTuple):
    topic_id: str
    claim: Claim | None
    log_start: int


class Assignment:
    """The shards of one worker, on the event loop; no other mapping by raw partition exists."""

    def __init__(
        self,
        context: WorkerContext,
        standbys: Standbys,
        acquisitions: Acquisitions,
        events: AssignmentEvents,
    ) -> None:
        clients = context.clients
        self.shards = context.shards
        self.assigned_once = False
        self._generation_at: float | None = None  # when the group last assigned, perhaps nothing
        self._fail = context.fail
        self._topic = context.settings.topics.raw
        self._reading = context.rules.reading
        self._participant = context.participant
        self._member, self._log = clients.member, clients.log
        self._index, self._stores = clients.index, clients.stores
        self._committer = clients.committer
        # Commits of unknown outcome, and how many of them have ended.
        self._unknown = self._settled = 0
        self._standbys = standbys
        self._metrics = context.metrics
        self._acquisitions = acquisitions
        self._events = events
        self._number = 0
        self._closing: set[Shard] = set()
        self._threads = asyncio.Semaphore(_OPENED_TOGETHER)
        self._tasks: set[asyncio.Task[None]] = set()
        self._session_wanted = asyncio.Event()
        self._joining: list[Callable[[], bool]] = []
        self._logged_waiting = ""
        self.is_stopped = False

    @property
    def opening(self) -> list[Shard]:
        return [shard for shard in list(self.shards.values()) if shard.is_opening]

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned, all shards are open, and the log is read to its end."""
        is_open = self.has_its_share and not self.opening and not self.is_stopped
        return is_open and self._participant.caught_up

    @property
    def has_its_share(self) -> bool:
        """Whether the group has assigned partitions, or other workers have all of them."""
        since = self._generation_at
        return self.assigned_once or (
            since is not None and time.monotonic() - since > _SHARED_SECONDS
        )

    # ---- changes of the group

    def open(self) -> None:
        self._start(self._run_sessions())

    def assigned(self, partitions: Collection[int]) -> None:
        """Open new shards; without any, others may still release some for this worker."""
        self._generation_at = time.monotonic()
        if partitions:
            self.assigned_once = True
            self._assigned(partitions, self._acquisitions.assigned)

    def _assigned(self, partitions: Iterable[int], acquisition: Callable[[], Acquisition]) -> None:
        shards = [self._assign(partition, acquisition()) for partition in sorted(partitions)]
        self._note()
        if shards:
            self._start(self._open(shards))

    def _assign(self, partition: int, acquisition: Acquisition) -> Shard:
        known = self.shards.get(partition)
        if known is not None:  # the group assigns the partition again without a revocation
            self.close_shard(known, "its partition is assigned again")
        self._number += 1
        shard = self.shards[partition] = Shard(partition, self._number, acquisition)
        return shard

    def revoked(self, partitions: Iterable[int]) -> Awaitable[None]:
        """Close shards at once; the result waits until no commit has any of them.

        Until their next owner has opened them, they may stay as standbys.
        """
        why, keep = "the group revoked its partition", self._events.keeps_moved()
        return self._events.without(self._close_all(partitions, why, keep=keep))

    def lost(self, partitions: Iterable[int]) -> None:
        """Close shards that another worker may own already; Kafka refuses commits for them."""
        self._close_all(partitions, "the group has assigned its partition to another worker")

    def _close_all(self, partitions: Iterable[int], why: str, *, keep: bool = False) -> list[Shard]:
        closed = [shard for each in partitions if (shard := self.shards.get(each)) is not None]
        for shard in closed:
            self.close_shard(shard, why, keep=keep)
        self._note()
        if self.shards:
            self._events.on_revoked()  # a worker that was the leader now sends its reports
        return closed

    def reopen(self, shards: Iterable[Shard], why: FirstseenError) -> None:
        """Replace shards whose committed state is unknown."""
        partitions = [
            shard.partition for shard in shards if self.shards.get(shard.partition) is shard
        ]
        for partition in partitions:
            self.close_shard(self.shards[partition], f"{why}: opening it again")
        self._unknown += 1
        if not self.is_stopped:
            self._assigned(partitions, self._acquisitions.reopened)

    # ---- closing

    def close_shard(self, shard: Shard, why: str, *, keep: bool = False) -> None:
        """Close a shard at once; its store is closed when nothing uses it any more.

        ``keep``: if it was open, its store becomes that of a standby.
        """
        was_open = shard.is_open
        shard.close()
        self._closing.add(shard)
        if self.shards.get(shard.partition) is shard:
            del self.shards[shard.partition]
        self._events.on_closed(shard)
        if was_open:
            shard.owned = None
            logger.info("shard %d closed: %s", shard.partition, why)
            if not keep:
                self._participant.drop_shard(shard.partition)
            elif self._participant.demote(shard.partition):
                assert shard.store is not None
                self._standbys.keep(shard.partition, shard.store)
                shard.store = None
        elif shard.partition == LEADING_SHARD:
            self._session_wanted.set()  # others may have waited until this one has begun the index
        if not shard.is_in_use:
            self._start(self._close_store(shard))

    async def _close_store(self, shard: Shard) -> None:
        try:
            await self._drop_filled(shard)
        finally:
            self._closing.discard(shard)
            shard.release()

    async def keep_all(self) -> None:
        """Close all shards, but keep the open ones as standbys; wait until no commit has any."""
        shards = list(self.shards)
        await self._events.without(self._close_all(shards, "the worker stops", keep=True))

    async def close(self) -> None:
        self.interrupt()
        await self._events.without(list(self.shards.values()))
        for shard in list(self.shards.values()):
            self.close_shard(shard, "the worker stops")
        self._session_wanted.set()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._standbys.close()

    def interrupt(self) -> None:
        self.is_stopped = True
        for shard in self.opening:
            shard.interrupted.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except FirstseenError as error:
                self._fail(error)
            except Exception as error:
                logger.exception("shards cannot be opened")
                self._fail(FirstseenError(f"shards cannot be opened: {error!r}"))

        task = asyncio.ensure_future(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- opening

    async def _open(self, shards: Sequence[Shard]) -> None:
        """Open each shard as soon as its last owner cannot commit any more."""
        logger.info("shards opening: %s", partition_ranges(each.partition for each in shards))
        for shard in shards:
            shard.acquisition.opens()
        cluster: _Cluster | None = None
        since = time.monotonic()
        while waiting := [shard for shard in shards if self._is_wanted(shard)]:
            partitions = [shard.partition for shard in waiting]
            try:
                await self._settle()
                cluster = cluster or await self._ask(partitions)
                committed = await self._member.committed(partitions)
                # Everything that earlier owners have committed is before this offset.
                log_end = (await self._log.offsets())[1]
            except _PASSING as error:
                logger.warning("shards are not open yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                cluster = None
                continue
            for shard in waiting:
                offset = committed.get(shard.partition)
                if offset is not None and self._is_wanted(shard):
                    shard.is_in_use = True
                    shard.log_end = log_end
                    shard.acquisition.ended(AcquisitionPhase.OFFSETS)
                    self._start(self._open_one(shard, cluster, offset))
            shards = [shard for shard in waiting if shard.partition not in committed]
            if shards:
                if time.monotonic() - since > _UNSTABLE_LINE_SECONDS:
                    since = time.monotonic()
                    logger.warning(
                        "shards wait for the end of a transaction that commits their offsets: "
                        "%s. 'firstseen topics check' finds a hung one",
                        partition_ranges(each.partition for each in shards),
                    )
                await asyncio.sleep(_UNSTABLE_SECONDS)

    def _is_wanted(self, shard: Shard) -> bool:
        return shard.is_opening and not self.is_stopped

    async def _settle(self) -> None:
        """Wait until commits of unknown outcome have ended in all partitions.

        Their markers may be visible in the group's offsets before they are in the changelog.
        """
        if (unknown := self._unknown) > self._settled:
            await self._committer.open()
            self._settled = max(self._settled, unknown)

    async def _ask(self, partitions: Sequence[int]) -> _Cluster:
        await self._index.grow_changelog()  # before its new partitions are read
        topic_id, claim, (log_start, _), _ = await asyncio.gather(
            self._index.topic_id(),
            self._index.claim(),
            self._log.offsets(),
            self._index.abort_left_open(partitions),
        )
        return _Cluster(topic_id, claim, log_start)

    async def _open_one(self, shard: Shard, cluster: _Cluster, committed: int) -> None:
        """Open the store of a shard and fill the index from it; retry after temporary errors."""
        try:
            await self._fill(shard, cluster, max(0, committed))
        except _PASSING as error:
            await self._open_again(shard, str(error))
        except ChangelogBehindError:
            if (why := await self._has_gone_back(shard, committed)) is None:
                raise
            await self._open_again(shard, why)
        except InterruptedError:
            pass
        finally:
            shard.is_in_use = False
            if not shard.is_opening:
                self._start(self._close_store(shard))
        if shard.is_filled:
            assert shard.progress is not None
            self._note_offset_set_back(shard, committed)
            shard.acquisition.ended(AcquisitionPhase.OPENING)
            self._session_wanted.set()

    async def _open_again(self, shard: Shard, why: str) -> None:
        logger.warning("shard %d is not open yet: %s", shard.partition, why)
        await self._drop_filled(shard)
        await asyncio.sleep(_RETRY_SECONDS)
        if self._is_wanted(shard):
            self._start(self._open([shard]))

    async def _has_gone_back(self, shard: Shard, committed: int) -> str | None:
        """Return that the group's offset is lower than ``committed`` now; None if it is not.

        Brokers that lost power may have lost commits after the offset was asked for.
        """
        try:
            now = (await self._member.committed([shard.partition])).get(shard.partition)
        except _PASSING as error:
            return str(error)
        if now is None:
            return "a transaction commits its offset"
        if now >= committed:
            return None
        return f"the group's offset has gone back from {committed} to {now} meanwhile"

    def _note_offset_set_back(self, shard: Shard, committed: int) -> None:
        """Say that the changelog counts, if somebody has set the group's offset back (-1: none)."""
        store = shard.standby if shard.store is None else shard.store
        assert store is not None
        assert shard.progress is not None
        # At least once, the offset is behind after a crash, too.
        if 0 <= committed < shard.progress.next and not store.place.writer:
            logger.warning(
                "the group's offset of %s/%d is %d, but what is before %d has its outputs: this "
                "worker goes on there. Records are read again only by a new index, with another "
                "application_id",
                self._topic,
                shard.partition,
                committed,
                shard.progress.next,
            )

    async def _fill(self, shard: Shard, cluster: _Cluster, committed_next: int) -> None:
        chain = Chain(self._topic, cluster.topic_id, shard.partition)
        for earlier in [each for each in self._closing if each.partition == shard.partition]:
            if earlier is not shard:  # the shard itself may be closed now
                await earlier.released()
        async with self._threads:
            if not self._is_wanted(shard):
                return
            store = await self._standbys.level(chain, committed_next)
            if store is not None:
                if not self._resume(shard, store, chain, cluster):
                    shard.standby, shard.is_filled = store, True
                    return
                why = "its progress is to be committed first: opening the shard instead"
                self._standbys.stores.drop(shard.partition, why)
            shard.store = store = await asyncio.to_thread(
                self._stores.open, shard.partition, committed_next, shard.interrupted
            )
        shard.is_new = self._resume(shard, store, chain, cluster)
        index = self._participant.index
        shard.slot = index.open_slot(visible=False)
        for _ in fill_index(index, shard.slot, store):
            await asyncio.sleep(0)
            if not self._is_wanted(shard):
                return
        shard.is_filled = True

    def _resume(self, shard: Shard, store: ShardStore, chain: Chain, cluster: _Cluster) -> bool:
        """Let a shard continue where its store says; return whether this must be committed first.

        It must be committed if it is new, or if the last progress record of the changelog came too
        late: compaction may leave that record alone. In shard 0 it must also be committed if the
        reading rules have changed, because workers that start later compare theirs with it.
        """
        stored = store.progress()
        shard.reads_as_before = self._reads_as_before(store)
        if stored is not None and stored.progress.chain.is_of(chain.topic_id):
            shard.progress = stored.progress
            shard.epochs = LeaderEpochs(RawOffset(stored.progress.next, stored.leader_epoch))
            has_changed = chain.partition == LEADING_SHARD and not shard.reads_as_before
            return has_changed or store.progress_refused > 0
        shard.progress = self._first_progress(stored, chain, cluster)
        return True

    def _reads_as_before(self, store: ShardStore) -> bool:
        stored = store.progress()
        return stored is not None and stored.reading == self._reading

    async def _drop_filled(self, shard: Shard) -> None:
        if shard.slot is not None:
            self._participant.index.drop_slot(shard.slot)
            shard.slot = None
        store, shard.store = shard.store, None
        if store is not None:
            await asyncio.to_thread(store.close)

    def _first_progress(
        self, stored: StoredProgress | None, chain: Chain, cluster: _Cluster
    ) -> Progress:
        """Return where a new shard begins, or one whose topic was created again."""
        claim = cluster.claim
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
            return Progress(chain, 0, before.position, before.control, before.clock)
        if claim is not None:
            return Progress(chain, 0, claim.position, claim.control, claim.clock)
        return Progress(chain, 0, cluster.log_start, NO_CONTROL)

    # ---- sessions

    def join(self, add: Callable[[], bool]) -> None:
        if add not in self._joining:
            self._joining.append(add)
        self._session_wanted.set()

    def begun(self) -> None:
        self._session_wanted.set()

    async def _run_sessions(self) -> None:
        while True:
            await self._session_wanted.wait()
            self._session_wanted.clear()
            if self.is_stopped:
                return
            try:
                await self._wait_for_others()
                await self._begin_session()
            except _PASSING as error:
                logger.warning("shards are not open yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._session_wanted.set()

    async def _wait_for_others(self) -> None:
        end = time.monotonic() + _TOGETHER_SECONDS
        while time.monotonic() < end and not self.is_stopped:
            if all(shard.is_filled for shard in self.opening):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _begin_session(self) -> None:
        filled = [shard for shard in self.opening if shard.is_filled]
        new = [shard for shard in filled if shard.is_new]
        if new:
            await self._begin_new(new)
        joining = [shard for shard in filled if not shard.is_new]
        partitions = {shard.partition for shard in joining} | self._participant.shards.keys()
        if LEADING_SHARD in partitions:
            await self._events.prepare_leader()
        # A session reads the log again, and does not notice that its end is lost. The index would
        # lack what lost records removed or made expire.
        start, end = await offsets_after(self._log, self._participant.log_seen)
        # There is no await from here on, so nothing changes while shards join.
        adding, self._joining = self._joining, []
        added = [add() for add in adding]
        self._standbys.stores.before_session(start)
        opened = [shard for shard in joining if self._is_wanted(shard) and self._own(shard)]
        if not opened and not any(added):
            return
        self._events.on_session(self._participant.begin(end))
        for shard in opened:
            self._events.on_open(shard)
            self._acquisitions.opened(shard)
            self._metrics.recovered(time.monotonic() - shard.acquisition.assigned_at)
            assert shard.store is not None
            assert shard.progress is not None
            logger.info(
                "shard %d open: %d documents, next raw offset %d",
                shard.partition,
                len(shard.store),
                shard.progress.next,
            )
        self._note()

    async def _begin_new(self, new: Sequence[Shard]) -> None:
        """Request a first commit for new shards, before any document of them is in the log.

        Shards without entries take the current position of shard 0; this is safe, because the
        leader trims the log only to positions that are a minute old. The settings of an index are
        those in shard 0, so the other shards wait until it has begun, also if this worker owns it:
        it may lose shard 0 before the commit, to a worker with other settings.
        """
        claim = await self._index.claim()
        if claim is None:
            waiting = partition_ranges(shard.partition for shard in new)
            new = [shard for shard in new if shard.partition == LEADING_SHARD]
            if not new:
                if waiting != self._logged_waiting:
                    self._logged_waiting = waiting
                    logger.info(
                        "shards wait until the owner of shard 0 has started the new index: %s",
                        waiting,
                    )
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._session_wanted.set)
                return
        self._logged_waiting = ""
        wanted = [shard for shard in new if self._is_wanted(shard)]
        for shard in wanted:
            progress, store = shard.progress, shard.store
            assert progress is not None
            assert store is not None
            is_empty = store.progress() is None
            if is_empty and claim is not None and claim.position > progress.position:
                chain, first = progress.chain, progress.next
                shard.progress = Progress(chain, first, claim.position, claim.control, claim.clock)
        self._events.begin(wanted)

    def _own(self, shard: Shard) -> bool:
        """Own a shard from this session on; return False if its standby no longer exists."""
        progress = shard.progress
        assert progress is not None
        if shard.standby is not None:
            shard.store = self._standbys.stores.promote(progress)
            shard.standby = None
            if shard.store is None:
                shard.is_filled = False
                self._start(self._open([shard]))
                return False
            owned = self._participant.shards[shard.partition]
        else:
            assert shard.store is not None
            assert shard.slot is not None
            owned = self._participant.held.own(progress, shard.store, shard.slot, shard.log_end)
        shard.opened(owned)
        return True

    def _note(self) -> None:
        self._metrics.assigned_shards(len(self.shards))
        self._metrics.opening_shards(len(self.opening))
