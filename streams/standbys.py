"""Which standbys this worker keeps, copies of other workers' shards, and how they are opened.

A function of the group says so (``streams.ordering.standby_plan``), which is called every few
seconds. A standby reports like an owner, so that packets are decided while the group waits for an
owner that was killed; and its new owner, which it probably is, has the shard open already.
Nothing here ends the worker: a standby that cannot be opened is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from simhash_core.errors import FirstseenError
from simhash_core.index.document_index import DocumentIndex
from simhash_core.log.packets import Chain
from simhash_core.log.participant import Participant
from simhash_core.log.records import Progress
from streams.intake.raw_batches import RawArrival
from streams.kafka.client_config import changelog_group, consumer_config
from streams.kafka.log_reader import LogReader
from streams.monitoring.metrics import Metrics
from streams.monitoring.rare_lines import RareLines
from streams.ordering.group_owners import GroupOwners, Owned
from streams.ordering.shard_opening import OpenStore
from streams.ordering.standby_plan import standby_plan
from streams.output.output_batch import OutputRules
from streams.settings.settings import Settings
from streams.standby_stores import FilledStore, FollowedChangelog, StandbyStores
from streams.store.index_filling import fill_index
from streams.store.shard_store import ShardStore

logger = logging.getLogger(__name__)

_WATCH_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5
_GROUP_SECONDS: Final = 4.0
"""How often the group is queried for who owns what."""
_TOGETHER_SECONDS: Final = 10.0
"""How long opened standbys wait for others: each session that begins reads the log again."""
_OPENED_TOGETHER: Final = 2


class Sessions(Protocol):
    """What standbys ask of the worker's shards."""

    def has(self, partition: int) -> bool:
        """Return whether a shard is owned here, or being opened."""
        ...

    async def join(self, add: Callable[[], bool]) -> None:
        """Call ``add`` while no shard comes or goes; begin a session if it returns true."""
        ...


class Group(NamedTuple):
    """``writer``: this worker's name. ``owners`` returns who owns what; blocking.

    ``watch_leader`` is called several times a second.
    """

    writer: str
    owners: Callable[[], Owned | None]
    watch_leader: Callable[[], Awaitable[None]]


