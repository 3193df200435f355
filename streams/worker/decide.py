"""Decide: a worker that is the leader appends control records and trims the log.

``simhash_core.log.decider`` makes the decisions. The owner of raw partition 0 leads. If the owner
is silent, a worker with a standby of that shard leads. An owner that is succeeded leads again at
once, or, if it decided nothing in its term, when the other leader is silent or a minute later.
Every leader decides the same verdicts, and if two workers lead, all readers ignore one of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from simhash_core.errors import FirstseenError
from simhash_core.log.participant import LEADING_SHARD, Participant
from simhash_core.log.records import Control, Report
from streams.kafka.log_reader import LogCutError
from streams.kafka.producers import AppendUnknownError
from streams.worker.context import WorkerContext
from streams.worker.fingerprint import PendingRecord
from streams.worker.log_codec import NOT_DECODED
from streams.worker.worker_log import RateLimitedLog

logger = logging.getLogger(__name__)

_TRIM_SECONDS: Final = 10.0
_POSITION_SECONDS: Final = 60.0
"""How long a position must be known before the log is trimmed to it. A new shard takes its first
position from another shard, and has this long to report it."""
# After so long without a decision, while documents wait, another worker leads.
SILENT_SECONDS: Final = 0.5
_PROMPT_SECONDS: Final = 1.0  # if the log takes longer to respond, the log itself was silent
_LONGEST_SECONDS: Final = 60.0
_GROWTH: Final = 2
# After so long without a fail-over and without a late decision, the wait is short again.
CALM_SECONDS: Final = 10.0

# Longer than the time between two reports of the version that a worker reads.
_MEMBERS_SECONDS: Final = 10.0


class LeaderFailover:
    """Decides when to lead instead of a silent leader, with shard 0 or a standby of it.

    Each fail-over doubles the wait for the next, so that workers that are all slow do not take the
    lead from each other. The wait is short again once decisions are prompt.
    """

    def __init__(
        self, participant: Participant[PendingRecord], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._participant = participant
        self._now = now
        self._wait = SILENT_SECONDS
        self._seen: tuple[int, int | None] = (0, None)
        self._since = now()
        self._late_at = now() - CALM_SECONDS
        self._led_at = now()

    def is_due(self) -> bool:
        participant, now = self._participant, self._now()
        owns = LEADING_SHARD in participant.shards
        if not owns or participant.decider is not None:
            self._led_at = now
        elif now - self._led_at >= _LONGEST_SECONDS and participant.caught_up:
            return True  # only an owner trims the log
        replica = participant.replica
        seen = replica.control, next(iter(replica.undecided), None)
        if seen != self._seen or seen[1] is None or not participant.caught_up:
            if self._seen[1] is not None and now - self._since > SILENT_SECONDS:
                self._late_at = now
            if now - self._late_at >= CALM_SECONDS:
                self._wait = SILENT_SECONDS
            self._seen, self._since = seen, now
            return False
        can_lead = owns or LEADING_SHARD in participant.held.standbys
        return can_lead and participant.decider is None and now - self._since >= self._wait

    def wait_again(self) -> None:
        """Start counting again: the log was silent, and the leader waits for it as well."""
        self._since = self._now()

    def try_to_lead(self) -> bool:
        """Return whether this worker tries to lead."""
        now = self._now()
        self._since = self._led_at = now
        if not self._participant.take_lead():
            return False
        self._wait, self._late_at = min(_GROWTH * self._wait, _LONGEST_SECONDS), now
        return True


class Leader:
    """The work of a worker as the leader; ``prepare`` must be called first."""

    def __init__(self, context: WorkerContext, now: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._participant = context.participant
        self._metrics = context.metrics
        self._reports = context.clients.reports
        self._index = context.clients.index
        self._now = now
        self._reads_reports = False
        self._led = False
        self._appending = False
        self._positions: dict[int, int] = {}
        self._trimmed = 0
        self._known: list[tuple[float, int]] = []
        self._trimmed_at = 0.0
        self._members_at = now()
        self._logged_version = 0
        self._failover = LeaderFailover(context.participant, now)
        self._foreign = RateLimitedLog(logger, "skipped %d reports; the last: %s")

    async def prepare(self) -> None:
        """Read reports from now on; raises ``UnansweredError``."""
        end = (await self._reports.offsets())[1]
        # A session and a fail-over may both prepare, and the later one must not skip reports.
        if not self._reads_reports:
            self._reads_reports = True
            self._reports.seek(end)

    def continue_after(self, cut: LogCutError) -> None:
        """Read the reports that are left; workers repeat the others when nothing is decided."""
        logger.warning("%s: this worker continues at offset %d", cut.found, cut.start)
        self._reports.seek(cut.start)

    @property
    def is_missing(self) -> bool:
        return self._failover.is_due()

    async def fail_over(self) -> bool:
        """Lead if ``is_missing`` still holds and the log responds; return whether it leads.

        While no broker leads the log, the worker that decides waits for one. Another worker that
        led meanwhile would be succeeded at once, and everything would be looked up again.
        """
        await self.prepare()
        requested_at = self._now()
        try:
            await self._context.clients.log.offsets()
        finally:
            if self._now() - requested_at > _PROMPT_SECONDS:
                self._failover.wait_again()
        if not self._failover.is_due():
            return False
        begins = self._failover.try_to_lead()
        if begins:
            held = f"shard {LEADING_SHARD}"
            if LEADING_SHARD not in self._participant.shards:
                held = f"a standby of {held}"
            logger.info("this worker takes the lead, with %s", held)
        return begins

    def take_report(self, report: Report) -> None:
        self._positions.update(report.positions)
        self._participant.take_report(report)

    def take_reports(self) -> None:
        topic = self._context.settings.topics.reports
        own = f"{self._context.settings.application_id}."
        while (batch := self._reports.take()) is not None:
            for offset, value, _ in batch.records:
                try:
                    report = self._context.codec.decode_report(value, f"{topic}/0@{offset}")
                except NOT_DECODED as error:
                    self._metrics.foreign_record("reports")
                    self._foreign.note(error)
                    continue
                if not report.worker.startswith(own):
                    self._metrics.foreign_record("reports")
                    self._foreign.note(f"{topic}/0@{offset} is of {report.worker}")
                elif report.worker != self._participant.worker:
                    self.take_report(report)

    async def decide(self) -> None:
        if self._appending:
            return
        self._appending = True
        try:
            while (control := self._next_control()) is not None:
                try:
                    offset = await self._context.append(control)
                except AppendUnknownError as error:
                    logger.warning("this worker restarts its decisions as the leader: %s", error)
                    self._participant.control_failed(control.leader)
                else:
                    self._participant.control_appended(offset, control.leader)
        finally:
            self._appending = False
        self._note()

    def _next_control(self) -> Control | None:
        with self._metrics.stage("decide"):
            return self._participant.control(self._context.settings.batch.documents)

    def _note(self) -> None:
        leads = self._participant.leads
        self._metrics.leader(leads)
        replica = self._participant.replica
        if replica.latest is not None and replica.version != self._logged_version:
            self._logged_version = replica.version
            logger.info("format version %d is in force", replica.version)
        if leads != self._led:
            self._led = leads
            logger.info("this worker %s", "leads" if leads else "no longer leads")

    def measure(self) -> None:
        self._note()
        decider = self._participant.decider
        missing = set() if decider is None else decider.waits_for(self._participant.replica)
        self._metrics.reports_missing(missing)

    @property
    def needs_members(self) -> bool:
        """Whether to query the members: the version may be raised, or standbys are open."""
        participant = self._participant
        latest = participant.replica.latest
        if not participant.leads or latest is None:
            return False
        is_due = self._now() - self._members_at >= _MEMBERS_SECONDS
        return is_due and (participant.awaits_raise or bool(latest.standbys))

    async def update_members(self) -> None:
        """Query the group's members; raises ``BrokerUnavailableError``."""
        self._members_at = self._now()
        self._participant.set_members(await self._index.members())

    async def trim(self, partitions: int) -> None:
        """Delete log records that no shard needs, if all ``partitions`` have reported positions."""
        now = self._now()
        decider = self._participant.decider
        if decider is None or not decider.leads or now - self._trimmed_at < _TRIM_SECONDS:
            return
        if LEADING_SHARD not in self._participant.shards:
            return  # a leader after a fail-over may not know all positions
        self._trimmed_at = now
        for partition, shard in self._participant.shards.items():
            self._positions[partition] = shard.stream.committed.needed
        if not partitions or set(range(partitions)) - self._positions.keys():
            return
        lowest = min(self._positions.values())
        self._known.append((now, lowest))
        old = [position for at, position in self._known if now - at >= _POSITION_SECONDS]
        if not old:
            return
        self._known = [each for each in self._known if now - each[0] < _POSITION_SECONDS]
        # A shard may have begun since then, and need more.
        if (position := min(old[-1], lowest)) > self._trimmed:
            try:
                await self._index.delete_before(position)
            except FirstseenError as error:
                logger.warning("the log is not trimmed: %s", error)
                return
            self._trimmed = position
            logger.debug("trimmed the log up to offset %d", self._trimmed)
