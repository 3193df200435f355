"""Puts out what is decided: one commit a cycle for all shards of a worker, then the stores."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import Participant, ShardReady
from simhash_core.rejections import Rejection
from simhash_core.verdicts import DuplicateOf
from streams.errors import UnansweredError
from streams.intake.raw_batches import RawArrival
from streams.kafka.batch_pace import BatchPace
from streams.kafka.commit_errors import AbortedError, FencedError, StaleGenerationError
from streams.kafka.transactions import Committer
from streams.monitoring.metric_labels import DEAD_LETTER, TransactionOutcome
from streams.monitoring.metrics import Metrics
from streams.monitoring.worker_notes import WorkerNotes
from streams.output.expired_outputs import ExpiredOutputs
from streams.output.output_batch import DecidedOutput, OutputBatch, OutputRules, output_batch
from streams.output.output_records import OutputKind
from streams.store.shard_store import ShardStore
from streams.store.state_codec import StoredProgress

logger = logging.getLogger(__name__)

_MILLISECONDS: Final = 1000
_ABORTS_LIMIT: Final = 10
_ABORTED_WAIT_SECONDS: Final = 0.2
_POSITION_SECONDS: Final = 10.0
"""How often shards without outputs commit how far they need the log, so that it can be trimmed."""
_STALE_WAIT_SECONDS: Final = 0.05
_COMMITS_GATHERED: Final = 50.0
"""Outputs a second from which on a commit waits for more: it is a dozen requests to the broker."""


class Group(Protocol):
    """The worker's membership of the group."""

    @property
    def committable(self) -> frozenset[int]:
        """The partitions that this member may commit."""
        ...

    def metadata_for(self, partitions: Iterable[int]) -> bytes:
        """Return what a transaction sends along with offsets.

        Raises ``StaleGenerationError`` where partitions are not of this member any more.
        """
        ...

    async def refresh_metadata(self) -> bool:
        """Ask for it again; return whether it changed."""
        ...


class Observer(Protocol):
    """Is shown what was put out, once it is committed."""

    def note(self, outputs: Sequence[DecidedOutput], now_ms: int) -> None:
        """Take in outputs."""
        ...

    def note_rejections(self, rejections: Sequence[Rejection], now_ms: int) -> None:
        """Take in records that became dead letters."""
        ...