class Standbys:
    """On the event loop. Implements ``StandbyShards``. ``stores``: of those that take part."""

    def __init__(
        self,
        copies: int,
        group: Group,
        stores: StandbyStores,
        open_stores: OpenStore,
        index: DocumentIndex,
        log_reader: LogReader,
        troubles: RareLines,
    ) -> None:
        """Do nothing before ``open``, and nothing at all without ``copies`` of a shard."""
        self.stores = stores
        self._copies = copies
        self._group = group
        self._open_stores = open_stores
        self._index = index
        self._log_reader = log_reader
        self._troubles = troubles
        self._filling: dict[int, asyncio.Task[None]] = {}
        self._filled: dict[int, FilledStore] = {}
        self._filled_since: float | None = None
        self._threads = asyncio.Semaphore(_OPENED_TOGETHER)
        self._wanted: set[int] = set()
        self._described_at = self._looked_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def open(self, sessions: Sessions) -> None:
        """Begin to keep standbys, on the running loop."""
        if self._copies:
            self._task = asyncio.ensure_future(self._run(sessions))

    async def close(self) -> None:
        """Let all standbys go."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for partition in [*self._filling, *self._filled]:
            await self._give_up(partition)
        await self.stores.close()

    def __contains__(self, partition: int) -> bool:
        """Return whether there is a standby of a shard, that takes part."""
        return partition in self.stores

    def promote(self, progress: Progress) -> ShardStore | None:
        """Let a standby become the shard (``StandbyStores.promote``)."""
        return self.stores.promote(progress)

    def before_session(self, log_start: int) -> None:
        """Let those go that need more of the log than there is."""
        self.stores.before_session(log_start)

    async def level(self, chain: Chain, committed_next: int) -> ShardStore | None:
        """Return the store of a standby that is level (``StandbyStores.level``).

        None where there is none; then no store of the shard is open here any more.
        """
        await self._give_up(chain.partition)
        return await self.stores.level(chain, committed_next)

    async def _run(self, sessions: Sessions) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                await self._group.watch_leader()
                await self._look(sessions)
            except FirstseenError as error:
                self._troubles.note(error)

    async def _look(self, sessions: Sessions) -> None:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        if now - self._described_at >= _GROUP_SECONDS:
            self._described_at = now
            owned = await asyncio.to_thread(self._group.owners)
            if owned is not None and self._group.writer in owned:
                self._plan(owned, sessions)
        if not self._filled and not self.stores.await_session:
            self._filled_since = None
            return
        self._filled_since = self._filled_since or now
        if not self._filling or now - self._filled_since > _TOGETHER_SECONDS:
            await sessions.join(lambda: self._take_in(sessions))

    def _plan(self, owned: Owned, sessions: Sessions) -> None:
        plan = standby_plan(owned, self._copies)
        wanted = {partition for partition, names in plan.items() if self._group.writer in names}
        self.stores.drop_outdated()
        for partition in self.stores.partitions:
            # What the group has given to this worker is about to become its shard.
            is_mine = partition in owned[self._group.writer] or sessions.has(partition)
            if partition not in wanted and not is_mine:
                self.stores.drop(partition, "another worker stands by")
        # Twice in a row: who came or went just now may be followed by others.
        steady, self._wanted = wanted & self._wanted, wanted
        for partition in sorted(steady - self._filling.keys() - self._filled.keys()):
            if partition not in self.stores and not sessions.has(partition):
                self._filling[partition] = asyncio.ensure_future(self._fill(partition))

    async def _fill(self, partition: int) -> None:
        """Open the store of a standby, and fill a slot of the index with its entries."""
        try:
            async with self._threads:
                filled = await self._opened(partition)
            if filled is not None:
                self._filled[partition] = filled
        except FirstseenError as error:
            self._troubles.note(error)
        finally:
            self._filling.pop(partition, None)

    async def _opened(self, partition: int) -> FilledStore | None:
        # First the end of the log: what the changelog has is before it.
        log_end = await self._log_reader.end_offset()
        store = await self._open_store(partition)
        slot: int | None = None
        try:
            stored = store.progress()
            if stored is None:  # its owner has not committed anything yet
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
        """Open a store, with all that its changelog has; where this is cancelled, close it."""
        interrupted = threading.Event()
        opening = asyncio.ensure_future(
            asyncio.to_thread(self._open_stores.open, partition, 0, interrupted)
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
        """Open a standby no further, where that is under way."""
        task = self._filling.get(partition)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        filled = self._filled.pop(partition, None)
        if filled is not None:
            self._index.drop_slot(filled.slot)
            filled.store.close()

    def _take_in(self, sessions: Sessions) -> bool:
        """Let opened standbys take part from the next session on; return whether any does."""
        filled, self._filled = self._filled, {}
        for partition, each in filled.items():
            if sessions.has(partition):
                self._index.drop_slot(each.slot)
                each.store.close()
            else:
                self.stores.take_in(partition, each)
        return self.stores.await_session


def standbys_of(
    settings: Settings,
    rules: OutputRules,
    participant: Participant[RawArrival],
    open_stores: OpenStore,
    log_reader: LogReader,
    metrics: Metrics,
    watch_leader: Callable[[], Awaitable[None]],
) -> Standbys:
    """Return the standbys of a worker, none of which is open."""
    config = consumer_config(settings, group_id=changelog_group(settings))
    changelog = FollowedChangelog(settings.topics.changelog, rules.identity, config)
    troubles = RareLines(logger, "%d troubles with standbys, which are tried again; the last: %s")
    stores = StandbyStores(participant, changelog, metrics, troubles)
    return Standbys(
        settings.standbys,
        Group(rules.writer, GroupOwners(settings, rules.writer).read, watch_leader),
        stores,
        open_stores,
        participant.index,
        log_reader,
        troubles,
    )
