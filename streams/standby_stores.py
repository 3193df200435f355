"""The standbys that take part: each has a store that follows its owner's changelog.

Nothing here ends the worker: a standby that cannot be kept level is let go of.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from simhash_core.errors import FirstseenError
from simhash_core.log.packets import Chain
from simhash_core.log.participant import Participant
from simhash_core.log.records import Progress
from simhash_core.log.sequence import log_offset_of, sequence_number
from simhash_core.log.standby import Standby
from streams.intake.raw_batches import RawArrival
from streams.kafka.retries import becomes_true_on_loop
from streams.monitoring.metrics import Metrics
from streams.monitoring.rare_lines import RareLines
from streams.store.changelog_follower import ChangelogFollower
from streams.store.changelog_reader import LoggedBatch
from streams.store.entry_removal import Removal
from streams.store.recovery import load_batch
from streams.store.segment_keeper import KeptShard
from streams.store.shard_store import ShardStore

logger = logging.getLogger(__name__)

_LEVEL_SECONDS: Final = 10.0
"""The longest wait for the end of a changelog, before a shard is opened like any other."""
_LOG_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.01


class FollowedChangelog(NamedTuple):
    """``identity``: of the index. ``config``: librdkafka's, with a ``group.id``."""

    topic: str
    identity: str
    config: Mapping[str, Any]


class FilledStore(NamedTuple):
    """A store that is open, and its entries in the index, where no look-up sees them yet.

    ``log_end``: of the log, before the changelog was read.
    """

    store: ShardStore
    progress: Progress
    slot: int
    log_end: int


