"""Standbys: copies of other workers' shards, which read the log and report like the owners.

With standbys, packets are decided while the group waits for an owner that was killed. The next
owner of its shards is probably the worker with the standby, which has them open already.
``standby_plan`` computes from the group's members which worker keeps which standby; it runs every
few seconds. An error in a standby never ends the worker, which drops the standby and opens it again
later.

If the group moves a shard, its former owner keeps it as a standby until the next owner has opened
it. So the documents of other partitions do not wait while it reads the changelog.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from simhash_core.errors import FirstseenError
from simhash_core.log import versions
from simhash_core.log.records import Chain, Progress, log_offset_of, sequence_number
from simhash_core.log.shards import Standby
from streams.kafka.errors import becomes_true_on_loop
from streams.store.changelog import LoggedBatch
from streams.store.compaction import KeptShard
from streams.store.entry_batch import Removal
from streams.store.recovery import fill_index, load_next
from streams.store.row_codec import StoredProgress
from streams.store.row_store import StoreCorruptError
from streams.store.shard_store import ShardStore
from streams.worker.clients import ChangelogClient
from streams.worker.context import WorkerContext
from streams.worker.index_on_kafka import Owned
from streams.worker.worker_log import RateLimitedLog

logger = logging.getLogger(__name__)

# The longest wait for the end of a changelog before the shard is opened normally.
_LEVEL_SECONDS: Final = 10.0
_LOG_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.01
_WATCH_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5
_GROUP_SECONDS: Final = 4.0
# How long opened standbys wait for others, because a session reads the log again.
_TOGETHER_SECONDS: Final = 10.0
_OPENED_TOGETHER: Final = 2


def standby_plan(owned: Mapping[str, Collection[int]], copies: int) -> dict[int, tuple[str, ...]]:
    """Return the workers that keep standbys of each shard, the likely next owner first.

    A standby is most useful on the worker that gets the shard when its owner is killed. The sticky
    assignor of librdkafka 2 makes this predictable: it assigns the partitions of a member that
    left, highest first, each to the member with the fewest partitions, or to the first of them by
    name. If the group decides otherwise, the new owner opens the shard as if there were no standby.

    ``owned`` also has the members without shards. In a small group a shard has fewer ``copies``.
    """
    plan: dict[int, tuple[str, ...]] = {}
    for owner, shards in owned.items():
        loads = {name: len(each) for name, each in owned.items() if name != owner}
        if not loads:
            continue
        for partition in sorted(shards, reverse=True):
            by_load = sorted(loads, key=lambda name: (loads[name], name))
            plan[partition] = tuple(by_load[:copies])
            loads[by_load[0]] += 1
    return plan


class FilledStore(NamedTuple):
    """An open store, with its entries in a slot of the index that no look-up reads yet."""

    store: ShardStore
    progress: Progress
    slot: int
    log_end: int  # before the changelog was read


@dataclass(slots=True)
class _Open:
    """``is_compared``: whether its last commit was found in the changelog since ``_follow``.

    ``until``: the position in the log that the next owner must have committed; None: the plan
    decides how long the standby stays open.
    """

    store: ShardStore
    is_compared: bool = False
    until: int | None = None


class StandbyStores:
    """This worker's open standbys, from their first session until they close or become shards."""

    def __init__(self, context: WorkerContext) -> None:
        self.errors = RateLimitedLog(logger, "%d errors of standbys, to be retried; the last: %s")
        self._context = context
        self._participant = context.participant
        self._held = context.participant.held
        self._open: dict[int, _Open] = {}
        self._follower: ChangelogClient | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def __contains__(self, partition: int) -> bool:
        return partition in self._open

    @property
    def partitions(self) -> list[int]:
        return sorted(self._open)

    @property
    def kept(self) -> list[int]:
        """The shards whose next owners have not opened them yet, without planned standbys."""
        return [partition for partition, each in self._open.items() if each.until is not None]

    @property
    def await_session(self) -> bool:
        return not all(each.in_session for each in self._held.standbys.values())

    async def close(self) -> None:
        for partition in self.partitions:
            self.drop(partition, "the worker stops")
        follower, self._follower = self._follower, None
        if follower is not None:
            await follower.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def measure(self, missing: int) -> None:
        """Update the metrics; ``missing`` is the number of own shards without an open standby."""
        lag = 0 if self._follower is None else self._follower.lag
        self._context.metrics.standbys(len(self._open), lag, missing)

    def to_compact(self) -> list[KeptShard]:
        before = sequence_number(self._participant.replica.decided_before, 0)
        return [
            KeptShard(
                standby.copy.slot, each.store, each.store.segments, before, standby.copy.removed
            )
            for partition, each in self._open.items()
            if each.store.segments is not None
            and (standby := self._held.standbys.get(partition)) is not None
            and standby.in_session
        ]

    # ---- open and close

    def take_in(self, partition: int, filled: FilledStore) -> None:
        store, progress, slot, log_end = filled
        self._held.add_standby(progress, store, slot, log_end)
        self._open[partition] = _Open(store)
        self._follow(partition)
        logger.info(
            "standby of shard %d open: %d documents, next raw offset %d",
            partition,
            len(store),
            progress.next,
        )

    def keep(self, partition: int, store: ShardStore, *, planned: bool) -> None:
        """Keep a shard that another worker will own; the participant has it as a standby.

        ``planned``: plans decide how long it stays open.
        """
        decided_before = self._participant.replica.decided_before
        self._open[partition] = _Open(store, until=None if planned else decided_before)
        self._follow(partition)
        logger.info("standby of shard %d open until its next owner has opened it", partition)

    def drop(self, partition: int, why: str) -> None:
        self._participant.drop_standby(partition)
        if self._follower is not None:
            self._follower.leave(partition)
        closed = self._open.pop(partition, None)
        if closed is not None:
            closed.store.close()
            logger.info("standby of shard %d closed: %s", partition, why)

    def is_succeeded(self, partition: int, planned: Iterable[str]) -> bool:
        """Return whether standbys of a shard are open at all members that should have one.

        This is also true while no control record says which ones are open.
        """
        latest = self._participant.replica.latest
        at = None if latest is None else latest.standbys_of(partition)
        return at is None or at.issuperset(planned)

    def missing(self, owned: Iterable[int]) -> list[int] | None:
        """Return this worker's shards without an open standby on another worker.

        None: this is unknown while the log is read again. Control records before
        ``versions.STANDBYS_SINCE`` do not have it; then the result is empty.
        """
        latest = self._participant.replica.latest
        if latest is None or not self._participant.caught_up:
            return None
        this = versions.member_of(self._participant.worker)
        at = {partition: latest.standbys_of(partition) for partition in owned}
        return sorted(p for p, names in at.items() if names is not None and not names - {this})

    def open_stores(self) -> list[ShardStore]:
        return [each.store for each in self._open.values()]

    def drop_damaged(self, damage: StoreCorruptError) -> bool:
        for partition, each in self._open.items():
            if each.store.path == damage.path:
                each.store.mark_damaged(damage)
                self.drop(partition, str(damage))
                return True
        return False

    def drop_outdated(self) -> None:
        for partition in self.partitions:
            if self._held.standbys[partition].is_outdated:
                self.drop(partition, "the raw topic was created again")

    def before_session(self, log_start: int) -> None:
        """Drop standbys that need log records before ``log_start``, which were trimmed."""
        self._held.progresses(self._participant.replica.decided_before)
        for partition in self.partitions:
            if self._held.standbys[partition].progress.needed < log_start:
                self.drop(partition, "the log was trimmed past it")

    # ---- take-over

    async def level(self, chain: Chain, committed_next: int) -> ShardStore | None:
        """Read a standby's changelog to its end; return its store, or None if that fails.

        Call it when no earlier owner can commit; ``committed_next`` is the group's raw offset.
        """
        partition = chain.partition
        standby = self._open.get(partition)
        if standby is None:
            return None
        try:
            if await self._is_level(chain, standby, committed_next):
                return standby.store
        except FirstseenError as error:
            self.errors.note(error)
        self.drop(partition, "it has not caught up with its owner: opening the shard instead")
        return None

    def promote(self, progress: Progress) -> ShardStore | None:
        """Make a standby this worker's shard; return its store, or None if it is not up to date."""
        partition = progress.chain.partition
        shard = self._participant.promote(progress)
        if shard is None:
            self.drop(
                partition, "this worker has read less of the log than the owner's progress needs"
            )
            return None
        if self._follower is not None:
            self._follower.leave(partition)
        logger.info("the standby of shard %d becomes the shard", partition)
        return self._open.pop(partition).store

    async def _is_level(self, chain: Chain, opened: _Open, committed_next: int) -> bool:
        partition, store = chain.partition, opened.store
        end = await self._read_to_end(partition, store, committed_next)
        stored = store.progress()
        # It may have read commits that brokers lost afterwards; the opening finds out.
        if end is None or stored is None or stored.progress.next > committed_next:
            return False
        if store.lineage.commit and not opened.is_compared:
            return False  # its last commit is not in the changelog
        store.read_to(end)
        position = stored.progress.position
        if not await becomes_true_on_loop(
            lambda: self._participant.replica.decided_before >= position,
            _LOG_SECONDS,
            _AGAIN_SECONDS,
        ):
            return False
        standby = self._held.standbys.get(partition)
        if standby is None or standby.is_outdated:
            return False
        return standby.copy.chain.is_of(chain.topic_id)

    async def _read_to_end(
        self, partition: int, store: ShardStore, committed_next: int
    ) -> int | None:
        """Read the changelog; return its end, None if it lacks the group's progress for too long.

        A committed transaction may not be readable in all partitions yet.
        """
        follower = self._follower
        if follower is None:
            return None
        deadline = time.monotonic() + _LEVEL_SECONDS
        self._follow(partition)
        while time.monotonic() < deadline:
            end = await follower.end(partition, _LEVEL_SECONDS)
            if not await follower.reach(partition, end, deadline - time.monotonic()):
                return None
            stored = store.progress()
            if stored is not None and stored.progress.next >= committed_next:
                return end
            await asyncio.sleep(_AGAIN_SECONDS)
        return None

    # ---- the changelog

    def _follow(self, partition: int) -> None:
        """Read from the store's last commit on, to compare that with the changelog.

        Compaction may have removed its progress, but then a later one follows.
        """
        if self._follower is None:
            self._follower = self._context.clients.follow(self._read)
            self._follower.begin(self._follower_failed)
        opened = self._open[partition]
        opened.is_compared = False
        self._follower.follow(partition, max(0, opened.store.changelog_offset - 1))

    def _follower_failed(self, error: Exception) -> None:
        self.errors.note(error)
        for partition in self.partitions:
            self.drop(partition, f"the changelog cannot be read: {error}")
        follower, self._follower = self._follower, None
        if follower is not None:
            task = asyncio.ensure_future(follower.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _read(self, partition: int, batch: LoggedBatch) -> None:
        opened, standby = self._open.get(partition), self._held.standbys.get(partition)
        if opened is None or standby is None:
            return
        store = opened.store
        try:
            removal, is_compared = load_next(store, batch, self._context.rules.identity)
        except FirstseenError as error:
            self.errors.note(error)
            self.drop(partition, str(error))
            return
        opened.is_compared |= is_compared
        stored = store.progress()
        if stored is not None:
            removed = _removed(standby, removal, store)
            standby.owner_committed(stored.progress, removed)
            if opened.until is not None:
                if standby.is_outdated:
                    self.drop(partition, "the raw topic was created again")
                elif self._is_replaced(opened.until, stored):
                    self.drop(partition, "its next owner has opened it")
        await asyncio.sleep(0)

    def _is_replaced(self, until: int, stored: StoredProgress) -> bool:
        """Return whether the next owner of a shard has read the log, and reports from there on."""
        has_read = stored.progress.position >= until
        return has_read and not stored.lineage.is_of(self._context.rules.writer)


def _removed(standby: Standby, removal: Removal, store: ShardStore) -> Iterable[int]:
    """Return the entries removed by the log that are now deleted from the store too."""
    sequences = {sequence for each in removal.deletions for sequence in each.sequences}
    packets = {log_offset_of(each.first) for each in removal.ends}
    return [
        each
        for each in standby.copy.removed
        if each < store.expired_before
        or ((each in sequences or log_offset_of(each) in packets) and not store.has(each))
    ]


Join = Callable[[Callable[[], bool]], None]
"""Calls a function before the next session; if it returns True, that session begins soon."""


class Standbys:
    """Decides which standbys this worker has, and opens them; ``shards`` are its own shards."""

    def __init__(self, context: WorkerContext, watch_leader: Callable[[], Awaitable[None]]) -> None:
        """``watch_leader`` checks the leader; it is called often."""
        self.stores = StandbyStores(context)
        self.missing: Sequence[int] = ()
        """This worker's shards without an open standby that should have one; for any thread."""
        self.leaves = False
        """Whether this worker leaves the group, and keeps its shards until others have them."""
        self._copies = context.settings.standbys
        self._writer = context.rules.writer
        self._shards = context.shards
        self._clients = context.clients
        self._watch_leader = watch_leader
        self._index = context.participant.index
        self._filling: dict[int, asyncio.Task[None]] = {}
        self._filled: dict[int, FilledStore] = {}
        self._filled_since: float | None = None
        self._threads = asyncio.Semaphore(_OPENED_TOGETHER)
        self._wanted: set[int] = set()
        self._described_at = self._looked_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def open(self, join: Join) -> None:
        self._task = asyncio.ensure_future(self._run(join))

    def measure(self) -> None:
        missing = self.stores.missing(self._shards) if self._copies else []
        if missing is not None:
            self.missing = missing
        self.stores.measure(len(self.missing))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for partition in [*self._filling, *self._filled]:
            await self._give_up(partition)
        await self.stores.close()

    def keep(self, partition: int, store: ShardStore) -> None:
        """Keep a shard of this worker until its next owner has opened it.

        In a worker with planned standbys that remains in the group, plans decide how long.
        """
        self.stores.keep(partition, store, planned=bool(self._copies) and not self.leaves)

    async def level(self, chain: Chain, committed_next: int) -> ShardStore | None:
        """Return the store of a level standby, or None; then no store of the shard is open here."""
        await self._give_up(chain.partition)
        return await self.stores.level(chain, committed_next)

    async def _run(self, join: Join) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                await self._watch_leader()  # also without standbys: see ``Participant.take_lead``
                if self._copies:
                    await self._look(join)
            except FirstseenError as error:
                self.stores.errors.note(error)

    async def _look(self, join: Join) -> None:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        if now - self._described_at >= _GROUP_SECONDS:
            self._described_at = now
            owned = await asyncio.to_thread(self._clients.owners)
            if owned is not None and self._writer in owned:
                self._plan(owned)
        if not self._filled and not self.stores.await_session:
            self._filled_since = None
            return
        self._filled_since = self._filled_since or now
        if not self._filling or now - self._filled_since > _TOGETHER_SECONDS:
            join(self._take_in)

    def _plan(self, owned: Owned) -> None:
        plan = standby_plan(owned, self._copies)
        wanted = {partition for partition, names in plan.items() if self._writer in names}
        self.stores.drop_outdated()
        for partition in self.stores.partitions:
            # A standby of a shard that the group has assigned to this worker soon becomes the
            # shard.
            is_mine = partition in owned[self._writer] or partition in self._shards
            if partition in wanted or is_mine:
                continue
            if self.stores.is_succeeded(partition, plan.get(partition, ())):
                self.stores.drop(partition, "another worker keeps the standby")
        # Open only standbys of two plans in a row, because members often join or leave together.
        steady, self._wanted = wanted & self._wanted, wanted
        for partition in sorted(steady - self._filling.keys() - self._filled.keys()):
            if partition not in self.stores and partition not in self._shards:
                self._filling[partition] = asyncio.ensure_future(self._fill(partition))

    async def _fill(self, partition: int) -> None:
        try:
            async with self._threads:
                filled = await self._opened(partition)
            if filled is not None:
                self._filled[partition] = filled
        except FirstseenError as error:
            self.stores.errors.note(error)
        finally:
            self._filling.pop(partition, None)

    async def _opened(self, partition: int) -> FilledStore | None:
        # The end of the log is read first, so that everything in the changelog is before it.
        log_end = (await self._clients.log.offsets())[1]
        store = await self._open_store(partition)
        slot: int | None = None
        try:
            stored = store.progress()
            if stored is None:  # the owner has committed nothing yet
                store.close()
                return None
            slot = self._index.open_slot(visible=False)
            for _ in fill_index(self._index, slot, store):
                await asyncio.sleep(0)
        except BaseException:
            if slot is not None:
                self._index.drop_slot(slot)
            store.close()
            raise
        return FilledStore(store, stored.progress, slot, log_end)

    async def _open_store(self, partition: int) -> ShardStore:
        """Open a store and read its whole changelog; close the store if this is cancelled."""
        interrupted = threading.Event()
        opening = asyncio.ensure_future(
            asyncio.to_thread(self._clients.stores.open, partition, 0, interrupted)
        )
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            interrupted.set()
            await asyncio.wait([opening])
            if opening.exception() is None:
                opening.result().close()
            raise

    async def _give_up(self, partition: int) -> None:
        task = self._filling.get(partition)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        filled = self._filled.pop(partition, None)
        if filled is not None:
            self._index.drop_slot(filled.slot)
            filled.store.close()

    def _take_in(self) -> bool:
        """Add opened standbys before a session begins; return whether any of them joins it."""
        filled, self._filled = self._filled, {}
        for partition, each in filled.items():
            if partition in self._shards:
                self._index.drop_slot(each.slot)
                each.store.close()
            else:
                self.stores.take_in(partition, each)
        return self.stores.await_session
