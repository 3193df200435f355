"""Acquisition: how long each phase takes from a move of a shard until its first output.

No work is done per document: a shard whose log line is written costs one comparison per commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from simhash_core.log.participant import LEADING_SHARD
from streams.monitoring.metrics import AcquisitionPhase
from streams.worker.context import WorkerContext
from streams.worker.shard import Acquisition, Shard

logger = logging.getLogger(__name__)


class Acquisitions:
    """The acquisitions of one worker; each finished one gives a log line and metrics."""

    def __init__(self, context: WorkerContext, now: Callable[[], float] = time.monotonic) -> None:
        self._participant = context.participant
        self._metrics = context.metrics
        self._now = now
        self._began_at: float | None = None
        self._unfinished: list[Shard] = []

    def rebalance_began(self) -> None:
        """Note that this worker sees the start of a rebalance before its next assignment."""
        if self._began_at is None:
            self._began_at = self._now()

    def rebalance_ended(self) -> None:
        self._began_at = None

    def assigned(self) -> Acquisition:
        return Acquisition(self._began_at, self._now)

    def reopened(self) -> Acquisition:
        """Return the acquisition of a shard that opens again after an error noticed now."""
        return Acquisition(self._now(), self._now)

    def opened(self, shard: Shard) -> None:
        """Measure a shard that takes part in the session from now on."""
        shard.acquisition.ended(AcquisitionPhase.SESSION)
        self._unfinished.append(shard)

    def step(self) -> None:
        """Note which phases have ended; called after each step of a stage."""
        if self._unfinished:
            self._unfinished = [shard for shard in self._unfinished if not self._finish(shard)]

    def _finish(self, shard: Shard) -> bool:
        """Return whether there is nothing more to measure."""
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
            "" if AcquisitionPhase.OUTPUT in seconds else ", nothing to output",
            _described(seconds),
        )
        return True


def _has_no_output(shard: Shard) -> bool:
    """Return whether all raw records were output before this worker got the shard."""
    queue, owned = shard.queue, shard.owned
    if owned is None or not queue.is_at_end or queue.messages:
        return False
    return owned.stream.waiting == 0 and owned.stream.read_to + 1 >= queue.next


def _described(seconds: dict[AcquisitionPhase, float]) -> str:
    """Return the phases for the log; this includes the rebalance even if its time is unknown."""
    phases = [f"{phase} {took:.3f}" for phase, took in seconds.items()]
    if AcquisitionPhase.REBALANCE not in seconds:
        phases.insert(0, f"{AcquisitionPhase.REBALANCE} unknown")
    return ", ".join(phases)
