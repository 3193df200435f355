"""Times without an output, and which kinds of fault they follow from.

A stall counts while one worker that no fault hurts, and the brokers that it needs, were up all the
time. What comes before, as when all brokers were away, is in the raw figure alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from tests.torture.faults import Strike

AFTER_SECONDS = 10.0
"""A stall that begins so soon after the end of a fault may follow from it."""


class Stall(NamedTuple):
    """No output from ``began`` to ``ended``; ``counted`` is the longest part that counts."""

    began: float
    ended: float
    counted: float


def stalls_by_kind(strikes: Sequence[Strike], stalls: Iterable[Stall]) -> dict[str, Any]:
    """For each kind of fault the longest stall of each strike: the median, and the longest.

    Where faults overlap, a stall is one of each of them. ``alone`` are the strikes with no other at
    the time, and the longest stall of these.
    """
    stalls = list(stalls)
    longest: dict[str, list[float]] = defaultdict(list)
    alone: dict[str, list[float]] = defaultdict(list)
    for strike in strikes:
        first, last = _span(strike)
        mine = [each.counted for each in stalls if each.began <= last and each.ended >= first]
        longest[strike.fault].append(max(mine, default=0.0))
        others = (_span(other) for other in strikes if other is not strike)
        if all(end < first or begin > last for begin, end in others):
            alone[strike.fault].append(max(mine, default=0.0))
    return {
        str(kind): {
            "strikes": len(found),
            "median": round(median(found), 1),
            "longest": round(max(found), 1),
            "alone": len(alone[kind]),
            "longest_alone": round(max(alone[kind], default=0.0), 1),
        }
        for kind, found in sorted(longest.items())
    }


def quiet_share(strikes: Sequence[Strike]) -> float:
    """How much of the time between the first fault and the end of the last one had no fault."""
    spans = sorted((strike.began, strike.ended) for strike in strikes if strike.began is not None)
    if not spans:
        return 1.0
    start = at = spans[0][0]
    quiet = 0.0
    for began, ended in spans:
        quiet += max(0.0, began - at)
        at = max(at, ended)
    return quiet / (at - start) if at > start else 0.0


def _span(strike: Strike) -> tuple[float, float]:
    assert strike.began is not None, "only strikes that began are kept"
    return strike.began, strike.ended + AFTER_SECONDS
