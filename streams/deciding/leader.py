"""The leader's work beside deciding: its appends, the reports of others, and trimming the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import LEADING_SHARD, Participant
from simhash_core.log.records import Report
from streams.deciding.stand_in import StandIn
from streams.intake.raw_batches import RawArrival
from streams.kafka.appender import AppendUnknownError
from streams.kafka.log_reader import LogReader, LogRecords
from streams.monitoring.metrics import Metrics
from streams.monitoring.rare_lines import RareLines
from streams.ordering.log_codec import LogDecodeError, OtherIndexError
from streams.ordering.log_stage import LogClient

logger = logging.getLogger(__name__)

_TRIM_SECONDS: Final = 10.0
_POSITION_SECONDS: Final = 60.0
"""How long a position must be known before the log is trimmed to it: a shard that is new takes its
first position from another one's, and has this long to say so."""

DeleteBefore = Callable[[int], Awaitable[None]]
"""Deletes the records of the log before an offset."""


class Leader:
    """What a worker does as the owner of raw partition 0. On the event loop alone."""

    def __init__(
        self,
        participant: Participant[RawArrival],
        log: LogClient,
        reports: LogReader,
        metrics: Metrics,
        delete_before: DeleteBefore,
        *,
        limit: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``limit``: of packets in a control record. Nothing is read before ``prepare``."""
        self._participant = participant
        self._codec, self._appender, self._topics = log
        self._reports = reports
        self._metrics = metrics
        self._delete_before = delete_before
        self._limit = limit
        self._now = now
        self._prepared = False
        self._led = False
        self._appending = False
        self._positions: dict[int, int] = {}
        self._trimmed = 0
        self._known: list[tuple[float, int]] = []
        self._trimmed_at = 0.0
        self._stand_in = StandIn(participant, now)
        self._foreign = RareLines(logger, "skipped %d reports; the last: %s")

    async def prepare(self) -> None:
        """Begin to read reports from now on: those of before this reign do not count."""
        self._prepared = False
        self._reports.seek(await self._reports.end_offset())
        self._prepared = True

    @property
    def is_missing(self) -> bool:
        """Whether the owner of the leading shard is silent, and this worker can lead for it."""
        return self._stand_in.is_due()

    async def stand_in(self) -> bool:
        """Lead for the owner of the leading shard, if it is still missing.

        Returns whether this worker begins to. No session may begin meanwhile. Raises
        ``UnansweredError``.
        """
        if not self.is_missing:
            return False
        await self.prepare()
        begins = self._stand_in.try_to_lead()
        if begins:
            logger.info("the leader is silent: this worker leads, with its standby")
        return begins

    def take_report(self, report: Report) -> None:
        """Take in a report of this worker, or one that was read."""
        self._positions.update(report.positions)
        self._participant.take_report(report)

    def take_reports(self, batch: LogRecords) -> None:
        """Take in reports that were read."""
        for offset, value, _ in batch.records:
            try:
                report = self._codec.decode_report(value, f"{self._topics.reports}/0@{offset}")
            except (OtherIndexError, LogDecodeError) as error:
                self._metrics.foreign_record("reports")
                self._foreign.note(error)
            else:
                if report.worker != self._participant.worker:
                    self.take_report(report)

    async def decide(self) -> None:
        """Append control records as long as there is something to decide."""
        if self._appending or not self._prepared:
            return
        self._appending = True
        try:
            while self._prepared:
                with self._metrics.stage("decide"):
                    control = self._participant.control(self._limit)
                if control is None:
                    break
                value = self._codec.encode(control)
                self._metrics.internal_bytes("log", len(value))
                try:
                    offset = await self._appender.append(self._topics.log, value)
                except AppendUnknownError as error:
                    logger.warning("this worker starts to lead again: %s", error)
                    self._participant.control_failed(control.leader)
                else:
                    self._participant.control_appended(offset, control.leader)
        finally:
            self._appending = False
        self._note()

    def _note(self) -> None:
        leads = self._participant.leads
        self._metrics.leader(leads)
        if leads != self._led:
            self._led = leads
            logger.info("this worker %s", "leads" if leads else "leads no more")

    def measure(self) -> None:
        """Set the metrics of who leads, and which shards do not report."""
        self._note()
        decider = self._participant.decider
        missing = set() if decider is None else decider.waits_for(self._participant.replica)
        self._metrics.reports_missing(missing)

    async def trim(self, partitions: int) -> None:
        """Delete what no shard needs of the log, at times.

        ``partitions``: of the raw topic. All of them must have reported from where they need the
        log: a shard without documents needs it too.
        """
        now = self._now()
        decider = self._participant.decider
        if decider is None or not decider.leads or now - self._trimmed_at < _TRIM_SECONDS:
            return
        if LEADING_SHARD not in self._participant.shards:
            return  # who stands in for the leader may not know of all positions
        self._trimmed_at = now
        for partition, shard in self._participant.shards.items():
            self._positions[partition] = shard.stream.committed.needed
        if not partitions or set(range(partitions)) - self._positions.keys():
            return
        self._known.append((now, min(self._positions.values())))
        old = [position for at, position in self._known if now - at >= _POSITION_SECONDS]
        if not old:
            return
        self._known = [each for each in self._known if now - each[0] < _POSITION_SECONDS]
        if old[-1] > self._trimmed:
            try:
                await self._delete_before(old[-1])
            except FirstseenError as error:
                logger.warning("the log is not trimmed: %s", error)
                return
            self._trimmed = old[-1]
            logger.debug("trimmed the log up to offset %d", self._trimmed)
