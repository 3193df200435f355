"""Times without an output, and the kinds of faults that may have caused them.

A stall counts while one worker without a fault, and the brokers that it needs, were up all the
time. Other parts, for example while all brokers were away, are only in the raw figure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from tests.torture.faults import Strike

AFTER_SECONDS = 10.0
"""A stall that begins within this time after the end of a fault may be its effect."""


class Stall(NamedTuple):
    """No output from ``began`` to ``ended``; ``counted`` is the longest part that counts."""

    began: float
    ended: float
    counted: float


def stalls_by_kind(strikes: Sequence[Strike], stalls: Iterable[Stall]) -> dict[str, Any]:
    """Return for each kind of fault the median and the maximum of the longest stall per strike.

    If faults overlap, a stall counts for each of them. ``alone`` has the strikes during which no
    other fault was active, and their longest stall.
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
    """Return which share of the time from the first fault to the end of the last had no fault."""
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
