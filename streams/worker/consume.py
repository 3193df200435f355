"""Consume: fetched raw records become batches, within limits.

Fetched records wait in the queues of shards (``timestamp_merge``). The fingerprint stage takes a
batch when it is free, unless too many records are in flight; then nothing is fetched until half of
them are written.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.log.records import NO_EPOCH
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import RawOffset
from streams.kafka.raw_consumer import Fetched, RawRecords
from streams.worker.alignment import LOOK_SECONDS, Alignment
from streams.worker.context import WorkerContext
from streams.worker.shard import Shard, epoch_of
from streams.worker.timestamp_merge import TimestampMerge

logger = logging.getLogger(__name__)

# ---- Batch pace: a fast stream comes in fewer, larger batches; a slow one is not delayed
#
# Each batch costs some milliseconds and several requests, and each partition in it costs two
# requests. So a batch of a fast stream waits until it has enough documents to be worth this, or
# for some time. More documents would only make them wait longer. If the worker or the brokers are
# slow, more batches would make them slower. So about three are in flight.
#
# A slow stream waits too while the event loop is busy most of the time: a slow processor is busy
# with a hundred batches of one document a second, and each waits for those before it.

GATHER_DOCUMENTS: Final = 16
PARTITION_DOCUMENTS: Final = 4  # the same per partition in the batch
BATCHES_IN_FLIGHT: Final = 3
GATHER_SECONDS: Final = 0.02  # the longest time between two batches of one partition
PARTITION_SECONDS: Final = 0.01  # the same per partition, if that is more
# Between two batches of a slow stream if the event loop is busy, for as many documents or as long.
BUSY_DOCUMENTS: Final = 4
BUSY_SECONDS: Final = 0.04
GATHER_SECONDS_MAX: Final = 0.08

_FAST: Final = 300.0  # records per second above which a stream is fast
_BUSY, _CALM = 0.6, 0.3  # shares of the time at which the loop becomes busy, and no longer is

_MEMORY_SECONDS: Final = 0.25  # the rate is a mean over about this time
_BUSY_MEMORY_SECONDS: Final = 1.0  # the same of the busy share


class BatchPace:
    """Decides when a batch may begin; above ``fast`` records per second they are gathered.

    ``cpu`` returns the processor time of the event loop. Without it, the loop is never busy.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        *,
        fast: float = _FAST,
        cpu: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._now = now
        self._fast = fast
        self._cpu = cpu
        self._cpu_seconds = cpu()
        self._began = -math.inf
        self._rate = self._busy_share = self._gather_seconds = 0.0
        self._is_busy = False

    def began(
        self, records: int, partitions: int = 1, in_flight: int = 0, *, is_full: bool = False
    ) -> None:
        """Note the start of a batch; if it ``is_full``, the next one may begin at once.

        ``in_flight``: records of earlier batches that have no output yet.
        """
        now = self._now()
        elapsed = now - self._began
        self._rate *= math.exp(-elapsed / _MEMORY_SECONDS)
        self._rate += records / _MEMORY_SECONDS
        self._note_busy(elapsed)
        self._began = now
        self._gather_seconds = 0.0
        if self._rate > self._fast and not is_full:
            longest = max(GATHER_SECONDS, PARTITION_SECONDS * partitions)
            enough = (GATHER_DOCUMENTS + PARTITION_DOCUMENTS * partitions) / self._rate
            a_third = in_flight / BATCHES_IN_FLIGHT / self._rate
            self._gather_seconds = min(max(min(enough, longest), a_third), GATHER_SECONDS_MAX)
        elif self._is_busy and not is_full:
            self._gather_seconds = min(BUSY_DOCUMENTS / self._rate, BUSY_SECONDS)

    def _note_busy(self, elapsed: float) -> None:
        before, self._cpu_seconds = self._cpu_seconds, self._cpu()
        if elapsed > 0:
            memory = math.exp(-elapsed / _BUSY_MEMORY_SECONDS)
            share = (self._cpu_seconds - before) / elapsed
            self._busy_share = memory * self._busy_share + (1 - memory) * share
        self._is_busy = self._busy_share > (_CALM if self._is_busy else _BUSY)

    def seconds(self) -> float:
        if not self._gather_seconds:
            return 0.0
        return max(0.0, self._began + self._gather_seconds - self._now())


