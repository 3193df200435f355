"""Lag, the records between a position and the end of a partition; and whether a worker is stuck.

A consumer can stop reading a partition without an error while its heartbeats continue, so that the
group considers it alive. Only a restart helps then, so a stall fails the worker's liveness.

A timer for each partition runs while it has records that can be read and its position does not
move. It does not run while the broker is down, nor for raw partitions while the worker is not
ready: a restart would help in neither case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from simhash_core.documents import TopicPartition
from streams.topics.watermarks import Watermarks


class PartitionLag(NamedTuple):
    """How far a partition is behind.

    ``position``: the next offset to process, at or after the partition's start. ``messages``: the
    records from there to the end. ``readable``: those of them that can be read now; those after the
    start of an open transaction cannot.
    """

    position: int
    messages: int
    readable: int


def lag_of(position: int | None, watermarks: Watermarks) -> PartitionLag:
    """Return the lag at ``position``; None stands for the start of the partition.

    Records that were deleted do not count. A position past the end belongs to an earlier topic of
    the same name, and has no lag.
    """
    start, readable_end, end = watermarks
    actual = start if position is None else max(position, start)
    return PartitionLag(actual, max(0, end - actual), max(0, readable_end - actual))


class Stall(NamedTuple):
    """A partition without progress: for how long, at which offset, with how many records left."""

    partition: TopicPartition
    seconds: float
    position: int
    messages: int

    def __str__(self) -> str:
        """``raw-documents/0: no progress for 300 s at offset 7, with 12 records to process``."""
        return (
            f"{self.partition}: no progress for {self.seconds:.0f} s at offset {self.position}, "
            f"with {self.messages} records to process"
        )


class _Position(NamedTuple):
    """An offset, and since when a partition has been there."""

    offset: int
    since: float


class StallDetector:
    """Watches positions; times are in seconds of any monotonic clock."""

    def __init__(self, limit_seconds: float) -> None:
        """A partition without progress for ``limit_seconds`` is a stall."""
        self.limit_seconds = limit_seconds
        self._positions: dict[TopicPartition, _Position] = {}

    def pause(self) -> None:
        """Restart all timers: nothing is known of the time until the next update."""
        self._positions.clear()

    def update(self, lags: Mapping[TopicPartition, PartitionLag], now: float) -> list[Stall]:
        """Take the lag of every partition that is watched; return those that are stuck.

        The timer of a partition that is not in ``lags`` restarts.
        """
        positions: dict[TopicPartition, _Position] = {}
        for partition, lag in lags.items():
            if lag.readable:
                before = self._positions.get(partition)
                moved = before is None or before.offset != lag.position
                positions[partition] = (
                    _Position(lag.position, now) if before is None or moved else before
                )
        self._positions = positions
        return [
            Stall(partition, now - position.since, position.offset, lags[partition].readable)
            for partition, position in sorted(positions.items())
            if now - position.since >= self.limit_seconds
        ]