class PutOut:
    """The cycles of one worker. On the event loop; ``lock`` is held while a commit is under way."""

    def __init__(
        self,
        participant: Participant[RawArrival],
        rules: OutputRules,
        committer: Committer,
        group: Group,
        metrics: Metrics,
        observer: Observer,
        *,
        limit: int,
        on_unanswered: Callable[[FirstseenError], Awaitable[None]],
    ) -> None:
        """``limit``: of records put out by one shard in one cycle.

        ``on_unanswered`` opens all shards again: it is not known what is committed.
        """
        self.lock = asyncio.Lock()
        self.stores: dict[int, ShardStore] = {}
        self._participant = participant
        self._rules = rules
        self._committer = committer
        self._group = group
        self._metrics = metrics
        self._observer = observer
        self._limit = limit
        self._notes = WorkerNotes(rules.writer, rules.page)
        kinds = {rules.topic_of(kind): kind for kind in OutputKind}
        self._expired = ExpiredOutputs(rules.retention_ms, kinds, metrics)
        self._on_unanswered = on_unanswered
        self._pace = BatchPace(fast=_COMMITS_GATHERED)
        self._aborts = 0
        self._positions_at = time.monotonic()

    async def cycle(self) -> bool:
        """Commit what is ready; return whether there may be more.

        Raises ``AbortedError`` after several aborts in a row, and ``FirstseenError`` for what
        trying again does not help.
        """
        if wait := self._pace.seconds():
            await asyncio.sleep(wait)
        try:
            async with self.lock:
                return await self._cycle()
        except UnansweredError as error:
            self._metrics.transaction(TransactionOutcome.UNANSWERED)
            await self._on_unanswered(error)
            return True

    async def _cycle(self) -> bool:
        positions = time.monotonic() - self._positions_at >= _POSITION_SECONDS
        if positions:
            self._positions_at = time.monotonic()
        with self._metrics.stage("output"):
            # A shard that was lost may not be closed yet, and must not hold up the others.
            owned = self._group.committable
            shards_ready = self._participant.ready(self._limit, positions=positions)
            ready = [each for each in shards_ready if each.partition in owned]
            if not ready:
                return False
            changes = {
                each.partition: self.stores[each.partition].change(
                    each.ready.entries, each.ready.removed, each.ready.expired_before
                )
                for each in ready
            }
            batch = output_batch(ready, self._rules, changes)
            counts = batch.counts()
            outputs = len(batch.outputs)
            self._pace.began(outputs, is_full=outputs >= self._limit)
        try:
            with self._metrics.waiting("commit"):
                ends = await self._committer.commit(
                    batch.records,
                    batch.offsets,
                    self._group.metadata_for(each.partition for each in ready),
                    self._notes.note(counts),
                )
        except (AbortedError, FencedError) as error:
            # Fenced by the broker, for a transaction that took too long: the id is this worker's.
            self._metrics.transaction(TransactionOutcome.ABORTED)
            self._aborts += 1
            logger.warning("a transaction was aborted, try %d: %s", self._aborts, error)
            if self._aborts >= _ABORTS_LIMIT:
                raise
            await asyncio.sleep(_ABORTED_WAIT_SECONDS)
            return True
        except StaleGenerationError as error:
            # Partitions are moving: the group says which within its session's time-out.
            self._metrics.transaction(TransactionOutcome.FENCED)
            if not await self._group.refresh_metadata():
                logger.info("outputs are waiting for a rebalance of the group: %s", error)
                await asyncio.sleep(_STALE_WAIT_SECONDS)
            return True
        self._aborts = 0
        self._metrics.transaction(TransactionOutcome.COMMITTED)
        self._metrics.internal_bytes("changelog", batch.changelog_bytes)
        with self._metrics.stage("store"):
            for each in ready:
                self.stores[each.partition].write(changes[each.partition], self.stored(each, ends))
        for each in ready:
            self._participant.committed(each)
        self._observe(ready, batch, counts)
        return True

    async def commit_first(
        self, ready: Sequence[ShardReady[RawArrival]], stores: Mapping[int, ShardStore]
    ) -> Mapping[int, int]:
        """Commit the first progress of new shards; ``lock`` must be held."""
        changes = {each.partition: stores[each.partition].change([]) for each in ready}
        batch = output_batch(ready, self._rules, changes)
        # The group may still have offsets of a topic that was deleted and created again.
        offsets = {each.partition: each.progress.next for each in ready}
        metadata = self._group.metadata_for(offsets)
        note = self._notes.note({})
        return await self._committer.commit(batch.records, offsets, metadata, note)

    def stored(self, ready: ShardReady[RawArrival], ends: Mapping[int, int]) -> StoredProgress:
        """Return the progress of a shard as its store keeps it."""
        return StoredProgress(
            ready.progress,
            ends.get(ready.partition, 0),
            int(time.time() * _MILLISECONDS),
            self._rules.identity,
            self._rules.reading,
        )

    def measure(self) -> None:
        """Set the metrics of how far back the index reaches and of the watermark of the log."""
        oldest = [store.oldest_time_ms() for store in self.stores.values()]
        replica = self._participant.replica
        clock = replica.clock_before(replica.decided_before)
        self._metrics.window(
            min((each for each in oldest if each is not None), default=None),
            None if clock is None else clock.watermark,
        )

    def _observe(
        self,
        ready: Sequence[ShardReady[RawArrival]],
        batch: OutputBatch,
        counts: Mapping[str, int],
    ) -> None:
        """Count what was put out, once it is committed."""
        now_ms = int(time.time() * _MILLISECONDS)
        metrics = self._metrics
        metrics.verdicts({name: counts[name] for name in counts if name != DEAD_LETTER})
        self._notes.committed(counts)
        times = [output.arrival.record.timestamp_ms for output in batch.outputs]
        if times:
            metrics.latencies([(now_ms - time_ms) / _MILLISECONDS for time_ms in times])
            metrics.last_record(max(times))
        metrics.distances(
            [
                output.verdict.distance
                for output in batch.outputs
                if isinstance(output.verdict, DuplicateOf)
            ]
        )
        for rejection in batch.rejections:
            metrics.dead_letter(rejection.reason)
        metrics.removed(batch.deletes, batch.removed, batch.expired)
        self._expired.note(batch.records, now_ms)
        for each in ready:
            shard = self._participant.shards[each.partition]
            metrics.shard_state(
                each.partition, len(self.stores[each.partition]), shard.stream.waiting
            )
        self._observer.note(batch.outputs, now_ms)
        self._observer.note_rejections(batch.rejections, now_ms)
