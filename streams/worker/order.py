"""Order: documents become bundles, which are ordered by the log."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from simhash_core.log.participant import BundleLimit
from simhash_core.log.records import Bundle
from streams.kafka.producers import AppendUnknownError
from streams.kafka.raw_consumer import RawRecords
from streams.worker.alignment import LOOK_SECONDS
from streams.worker.consume import Intake
from streams.worker.context import WorkerContext
from streams.worker.fingerprint import RawBatches
from streams.worker.shard import Shard

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.2

# ---- When the next bundle may leave, and when workers report.
#
# A bundle is sent when the one before it was read back, or when it is full. So a lone document is
# sent at once, and under load bundles grow while they wait. Every worker reads every bundle, and a
# bundle of few documents costs more than its documents. So all workers together send one bundle for
# 16 documents, but between 125 and 625 bundles per second. If this leaves a worker less than one
# bundle in 80 ms, more may be sent. While there are fewer documents than bundles are allowed, none
# waits.
#
# All workers report at the same moments of the wall clock, so that one control record decides
# everything that they looked up. If clocks differ, this takes more control records.

_DOCUMENTS_OF_A_RECORD: Final = 16
_RECORDS_PER_SECOND: Final = 125
_RECORDS_PER_SECOND_MAX: Final = 625
_TURN_SECONDS: Final = 0.08
_REPORTS_PER_SECOND_MAX: Final = 500  # of all workers, unless bundles are more frequent
# Each is a multiple of the next, so workers report at the same time.
_REPORT_SECONDS: Final = (0.04, 0.02, 0.01, 0.005)
# Without the last bundle, after this time the next one is sent anyway.
_UNANSWERED_SECONDS: Final = 1.0
# Senders and documents are counted in the current and the last window of this length.
_WINDOW_SECONDS: Final = 1.0

BUNDLE_BYTES: Final = 256 * 1024  # the columns of one bundle; the last batch may exceed the limit


def records_per_second(senders: int, documents: float) -> float:
    """Return how many bundles all senders together send per second for this many documents."""
    records = max(documents / _DOCUMENTS_OF_A_RECORD, senders / _TURN_SECONDS, _RECORDS_PER_SECOND)
    return min(records, _RECORDS_PER_SECOND_MAX, max(documents, 1.0))


def report_seconds(senders: int, turn_seconds: float) -> float:
    """Return the time from one report of a worker to the next; 0: it does not wait."""
    if senders <= 1:
        return 0.0
    longest = max(turn_seconds, senders / _REPORTS_PER_SECOND_MAX)
    return next((each for each in _REPORT_SECONDS if each <= longest), _REPORT_SECONDS[-1])


class _Window:
    """Which workers sent bundles in some seconds, and with how many documents."""

    def __init__(self) -> None:
        self.senders: set[str] = set()
        self.documents = 0


class BundlePace:
    def __init__(
        self, now: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        self._wall = wall
        self._under_way = 0
        self._sent_at = -math.inf
        self._last, self._current = _Window(), _Window()
        self._counted_from = now()

    def begin(self) -> None:
        """Expect no bundle to be read back, because a new session reads the log again."""
        self._under_way = 0

    def sent(self) -> None:
        self._under_way += 1
        self._sent_at = self._now()

    def ended(self) -> None:
        """Note that a bundle of this worker was read back from the log, or not appended."""
        self._under_way = max(0, self._under_way - 1)

    def read(self, sender: str, documents: int) -> None:
        """Note a bundle that was read from the log."""
        now = self._now()
        if now - self._counted_from > _WINDOW_SECONDS:
            self._last, self._current = self._current, _Window()
            self._counted_from = now
        self._current.senders.add(sender)
        self._current.documents += documents

    def wait_seconds(self) -> float:
        """Return how long a bundle that is not full waits; infinite: until the last one is back."""
        since = self._now() - self._sent_at
        if self._under_way and since < _UNANSWERED_SECONDS:
            return math.inf
        return max(0.0, self.turn_seconds - since)

    @property
    def turn_seconds(self) -> float:
        """How long a bundle waits for those of the other senders.

        The mean time until this worker's next document arrives is subtracted, as it waits anyway.
        """
        senders, documents = self._senders, self._documents
        if senders <= 1 or not documents:
            return 0.0  # no other worker reads its bundles
        return senders / records_per_second(senders, documents) - senders / documents

    @property
    def _senders(self) -> int:
        return len(self._last.senders | self._current.senders)

    @property
    def _documents(self) -> float:
        """The number of documents of all senders per second."""
        return max(self._last.documents, self._current.documents) / _WINDOW_SECONDS

    def report_wait(self, reported_at: float) -> float:
        """Return how long the next report waits; ``reported_at`` is on the wall clock."""
        seconds = report_seconds(self._senders, self.turn_seconds)
        now = self._wall()
        if not seconds or now // seconds != reported_at // seconds:
            return 0.0
        return seconds - now % seconds


class BundleSender:
    """Sends the documents of one worker to the log, on the event loop."""

    def __init__(self, context: WorkerContext, batches: RawBatches, intake: Intake) -> None:
        self.pace = BundlePace()
        self.alignment = intake.alignment
        self._context = context
        self._shards = context.shards
        self._batches = batches
        self._traces = context.observers.traces
        self._intake = intake
        self._limit = BundleLimit(context.settings.batch.documents, BUNDLE_BYTES)
        # Number of documents, approximate: those since the last bundle that was not full.
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    async def take_in(self, records: Sequence[RawRecords]) -> None:
        runs = [run for run in records if self._is_current(run)]
        shards = {run.partition: self._shards[run.partition] for run in runs}
        batches = await self._batches.read(runs)
        for partition, batch in batches:
            shard = shards[partition]
            if shard.is_open and shard.owned is not None:  # the shard may be closed now
                shard.owned.stream.add(batch, compares=shard.reads_as_before)
                self._waiting += len(batch.columns)
                self._intake.taken_in(len(batch.records), batch.size)
        latest_ms = max((run.messages[-1].timestamp()[1] for run in records), default=0)
        self.alignment.taken_in(latest_ms, (batch.columns.times_ms for _, batch in batches))
        await self.send()

    def _is_current(self, run: RawRecords) -> bool:
        """Return whether records were read for a shard that is still open."""
        shard = self._shards.get(run.partition)
        return shard is not None and shard.is_open and shard.number == run.reading

    async def send(self) -> None:
        while True:
            if not self._append_next():
                return
            await asyncio.sleep(0)

    def _append_next(self) -> bool:
        """Append the next bundle if it may be sent; return whether another may follow at once."""
        wait = 0.0 if self._waiting >= self._limit.documents else self.pace.wait_seconds()
        if wait:
            self._send_later(min(wait, _UNANSWERED_SECONDS))
            return False
        with self._context.metrics.stage("append"):
            bundle = self._next_bundle()
            if bundle is None:
                self._waiting = 0
                return False
            self._waiting = max(0, self._waiting - len(bundle))
            shards = [self._shards[each.chain.partition] for each in bundle.segments]
            future = self._context.append(bundle)
            self.pace.sent()
            if self._traces is not None:
                self._traces.bundled(_ends(bundle))
            future.add_done_callback(partial(self._appended, shards, bundle))
        return True

    def _next_bundle(self) -> Bundle | None:
        participant, alignment = self._context.participant, self.alignment
        if not participant.caught_up:
            return None
        undecided = next(iter(participant.replica.undecided), None)
        until_ms = alignment.until_ms(participant.watermark_ms, undecided)
        bundle = participant.bundle(self._limit, until_ms)
        if bundle is None and until_ms is not None:
            earliest_ms = participant.earliest_to_send()
            if earliest_ms is not None:
                if alignment.must_wait(until_ms, earliest_ms):
                    self._send_later(LOOK_SECONDS)
                    return None
                until_ms = max(until_ms, earliest_ms + alignment.lead_ms)
                bundle = participant.bundle(self._limit, until_ms)
        alignment.sent()
        return bundle

    def _send_later(self, seconds: float) -> None:
        """Try again after this time, or at the time that an earlier call has set."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._append_and_continue)

    def _append_and_continue(self) -> None:
        self._timer = None
        if self._append_next():
            self._send_later(0)

    def _appended(
        self, shards: Sequence[Shard], bundle: Bundle, future: asyncio.Future[int]
    ) -> None:
        if future.cancelled() or (error := future.exception()) is None:
            if self._traces is not None:
                self._traces.logged(_ends(bundle))
            return
        self.pace.ended()
        if not isinstance(error, AppendUnknownError):
            self._context.append_failed(error)
            return
        for shard, packet in zip(shards, bundle.packets(), strict=True):
            if shard.is_open and shard.owned is not None:
                # This happens even if the packet is in the log, because a packet that is there
                # twice counts once.
                logger.warning("sending a packet of shard %d again: %s", shard.partition, error)
                shard.owned.stream.lost(packet)
        self._send_later(RETRY_SECONDS)


def _ends(bundle: Bundle) -> Iterator[tuple[int, int]]:
    return ((each.chain.partition, each.last) for each in bundle.segments)
