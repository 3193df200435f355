"""Commit: writes decided documents, in one transaction per cycle for all shards of a worker.

A transaction holds the outputs, the changelog records (new entries and progress), and the raw
offsets of every shard in it. The offsets carry the generation of the group, so the coordinator
refuses commits for partitions that others own now. No step waits for a shard that opens or closes;
if a shard closes during a commit, the rest of the cycle skips it.

Brokers that lose power may lose records that they had acknowledged. A worker that has read them
must not commit what it made of them: the changelog would lack commits, and have progress and
entries of a log that does not exist. So a transaction does not end before its worker has seen that
the changelog goes on where the worker has read it, and, if a connection failed, that the log does.
After a transaction that failed, the worker looks whether the changelog still has its last commits.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

import numpy as np

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import ShardReady
from simhash_core.log.shard_stream import NewEntries, Ready
from simhash_core.verdicts import DuplicateOf
from streams.errors import BrokerUnavailableError, UnansweredError
from streams.kafka.errors import (
    AbortedError,
    FencedError,
    RecordsLostError,
    StaleGenerationError,
    UnverifiedError,
)
from streams.kafka.producers import CommitChecks, ProducerRecord
from streams.monitoring.group_watch import OffsetMetadataWriter
from streams.monitoring.metrics import DEAD_LETTER, AcquisitionPhase, TransactionOutcome
from streams.store.entry_batch import StoreChange
from streams.store.lineage import Lineage
from streams.store.recovery import is_ahead
from streams.store.row_codec import StoredProgress
from streams.store.row_store import StoreCorruptError
from streams.worker.clients import offsets_after
from streams.worker.consume import BatchPace, Intake
from streams.worker.context import WorkerContext
from streams.worker.fingerprint import PendingRecord
from streams.worker.outputs import ExpiredOutputs, OutputBatch, output_batch
from streams.worker.shard import Shard
from streams.worker.worker_log import RateLimitedLog

logger = logging.getLogger(__name__)

_SHARDS_TOGETHER: Final = 50
"""Shards that are checked or written before the event loop gets a turn."""

_MILLISECONDS: Final = 1000
_ABORTS_LIMIT: Final = 10
_ABORTED_WAIT_SECONDS: Final = 0.2
_SIZE_MAX: Final = 1 << 20
"""The most outputs and shards in one commit: no limit, until a transaction took too long."""
_POSITION_SECONDS: Final = 10.0
"""How often shards without outputs commit their log position, so that the log can be trimmed."""
_UNCHANGED_SECONDS: Final = 600.0
"""How often a shard commits its progress again; it also does so soon after it has opened. At least
once, a paused worker may have written an older one after it; this commit notices that, before
compaction removes the newer one. It tells other workers who owns an idle shard, and corrects the
group's offset: the coordinator of Kafka 3 forgets one if a request of the transaction before
arrives late (docs/decisions/late-requests.md)."""
_LOOK_SECONDS: Final = 10.0
"""How often a worker asks its producer whether a connection has failed."""
_MARKERS_SECONDS: Final = 15.0
"""How long an open transaction of another worker may hide the last commits of a shard."""
_STALE_WAIT_SECONDS: Final = 0.05
_COMMITS_GATHERED: Final = 150.0
"""With more outputs per second, a commit waits for others, as each costs a dozen requests."""
_BACKLOG_SECONDS_A_PARTITION: Final = 0.0025
_BACKLOG_SECONDS_MAX: Final = 0.5
"""The shortest time from one commit to the next in a backlog, by the partitions of an output topic.
Each partition in a commit is a request and a marker, however few records it gets."""
_BACKLOG_LOOK_SECONDS: Final = 0.02


class _ShardCommit(NamedTuple):
    shard: Shard
    ready: ShardReady[PendingRecord]
    change: StoreChange
    beyond_lateness: int = 0  # new entries


def _size(commit: _ShardCommit) -> int:
    return 1 + len(commit.ready.ready.outputs)


def _is_in_place(expected: int | None, end: int | None) -> bool:
    """Return whether a shard's records are at the expected offset; otherwise they do not count."""
    return expected in {None, end}


def _displaced(expected: int | None, shard: Shard) -> UnansweredError:
    return UnansweredError(
        f"the changelog of shard {shard.partition} does not end at {expected} after a commit: an "
        "earlier or a new owner of the shard has written to it"
    )


