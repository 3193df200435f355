"""Lag: the number of records between a position and the end of a partition."""

from __future__ import annotations

from typing import NamedTuple

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
