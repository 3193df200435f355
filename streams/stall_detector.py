"""Whether a worker stands still: messages to read in a partition, and no progress for too long.

Faust can stop reading a partition in silence, while its heartbeats go on and the group takes it for
alive. Nothing but a restart helps then, so a stall fails the liveness of the worker.

A clock for each partition runs while there is something that can be read and the position does not
move. It does not run while the broker is away, or while shards catch up with their changelog: a
restart would help neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streams.consumer_lag import Lag
from streams.read_order import Place


class Stall(NamedTuple):
    """A partition that stands still: since when, on which offset, before how many messages."""

    place: Place
    seconds: float
    position: int
    messages: int

    def __str__(self) -> str:
        """``raw-documents/0 stands at offset 7 …``."""
        topic, partition = self.place
        return (
            f"{topic}/{partition} stands at offset {self.position} for {self.seconds:.0f} s, "
            f"with {self.messages} messages to read"
        )


class _Stand(NamedTuple):
    """Where a partition has stood since when."""

    position: int
    since: float


class StallDetector:
    """Watches positions, with times in seconds of any steady clock."""

    def __init__(self, limit_seconds: float) -> None:
        """Stand still for ``limit_seconds`` and it is a stall."""
        self.limit_seconds = limit_seconds
        self._stands: dict[Place, _Stand] = {}

    def pause(self) -> None:
        """Let all clocks begin anew: nothing can be said of the time until the next look."""
        self._stands.clear()

    def look(self, lags: Mapping[Place, Lag], now: float) -> list[Stall]:
        """Take the lag of every partition of the worker; return those that stand still."""
        stands: dict[Place, _Stand] = {}
        for place, lag in lags.items():
            if lag.readable:
                before = self._stands.get(place)
                moved = before is None or before.position != lag.position
                stands[place] = _Stand(lag.position, now) if before is None or moved else before
        self._stands = stands
        return [
            Stall(place, now - stand.since, stand.position, lags[place].readable)
            for place, stand in sorted(stands.items())
            if now - stand.since >= self.limit_seconds
        ]
