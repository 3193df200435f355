"""Acquisition: how long each phase takes from a move of a shard until its first output.

Nothing is done per document: a shard that has its line costs one comparison a commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from simhash_core.log.participant import LEADING_SHARD, Participant
from streams.monitoring.metrics import AcquisitionPhase, Metrics
from streams.worker.fingerprint import PendingRecord

if TYPE_CHECKING:
    from streams.worker.shard import Shard

logger = logging.getLogger(__name__)

_PHASES: Final = tuple(AcquisitionPhase)
_AFTER_ASSIGNMENT: Final = _PHASES[_PHASES.index(AcquisitionPhase.REBALANCE) + 1 :]


class Acquisition:
    """When the phases of one acquisition ended, on the clock ``now``.

    ``began_at``: when this worker saw that the group rebalances, or an error for which it opens the
    shard again; None if the assignment was the first that it saw of it.
    """

    def __init__(
        self, began_at: float | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self.assigned_at = now()
        self.began_at = began_at
        self.is_over = False
        self._ended: dict[AcquisitionPhase, float] = {}

    def opens(self) -> None:
        """Begin to open the shard, maybe again: what was reached before counts no more."""
        self._ended.clear()

    def ended(self, phase: AcquisitionPhase) -> None:
        """Note the end of a phase; only the first counts."""
        if phase not in self._ended:
            self._ended[phase] = self._now()

    def has(self, phase: AcquisitionPhase) -> bool:
        return phase in self._ended

    def seconds(self) -> dict[AcquisitionPhase, float]:
        """Return the seconds of each phase that ended, from the end of the one before.

        A phase that ended before an earlier one takes 0 s: an output may come before the log is
        read to its end.
        """
        found: dict[AcquisitionPhase, float] = {}
        if self.began_at is not None:
            found[AcquisitionPhase.REBALANCE] = max(0.0, self.assigned_at - self.began_at)
        latest = self.assigned_at
        for phase in _AFTER_ASSIGNMENT:
            if (at := self._ended.get(phase)) is not None:
                found[phase] = max(0.0, at - latest)
                latest = max(at, latest)
        return found

    def total(self) -> float:
        """Return the seconds until the first output, or until the last phase without one."""
        began = self.assigned_at if self.began_at is None else self.began_at
        last = self._ended.get(AcquisitionPhase.OUTPUT)
        if last is None:
            last = max(self._ended.values(), default=self.assigned_at)
        return max(0.0, last - began)


class Acquisitions:
    """The acquisitions of one worker: a log line and metrics of each that is over."""

    def __init__(
        self,
        participant: Participant[PendingRecord],
        metrics: Metrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._participant = participant
        self._metrics = metrics
        self._now = now
        self._began_at: float | None = None
        self._unfinished: list[Shard] = []

    def rebalance_began(self) -> None:
        """Note what this worker sees of a rebalance before its next assignment."""
        if self._began_at is None:
            self._began_at = self._now()

    def rebalance_ended(self) -> None:
        self._began_at = None

    def assigned(self) -> Acquisition:
        return Acquisition(self._began_at, self._now)

    def reopened(self) -> Acquisition:
        """Return that of a shard which opens again after an error that this worker sees now."""
        return Acquisition(self._now(), self._now)

    def opened(self, shard: Shard) -> None:
        """Follow a shard that takes part in the session from now on."""
        shard.acquisition.ended(AcquisitionPhase.SESSION)
        self._unfinished.append(shard)

    def step(self) -> None:
        """Note which phases have ended by now; called after each step of a stage."""
        if self._unfinished:
            self._unfinished = [shard for shard in self._unfinished if not self._finish(shard)]

    def _finish(self, shard: Shard) -> bool:
        """Return whether there is nothing more to follow."""
        participant, acquisition = self._participant, shard.acquisition
        if not shard.is_open:
            return True
        if not participant.caught_up:
            return False
        acquisition.ended(AcquisitionPhase.READING)
        if shard.partition == LEADING_SHARD and participant.decider is not None:
            if not participant.leads:
                return False
            acquisition.ended(AcquisitionPhase.LEADING)
        if not acquisition.has(AcquisitionPhase.OUTPUT) and not _has_no_output(shard):
            return False
        acquisition.is_over = True
        seconds = acquisition.seconds()
        self._metrics.acquired(seconds)
        logger.info(
            "shard %d acquired in %.3f s%s: %s",
            shard.partition,
            acquisition.total(),
            "" if AcquisitionPhase.OUTPUT in seconds else ", nothing to put out",
            _described(seconds),
        )
        return True


def _has_no_output(shard: Shard) -> bool:
    """Return whether all raw records that there are were put out before this worker came."""
    queue, owned = shard.queue, shard.owned
    if owned is None or not queue.is_at_end or queue.messages:
        return False
    return owned.stream.waiting == 0 and owned.stream.read_to + 1 >= queue.next


def _described(seconds: dict[AcquisitionPhase, float]) -> str:
    """Return the phases for the log; that of the rebalance also if it is unknown."""
    phases = [f"{phase} {took:.3f}" for phase, took in seconds.items()]
    if AcquisitionPhase.REBALANCE not in seconds:
        phases.insert(0, f"{AcquisitionPhase.REBALANCE} unknown")
    return ", ".join(phases)