class CommitEvents(NamedTuple):
    """``on_unknown`` gets shards to reopen, because their committed or stored state is unknown.

    ``on_rebalance``: Kafka refused a commit because the group rebalances.
    """

    on_begun: Callable[[], None]
    on_rebalance: Callable[[], None]
    on_unknown: Callable[[Sequence[Shard], FirstseenError], None]


class OutputCommits:
    """The commits of one worker, one at a time, on the event loop.

    ``metadata`` is the group's, as of its latest rebalance.
    """

    def __init__(self, context: WorkerContext, intake: Intake, events: CommitEvents) -> None:
        clients, batch = context.clients, context.settings.batch
        self.metadata = b""
        self._participant = context.participant
        self._shards = context.shards
        self._rules = context.rules
        self._committer = clients.committer
        self._member = clients.member
        self._log = clients.log
        self._index = clients.index
        self._is_verified = True
        self._failures = 0
        self._looked_at = time.monotonic()
        self._intake = intake
        self._metrics = context.metrics
        self._observer = context.observers.recent
        self._traces = context.observers.traces
        self._events = events
        self._limit = batch.documents * batch.bundles  # records per shard
        self._size = _SIZE_MAX
        self._last_shard = -1  # of the last commit that did not have all shards
        self._notes = OffsetMetadataWriter(context.rules.writer, context.rules.page)
        self._late = RateLimitedLog(
            logger,
            "%d unique documents came more than index.lateness behind the watermark, so documents "
            "near them may have expired; the last in %s",
        )
        self._expired = ExpiredOutputs(context.rules, context.metrics)
        self._pace = BatchPace(time.monotonic, fast=_COMMITS_GATHERED)
        self._began = -math.inf  # the last commit
        self._new: list[Shard] = []
        self._under_way: frozenset[Shard] = frozenset()
        self._end: asyncio.Future[None] | None = None
        self._aborts = 0
        self._positions_at = self._unchanged_at = time.monotonic()
        self._is_stopped = False

    def begin(self, shards: Iterable[Shard]) -> None:
        """Commit the first progress of new shards with the next commit."""
        self._new += [shard for shard in shards if shard not in self._new]

    def stop(self) -> None:
        self._is_stopped = True

    async def without(self, shards: Iterable[Shard]) -> None:
        """Wait until no running commit has any of these shards."""
        closed = frozenset(shards)
        while self._end is not None and closed & self._under_way:
            await asyncio.wait([self._end])

    async def step(self) -> None:
        """Commit until nothing is ready.

        Raises ``AbortedError`` after several aborts in a row, and ``FirstseenError`` for permanent
        errors.
        """
        while not self._is_stopped and await self._cycle():
            pass

    async def _cycle(self) -> bool:
        await asyncio.sleep(0)
        await self._gather()
        await self._notice_failures()
        if not self._is_verified and not await self._verify():
            return True
        holds = self._member.holding()
        commits = self._first_of(await self._prepared())
        if not commits:
            return False
        with self._metrics.stage("output"):
            batch = await output_batch(
                [each.ready for each in commits],
                self._rules,
                {each.shard.partition: each.change for each in commits},
                {each.shard.partition: each.shard.epochs for each in commits},
                self._participant.version,
            )
        if not all(each.shard.is_open or each.shard.is_opening for each in commits):
            return True  # a shard was closed since
        if self._traces is not None:
            self._traces.decided((at, following - 1) for at, following in batch.offsets.items())
        counts = batch.counts()
        outputs = len(batch.outputs)
        self._pace.began(outputs, is_full=outputs >= self._limit)
        self._began = time.monotonic()
        self._under_way = frozenset(each.shard for each in commits)
        size = sum(map(_size, commits))
        self._end = end = asyncio.get_running_loop().create_future()
        try:
            with self._metrics.waiting("commit"):
                ends = await self._committer.commit(
                    batch.records,
                    batch.offsets,
                    self.metadata,
                    self._notes.note(counts),
                    batch.ends,
                    self._checks_of(commits, batch.records, holds),
                )
            await self._committed(commits, batch, counts, ends)
            self._size = min(_SIZE_MAX, self._size + self._size // 4 + 1)
        except UnverifiedError as error:
            self._is_verified = False
            self._metrics.transaction(TransactionOutcome.ABORTED)
            logger.info("%s: the last commits are looked up before the next one", error)
        except (AbortedError, FencedError) as error:
            self._is_verified = False
            self._size = max(1, size // 2)
            await self._note_abort(error)
        except StaleGenerationError as error:
            await self._note_stale(error)
        except UnansweredError as error:
            self._metrics.transaction(TransactionOutcome.UNANSWERED)
            self._is_verified = False
            self._size = max(1, size // 2)
            self._events.on_unknown([each.shard for each in commits], error)
        finally:
            self._under_way, self._end = frozenset(), None
            end.set_result(None)
        return True

    async def _gather(self) -> None:
        """Let outputs of a fast stream gather, and those of a backlog for longer."""
        if wait := self._pace.seconds():
            await asyncio.sleep(wait)
        next_at = self._began + min(
            _BACKLOG_SECONDS_MAX, _BACKLOG_SECONDS_A_PARTITION * self._rules.partitions
        )
        intake = self._intake
        while intake.is_behind and not (intake.is_held or self._is_stopped):
            left = next_at - time.monotonic()
            if left <= 0:
                break
            await asyncio.sleep(min(left, _BACKLOG_LOOK_SECONDS))

    async def _prepared(self) -> list[_ShardCommit]:
        """Return what each shard can commit now; the event loop gets turns in between."""
        now = time.monotonic()
        # The former owner of a shard that has moved keeps it open until a first commit.
        begins = self._participant.caught_up and self._has_opened
        positions = begins or now - self._positions_at >= _POSITION_SECONDS
        unchanged = positions and self._repeats_progress(now)
        if positions:
            self._positions_at = now
        if unchanged:
            self._unchanged_at = now
        commits: list[_ShardCommit] = []
        each_ready = self._participant.each_ready(
            min(self._limit, self._size), positions=positions, unchanged=unchanged
        )
        while True:
            with self._metrics.stage("output"):
                part = list(islice(each_ready, _SHARDS_TOGETHER))
                commits += self._of_shards(ready for ready in part if ready is not None)
            if len(part) < _SHARDS_TOGETHER:
                break
            await asyncio.sleep(0)
        self._new = [shard for shard in self._new if shard.is_opening]
        for shard in self._new:
            assert shard.store is not None
            assert shard.progress is not None
            nothing: Ready[PendingRecord] = Ready([], [], shard.progress.next)
            begun = ShardReady(shard.partition, nothing, shard.progress)
            commits.append(_ShardCommit(shard, begun, shard.store.change([])))
        return commits

    def _first_of(self, commits: list[_ShardCommit]) -> list[_ShardCommit]:
        """Return as many commits as one transaction may have, of all shards in turn."""
        if sum(map(_size, commits)) <= self._size:
            return commits
        commits.sort(
            key=lambda each: (each.shard.partition <= self._last_shard, each.shard.partition)
        )
        sizes = accumulate(map(_size, commits))
        part = commits[: max(1, sum(size <= self._size for size in sizes))]
        self._last_shard = part[-1].shard.partition
        return part

    def _repeats_progress(self, now: float) -> bool:
        return now - self._unchanged_at >= _UNCHANGED_SECONDS or self._has_opened

    @property
    def _has_opened(self) -> bool:
        return any(each.is_open and not each.has_committed for each in self._shards.values())

    def _of_shards(self, all_ready: Iterable[ShardReady[PendingRecord]]) -> Iterator[_ShardCommit]:
        for ready in all_ready:
            shard = self._shards.get(ready.partition)
            if shard is not None and shard.is_open and shard.store is not None:
                _, (_, entries, _, removed, expired_before, *_), _ = ready
                change = shard.store.change(entries, removed, expired_before)
                yield _ShardCommit(shard, ready, change, self._beyond_lateness(entries))

    def _beyond_lateness(self, entries: Iterable[NewEntries]) -> int:
        window = self._participant.nearness.window
        if window is None:
            return 0
        late = 0
        for log_offset, packet, rows in entries:
            clock = self._participant.replica.clock_before(log_offset)
            if clock is not None:
                due_ms = clock.watermark - window.lateness_ms
                late += int(np.count_nonzero(packet.columns.times_ms[rows] < due_ms))
        return late

    async def _notice_failures(self) -> None:
        """Let shards be verified that have nothing to commit, if brokers may have failed."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        if await self._committer.failures() > self._failures:
            self._is_verified = False

    async def _verify(self) -> bool:
        """Look for the last commits in the changelog, and the end of the log; False: no answer.

        A commit that failed may be the first sign that brokers have lost some, and what is left of
        it takes offsets. Raises ``RecordsLostError``.
        """
        deadline = time.monotonic() + _MARKERS_SECONDS
        try:
            await self._committer.open()  # the markers of its last transaction are written then
            failures = await self._committer.failures()
            while not self._is_stopped:
                last = dict(self._last_commits())
                logged = await self._index.lineages(last)
                ahead = [p for p in last if is_ahead(last[p], logged.get(p))]
                if not ahead:
                    await self._check_log()
                    self._failures, self._is_verified = failures, True
                    return True
                if time.monotonic() > deadline:
                    raise RecordsLostError(
                        f"{self._rules.topics.changelog}/{ahead[0]} lacks commit "
                        f"{last[ahead[0]].commit}"
                    )
                await asyncio.sleep(_ABORTED_WAIT_SECONDS)
        except (BrokerUnavailableError, UnansweredError) as error:
            logger.warning(
                "the last commits cannot be looked up in the changelog, so this worker commits "
                "nothing until they are; it tries again: %s",
                error,
            )
            await asyncio.sleep(_ABORTED_WAIT_SECONDS)
        return False

    def _last_commits(self) -> Iterator[tuple[int, Lineage]]:
        """Yield the last commit of each shard that is open, or has read its changelog."""
        for shard in self._shards.values():
            if not (shard.is_open or shard.is_opening) or shard.progress is None:
                continue
            store = shard.standby if shard.store is None else shard.store
            if store is not None:
                yield shard.partition, store.lineage

    def _checks_of(
        self,
        commits: Sequence[_ShardCommit],
        records: Sequence[ProducerRecord],
        holds: Callable[[], bool],
    ) -> CommitChecks:
        """Return checks that raise ``RecordsLostError``, ``StaleGenerationError`` or others.

        Offsets of this transaction were sent before the check. So if the worker still holds its
        partitions, a later owner waits for the end of the transaction.
        """
        stores = [(each.shard.partition, each.shard.store) for each in commits]
        read = {p: store.changelog_offset for p, store in stores if store is not None}
        topics = self._rules.topics
        counts = Counter(each.partition for each in records if each.topic == topics.changelog)

        def check_sent(ends: Mapping[int, int]) -> None:
            if not holds():
                raise StaleGenerationError("its partitions were released before it ended")
            for partition, end in ends.items():
                first = end - counts[partition]
                if first < read.get(partition, 0):
                    raise RecordsLostError(
                        f"{topics.changelog}/{partition} was read up to offset {read[partition]}, "
                        f"but went on at {first}"
                    )

        return CommitChecks(check_sent, self._check_log, self._failures)

    async def _check_log(self) -> None:
        await offsets_after(self._log, self._participant.log_seen)

    async def _committed(
        self,
        commits: Sequence[_ShardCommit],
        batch: OutputBatch,
        counts: Mapping[str, int],
        ends: Mapping[int, int],
    ) -> None:
        """Apply a successful commit to the shards that are still open."""
        self._aborts = 0
        self._metrics.transaction(TransactionOutcome.COMMITTED)
        self._metrics.internal_bytes("changelog", batch.changelog_bytes)
        for shard, *_, late in commits:
            self._metrics.beyond_lateness(late)
            self._late.note(f"{self._rules.topics.raw}/{shard.partition}", late)
        was_new = [each.shard for each in commits if each.shard.is_new]
        for first in range(0, len(commits), _SHARDS_TOGETHER):
            if first:
                await asyncio.sleep(0)
            with self._metrics.stage("store"):
                for each in commits[first : first + _SHARDS_TOGETHER]:
                    if not (each.shard.is_open or each.shard.is_opening):
                        continue
                    expected = batch.ends.get(each.shard.partition)
                    if _is_in_place(expected, ends.get(each.shard.partition)):
                        self._advance(each, ends)
                    else:
                        self._events.on_unknown([each.shard], _displaced(expected, each.shard))
        self._new = [shard for shard in self._new if shard.is_new]
        self._observe(batch, counts)
        if any(not shard.is_new for shard in was_new):
            self._events.on_begun()

    def _advance(self, commit: _ShardCommit, ends: Mapping[int, int]) -> None:
        shard, ready, change, _ = commit
        assert shard.store is not None
        try:
            shard.store.write(change, self._stored(commit, ends))
        except StoreCorruptError as error:
            # The other shards are committed too and continue.
            self._events.on_unknown([shard], error)
            return
        shard.has_committed = True
        if shard.is_opening:
            shard.is_new = False
            return
        assert shard.owned is not None
        stream = shard.owned.stream
        waiting, size = stream.waiting, stream.waiting_bytes
        self._participant.committed(ready)
        if not shard.acquisition.is_over and ready.ready.outputs:
            shard.acquisition.ended(AcquisitionPhase.OUTPUT)
        self._intake.committed(waiting - stream.waiting, size - stream.waiting_bytes)
        self._intake.absent(shard, ready.ready.absent)
        self._metrics.shard_state(shard.partition, len(shard.store), stream.waiting)

    def _stored(self, commit: _ShardCommit, ends: Mapping[int, int]) -> StoredProgress:
        shard, ready, change, _ = commit
        return StoredProgress(
            ready.progress,
            ends.get(ready.partition, 0),
            int(time.time() * _MILLISECONDS),
            self._rules.identity,
            self._rules.reading,
            lineage=change.lineage.next(self._rules.writer),
            leader_epoch=shard.epochs.before(ready.progress.next),
        )

    async def _note_abort(self, error: FirstseenError) -> None:
        # The broker also fences a transaction that took too long; this worker still owns its id.
        self._metrics.transaction(TransactionOutcome.ABORTED)
        self._aborts += 1
        logger.warning("a transaction was aborted, try %d: %s", self._aborts, error)
        if self._aborts >= _ABORTS_LIMIT:
            raise error
        await asyncio.sleep(_ABORTED_WAIT_SECONDS)

    async def _note_stale(self, error: FirstseenError) -> None:
        """Take the current generation's metadata, or wait until the group has rebalanced."""
        self._metrics.transaction(TransactionOutcome.FENCED)
        before, self.metadata = self.metadata, await self._member.metadata()
        if self.metadata == before:
            self._events.on_rebalance()
            logger.info("outputs are waiting for a rebalance of the group: %s", error)
            await asyncio.sleep(_STALE_WAIT_SECONDS)

    # ---- metrics and observers

    def measure(self) -> None:
        oldest: list[int | None] = []
        for shard in self._shards.values():
            if shard.is_open and shard.owned is not None and shard.store is not None:
                oldest.append(shard.store.oldest_time_ms())
                # While documents wait for a verdict or for a commit, no commit reports it.
                waiting = shard.owned.stream.waiting
                self._metrics.shard_state(shard.partition, len(shard.store), waiting)
        replica = self._participant.replica
        clock = replica.clock_before(replica.decided_before)
        self._metrics.window(
            min((each for each in oldest if each is not None), default=None),
            None if clock is None else clock.watermark,
        )

    def _observe(self, batch: OutputBatch, counts: Mapping[str, int]) -> None:
        if self._traces is not None:
            decided = ((each.source, each.document_id, each.verdict) for each in batch.outputs)
            self._traces.committed(decided, batch.rejections, batch.offsets.items())
        now_ms = int(time.time() * _MILLISECONDS)
        metrics = self._metrics
        metrics.verdicts({name: counts[name] for name in counts if name != DEAD_LETTER})
        self._notes.committed(counts)
        times = [each.record.timestamp_ms for each in batch.outputs]
        if times:
            metrics.latencies([(now_ms - time_ms) / _MILLISECONDS for time_ms in times])
            metrics.last_record(max(times))
        verdicts = [each.verdict for each in batch.outputs]
        metrics.distances([each.distance for each in verdicts if isinstance(each, DuplicateOf)])
        for rejection in batch.rejections:
            metrics.dead_letter(rejection.reason)
        metrics.removed(batch.deletes, batch.removed, batch.expired)
        self._expired.note(batch.records, now_ms)
        self._observer.note(batch.outputs, now_ms)
        self._observer.note_rejections(batch.rejections, now_ms)