class StandbyStores:
    """On the event loop."""

    def __init__(
        self,
        participant: Participant[RawArrival],
        changelog: FollowedChangelog,
        metrics: Metrics,
        troubles: RareLines,
    ) -> None:
        """Begin without any."""
        self._participant = participant
        self._held = participant.held
        self._changelog = changelog
        self._metrics = metrics
        self._troubles = troubles
        self._stores: dict[int, ShardStore] = {}
        self._follower: ChangelogFollower | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def __contains__(self, partition: int) -> bool:
        """Return whether there is a standby of a shard."""
        return partition in self._stores

    @property
    def partitions(self) -> list[int]:
        """The shards of which there are standbys."""
        return sorted(self._stores)

    @property
    def await_session(self) -> bool:
        """Whether any does not take part yet, as no session began since it came."""
        return not all(each.in_session for each in self._held.standbys.values())

    async def close(self) -> None:
        """Let all go."""
        for partition in self.partitions:
            self.drop(partition, "the worker stops")
        follower, self._follower = self._follower, None
        if follower is not None:
            await follower.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def measure(self) -> None:
        """Set the metrics: how many there are, and how far behind."""
        lag = 0 if self._follower is None else self._follower.lag
        self._metrics.standbys(len(self._stores), lag)

    def kept(self) -> list[KeptShard]:
        """Return those whose segment files can be made."""
        before = sequence_number(self._participant.replica.decided_before, 0)
        return [
            KeptShard(standby.slot, store, store.segments, before)
            for partition, store in self._stores.items()
            if store.segments is not None
            and (standby := self._held.standbys.get(partition)) is not None
            and standby.in_session
        ]

    # ---- they come and go

    def take_in(self, partition: int, filled: FilledStore) -> None:
        """Let a standby take part from the next session on."""
        store, progress, slot, log_end = filled
        self._held.stand_by(progress, store, slot, log_end)
        self._stores[partition] = store
        self._follow(partition, store.changelog_offset)
        logger.info(
            "standby of shard %d open: %d documents, next raw offset %d",
            partition,
            len(store),
            progress.next,
        )

    def drop(self, partition: int, why: str) -> None:
        """Let a standby go; without effect where there is none."""
        self._participant.drop_standby(partition)
        if self._follower is not None:
            self._follower.leave(partition)
        store = self._stores.pop(partition, None)
        if store is not None:
            store.close()
            logger.info("standby of shard %d closed: %s", partition, why)

    def drop_outdated(self) -> None:
        """Let those go whose raw topic was created again: they are to be opened again."""
        for partition in self.partitions:
            if self._held.standbys[partition].is_outdated:
                self.drop(partition, "the raw topic was created again")

    def before_session(self, log_start: int) -> None:
        """Let those go that need more of the log than there is; ``log_start``: of the log."""
        self._held.progresses(self._participant.replica.decided_before)
        for partition in self.partitions:
            if self._held.standbys[partition].progress.needed < log_start:
                self.drop(partition, "the log was trimmed past it")

    # ---- they become shards

    async def level(self, chain: Chain, committed_next: int) -> ShardStore | None:
        """Bring a standby to the end of its changelog; return its store, None where there is none.

        To be called when no owner before can commit any more. ``committed_next``: the next raw
        offset that the group has committed. The store stays the standby's until ``promote``.
        """
        partition = chain.partition
        store = self._stores.get(partition)
        if store is None:
            return None
        try:
            if await self._is_level(chain, store, committed_next):
                return store
        except FirstseenError as error:
            self._troubles.note(error)
        self.drop(partition, "it is not level with its owner: the shard is opened")
        return None

    def promote(self, progress: Progress) -> ShardStore | None:
        """Let this worker own a shard, and return its store; None: it is to be opened.

        ``progress``: that of the store, once it was level.
        """
        partition = progress.chain.partition
        shard = self._participant.promote(progress)
        if shard is None:
            self.drop(partition, "the log was not read as far as its owner's progress")
            return None
        if self._follower is not None:
            self._follower.leave(partition)
        logger.info("the standby of shard %d becomes the shard", partition)
        return self._stores.pop(partition)

    async def _is_level(self, chain: Chain, store: ShardStore, committed_next: int) -> bool:
        partition, follower = chain.partition, self._follower
        if follower is None:
            return False
        deadline = time.monotonic() + _LEVEL_SECONDS
        while True:
            end = await follower.end(partition, _LEVEL_SECONDS)
            if not await follower.reach(partition, end, deadline - time.monotonic()):
                return False
            stored = store.progress()
            # A transaction that is committed may not be readable in all partitions yet.
            if stored is not None and stored.progress.next >= committed_next:
                break
            await asyncio.sleep(_AGAIN_SECONDS)
        position = stored.progress.position
        if not await becomes_true_on_loop(
            lambda: self._participant.replica.decided_before >= position,
            _LOG_SECONDS,
            _AGAIN_SECONDS,
        ):
            return False
        standby = self._held.standbys.get(partition)
        return standby is not None and not standby.is_outdated and standby.chain == chain

    # ---- what owners commit

    def _follow(self, partition: int, offset: int) -> None:
        if self._follower is None:
            topic, _, config = self._changelog
            self._follower = ChangelogFollower(config, topic, self._read, self._follower_failed)
            self._follower.open()
        self._follower.follow(partition, offset)

    def _follower_failed(self, error: Exception) -> None:
        self._troubles.note(error)
        for partition in self.partitions:
            self.drop(partition, f"the changelog cannot be followed: {error}")
        follower, self._follower = self._follower, None
        if follower is not None:
            task = asyncio.ensure_future(follower.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _read(self, partition: int, batch: LoggedBatch) -> None:
        """Take in what an owner has committed."""
        store, standby = self._stores.get(partition), self._held.standbys.get(partition)
        if store is None or standby is None:
            return
        try:
            removal = load_batch(store, batch, self._changelog.identity)
        except FirstseenError as error:
            self._troubles.note(error)
            self.drop(partition, str(error))
            return
        stored = store.progress()
        if stored is not None:
            removed = _removed(standby, removal, store.expired_before)
            standby.owner_committed(stored.progress, removed)
        await asyncio.sleep(0)


def _removed(standby: Standby, removal: Removal, expired_before: int) -> Iterable[int]:
    """Return the entries that the log took out, and that have left the store now."""
    sequences = {sequence for each in removal.deletions for sequence in each.sequences}
    packets = {log_offset_of(each.first) for each in removal.ends}
    return [
        each
        for each in standby.removed
        if each in sequences or log_offset_of(each) in packets or each < expired_before
    ]