# ---- Intake

_BATCH_BYTES = 4 * 1024 * 1024
_ARCHIVE_IDLE_SECONDS: Final = 2.0  # ``intake.idle_ms``, at least, in an archive with a window
_TURNED_BACK_SECONDS = 10.0
"""How long a partition may have lower offsets than were already read before this is an error. It
takes less time to notice that its topic was created again."""


class TopicRecreatedError(FirstseenError):
    """A partition ends before the next offset to read, and no leader epoch says why."""

    reason = ErrorReason.BROKER

    def __init__(self, topic: str, partition: int, wanted: int, current: int) -> None:
        super().__init__(
            f"{topic}/{partition} was to be read from offset {wanted}, but offset {current} was "
            "returned: the topic was deleted and created again, or an unclean leader election "
            "lost its last records, and the group's offset has no leader epoch. Newer records "
            f"below offset {wanted} get no output: send them again once the partition has passed it"
        )


class Intake:
    """The raw records of one worker, from fetches to batches; ``wake`` gets ``batch`` called."""

    def __init__(self, context: WorkerContext, wake: Callable[[], None]) -> None:
        settings = context.settings
        self._topic = settings.topics.raw
        self._limits = settings.in_flight
        self._records = settings.batch.documents
        self._member = context.clients.member
        self._shards = context.shards
        self._metrics = context.metrics
        self._wake = wake
        participant = context.participant
        self.alignment = Alignment(participant.nearness.window, participant.worker, context.shards)
        self._words = participant.nearness.scheme.words
        self._idle_seconds = settings.intake.idle_ms / 1000
        self._merge = TimestampMerge(self._idle_seconds)
        self._pace = BatchPace(time.monotonic, cpu=time.thread_time)
        self._later: asyncio.TimerHandle | None = None
        self._turned_back: dict[Shard, tuple[float, TopicRecreatedError]] = {}
        self._gaps: set[asyncio.Task[None]] = set()
        self._documents = self._bytes = 0
        self.is_held = False
        self.is_behind = False  # the last batch was full, or left records
        self._is_stopped = False

    # ---- shards

    def begin(self, shard: Shard, offset: int) -> None:
        shard.queue.next = offset
        self._merge.add(shard.queue)
        start = RawOffset(offset, shard.epochs.before(offset))
        self._member.read(shard.partition, start, shard.number)

    def end(self, shard: Shard) -> None:
        self._merge.remove(shard.queue)
        self._turned_back.pop(shard, None)
        if shard.owned is not None:
            stream = shard.owned.stream
            self.committed(stream.waiting, stream.waiting_bytes)

    def stop(self) -> None:
        self._is_stopped = True

    # ---- limits

    def taken_in(self, documents: int, size: int) -> None:
        """Count raw records that wait for their output; ``size`` is in bytes."""
        self._documents += documents
        self._bytes += size
        self._check_limits()

    def committed(self, documents: int, size: int) -> None:
        self.taken_in(-documents, -size)

    @property
    def is_empty(self) -> bool:
        """Whether no document waits for anything."""
        return not self._documents

    def _check_limits(self) -> None:
        limits = self._limits
        if self._documents >= limits.documents or self._bytes >= limits.bytes:
            self.is_held = True
        elif (
            self.is_held
            and self._documents <= limits.documents // 2
            and self._bytes <= limits.bytes // 2
        ):
            self.is_held = False
            self._wake()

    def measure(self) -> None:
        """Update the metrics of records in flight; raises ``TopicRecreatedError``."""
        self._metrics.in_flight(self._documents, self._bytes)
        for since, error in self._turned_back.values():
            # Before that, ``Pipeline`` may notice that the topic was created again.
            if time.monotonic() - since > _TURNED_BACK_SECONDS:
                raise error

    # ---- records

    def batch(self) -> list[RawRecords]:
        """Return runs of records, in order within each partition; empty if there are none now."""
        if self._is_stopped or self._is_full():
            return []
        while (fetched := self._member.take()) is not None:
            self._put_all(fetched)
        is_archive = self.alignment.reads_archive
        longer = _ARCHIVE_IDLE_SECONDS if is_archive else 0.0
        self._merge.idle_seconds = max(self._idle_seconds, longer)
        self._merge.is_exact = is_archive
        wait = self._merge.wait_seconds()
        if wait:
            self._wake_after(wait)
        batch = [] if wait else self._merge.take(self._records, _BATCH_BYTES)
        if not batch and not self.alignment.is_settled:
            if awaited := self._merge.awaited_seconds():
                self._wake_after(awaited)
            else:
                self.alignment.settled()
        if batch:
            records = sum(len(run.messages) for run in batch)
            self.is_behind = bool(self._merge) or records >= self._records
            self._pace.began(records, len(batch), self._documents, is_full=self.is_behind)
            self._member.gather(self._pace.seconds())
            for run in batch:
                self._check_gap(run)
        paused, resumed = self._merge.changed_pauses()
        self._member.pause(paused, paused=True)
        self._member.pause(resumed, paused=False)
        return batch

    def _is_full(self) -> bool:
        if self.alignment.waits_for_shards():
            self._wake_after(LOOK_SECONDS)
            return True
        if self.alignment.is_settled:
            return self.is_held
        # Shards of another worker have come, and may have records before those that wait here.
        limits = self._limits
        is_full = self._documents >= 2 * limits.documents or self._bytes >= 2 * limits.bytes
        if is_full:
            self.alignment.settled()
        return is_full

    def _wake_after(self, seconds: float) -> None:
        if self._later is not None:
            self._later.cancel()
        self._later = asyncio.get_running_loop().call_later(seconds, self._wake)

    def _put_all(self, fetched: Fetched) -> None:
        for run in fetched.runs:
            self._put(run)
        for partition, end in fetched.empty.items():
            self._check_empty(partition, end)
        for partition in fetched.ended:
            shard = self._shards.get(partition)
            if shard is not None:
                self._merge.at_end(shard.queue)

    def _put(self, run: RawRecords) -> None:
        shard = self._shards.get(run.partition)
        if shard is None or run.reading != shard.number or shard.lost_from is not None:
            return
        first, expected = run.messages[0].offset() or 0, shard.queue.next
        known = shard.epochs.before(expected)
        if first < expected:
            if NO_EPOCH < known < epoch_of(run.messages[0]):
                self._note_lost(shard, first)
            elif shard not in self._turned_back:
                error = TopicRecreatedError(self._topic, run.partition, expected, first)
                self._turned_back[shard] = time.monotonic(), error
                self._read_again(shard, RawOffset(expected, known))
            return
        if known == NO_EPOCH and shard in self._turned_back:
            return
        self._turned_back.pop(shard, None)
        shard.epochs.read(run.messages)
        self._merge.put(shard.queue, run)

    # ---- records that brokers have lost

    def _read_again(self, shard: Shard, offset: RawOffset) -> None:
        """Let the client compare epochs, as it did not if the broker had fewer records."""
        if offset.leader_epoch == NO_EPOCH:
            self._member.stop(shard.partition)
        else:
            self._member.read(shard.partition, offset, shard.number)

    def _note_lost(self, shard: Shard, first: int) -> None:
        """Output what was read of a partition, and then read it from ``first`` on as a new chain.

        Its brokers lost the records from there on, and others got their offsets.
        """
        shard.lost_from = first
        self._turned_back.pop(shard, None)
        self._member.stop(shard.partition)
        logger.warning(
            "%s/%d: the brokers lost records from offset %d on (an unclean leader election), and "
            "other records got their offsets. What was read of the lost records gets its outputs; "
            "then the partition is read from offset %d on",
            self._topic,
            shard.partition,
            first,
            first,
        )

    def end_chains(self) -> list[Shard]:
        """End the chains of partitions that lost records; return shards of which that is committed.

        Those go on with their next chain when they are opened again.
        """
        shards = [each for each in self._shards.values() if each.owned is not None]
        for shard in shards:
            assert shard.owned is not None
            stream = shard.owned.stream
            if stream.has_end and stream.read_to >= stream.head:
                stream.cut()  # perhaps a former owner has ended the chain
            if shard.lost_from is None and stream.differs:
                self._note_lost(shard, stream.differs_at)
            has_read_all = stream.read_to + 1 >= min(shard.queue.next, stream.differs_at)
            if shard.lost_from is not None and has_read_all:
                stream.end_chain(shard.lost_from, self._words)
        return [each for each in shards if each.owned is not None and each.owned.stream.is_over]

    # ---- records deleted before they were read

    def _check_gap(self, run: RawRecords) -> None:
        shard = self._shards.get(run.partition)
        if shard is None or shard.owned is None:
            return
        expected, first = shard.owned.stream.read_to + 1, run.messages[0].offset() or 0
        self._look_at_gap(shard, max(expected, shard.queue.empty_to), first)

    def _check_empty(self, partition: int, end: int) -> None:
        """Check a partition that had no record to read: perhaps all were deleted."""
        shard = self._shards.get(partition)
        if shard is None or shard.owned is None:
            return
        shard.queue.empty_to = end
        self._look_at_gap(shard, shard.owned.stream.read_to + 1, end)

    def _look_at_gap(self, shard: Shard, expected: int, first: int) -> None:
        # A new shard begins with the first record that exists.
        if 0 < expected < first:
            self._start(self._judge_gap(shard, expected, first))

    def _start(self, judgement: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(judgement)
        self._gaps.add(task)
        task.add_done_callback(self._gaps.discard)

    def absent(self, shard: Shard, offsets: Sequence[int]) -> None:
        """Count records with a verdict that were not there to be read again."""
        if offsets:
            why = "compaction removed" if shard.lost_from is None else "the brokers lost"
            self._start(self._judge_absent(shard.partition, offsets, why))

    async def _judge_absent(self, partition: int, offsets: Sequence[int], why: str) -> None:
        """Count those that are missing; the others are before the partition's start."""
        try:
            start = await self._member.log_start(partition)
        except BrokerUnavailableError:
            start = 0
        removed = [offset for offset in offsets if offset >= start]
        if not removed:
            return
        logger.warning(
            "%s/%d: %s %d records that a killed worker left without an output, at offsets %d to "
            "%d. Their verdicts stay: copies of them, such as later versions, are duplicates of "
            "documents that never come out",
            self._topic,
            partition,
            why,
            len(removed),
            removed[0],
            removed[-1],
        )
        self._metrics.skipped(self._topic, partition, len(removed))

    async def _judge_gap(self, shard: Shard, expected: int, first: int) -> None:
        """Count deleted records, which are before the partition's start; other gaps have none.

        The shard goes on behind them: perhaps no record follows.
        """
        partition = shard.partition
        try:
            start = await self._member.log_start(partition)
        except BrokerUnavailableError:
            start = first
        if shard.owned is None:
            return  # the next owner finds the same gap
        behind = min(first, start)
        shard.owned.stream.gone_before(behind)
        if behind <= expected:
            return  # the gap has markers of transactions, or comes from compaction
        logger.warning(
            "%s/%d: offsets %d to %d were deleted before they were read, and are skipped: the "
            "retention of the topic is shorter than the downtime of the workers (retention.ms, "
            "retention.bytes)",
            self._topic,
            partition,
            expected,
            behind - 1,
        )
        self._metrics.skipped(self._topic, partition, behind - expected)
