"""Lag, stalls, and the liveness of a worker."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from simhash_core.documents import TopicPartition
from simhash_core.errors import FirstseenError
from streams.topics.watermarks import Watermarks

# ---- Lag, and whether a worker is stuck.
#
# A consumer can stop reading without an error while its heartbeats continue, so that the group
# considers it alive. Only a restart helps then, so a stall fails the worker's liveness.
#
# A partition's timer runs while it has readable records, its position does not move, and this
# worker has to act. It does not run while the broker is down, the worker is not ready, or documents
# wait for another worker, because a restart would not help.


class PartitionLag(NamedTuple):
    position: int  # the next offset to process
    messages: int  # records from ``position`` to the end
    readable: int  # of these, the records before the first open transaction


def lag_of(position: int | None, watermarks: Watermarks) -> PartitionLag:
    """Return the lag at ``position``; None is the start of the partition.

    Deleted records do not count. A position past the end belongs to an earlier topic of the same
    name, and has no lag.
    """
    start, readable_end, end = watermarks
    actual = start if position is None else max(position, start)
    return PartitionLag(actual, max(0, end - actual), max(0, readable_end - actual))


class Stall(NamedTuple):
    partition: TopicPartition
    seconds: float
    position: int
    messages: int

    def __str__(self) -> str:
        return (
            f"{self.partition}: no progress for {self.seconds:.0f} s at offset {self.position}, "
            f"with {self.messages} records to process"
        )


class UnmovedOffset(NamedTuple):
    """An offset, and the time at which it last changed."""

    offset: int
    since: float


def unmoved_since(
    before: Mapping[TopicPartition, UnmovedOffset],
    offsets: Mapping[TopicPartition, int],
    now: float,
) -> dict[TopicPartition, UnmovedOffset]:
    """Return ``offsets`` with their times: from ``before`` where equal, otherwise ``now``."""
    unmoved: dict[TopicPartition, UnmovedOffset] = {}
    for partition, offset in offsets.items():
        known = before.get(partition)
        unmoved[partition] = (
            known if known and known.offset == offset else UnmovedOffset(offset, now)
        )
    return unmoved


class StallDetector:
    """Finds partitions without progress for ``limit_seconds``, by any monotonic clock."""

    def __init__(self, limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._positions: dict[TopicPartition, UnmovedOffset] = {}

    def pause(self) -> None:
        """Restart all timers, since the time until the next update is unknown."""
        self._positions.clear()

    def update(self, lags: Mapping[TopicPartition, PartitionLag], now: float) -> list[Stall]:
        """Return the stuck partitions; ``lags`` has every partition whose timer continues."""
        offsets = {partition: lag.position for partition, lag in lags.items() if lag.readable}
        self._positions = unmoved_since(self._positions, offsets, now)
        return [
            Stall(partition, now - position.since, position.offset, lags[partition].readable)
            for partition, position in sorted(self._positions.items())
            if now - position.since >= self.limit_seconds
        ]


# ---- The liveness of a worker, with the reason for a restart.
#
# A worker is dead only where a restart helps: it failed, its event loop stands still, or it does
# not do its own work. Waiting for a broker that is down, or for another worker, does not count.


class Health:
    def __init__(
        self,
        limit_seconds: float,
        failure: Callable[[], FirstseenError | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow the event loop ``limit_seconds`` between turns; ``failure`` is the worker's."""
        self._limit_seconds = limit_seconds
        self._failure = failure
        self._clock = clock
        self._beat = math.inf  # no silence before the first turn
        self.stalls: Sequence[Stall] = ()
        self.why_waiting: str | None = None
        """For which other worker documents wait, and how long."""

    def beat(self) -> None:
        self._beat = self._clock()

    def why_dead(self) -> str | None:
        failure = self._failure()
        if failure is not None:
            return str(failure)
        silence = self._clock() - self._beat
        if silence >= self._limit_seconds:
            return f"the event loop has not run for {silence:.0f} s"
        if self.stalls:
            return "stalled: " + "; ".join(map(str, self.stalls))
        return None
