"""Lag: how many messages there are from where a worker stands to the end of a log."""

from __future__ import annotations

from typing import NamedTuple

from streams.broker_watermarks import Watermarks


class Lag(NamedTuple):
    """How far a partition is behind.

    ``position`` is the offset up to which all is done, no less than where the log begins.
    ``messages`` counts what lies behind it; ``readable`` what of that can be read now, where a
    transaction is open that others began.
    """

    position: int
    messages: int
    readable: int


def lag_of(position: int | None, watermarks: Watermarks) -> Lag:
    """Return the lag at ``position``; None stands for where the log begins.

    What the log no longer has cannot be waited for. A position past the end is one in a topic that
    was deleted and made again, of which nothing is known to wait.
    """
    start, readable_end, end = watermarks
    stands = start if position is None else max(position, start)
    return Lag(stands, max(0, end - stands), max(0, readable_end - stands))
