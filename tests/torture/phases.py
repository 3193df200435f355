"""How long the phases of a shard's move took, from the logs of the workers (``acquisition``)."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from tests.torture.faults import Strike
from tests.torture.stalls import AFTER_SECONDS

_LINE = re.compile(
    r"^(\S+ \S+) .*: shard \d+ acquired in [\d.]+ s(?:, nothing to output)?: (.*)$", re.MULTILINE
)
_PHASE = re.compile(r"(\w+) ([\d.]+)")
UNTIL_ASSIGNED = "until_assigned"


class Acquired(NamedTuple):
    """One move: the time of the assignment, in seconds since 1970, and the phases."""

    assigned_at: float
    seconds: dict[str, float]


def acquisitions(log: str) -> Iterator[Acquired]:
    for line in _LINE.finditer(log):
        seconds = {phase: float(took) for phase, took in _PHASE.findall(line[2])}
        since = sum(took for phase, took in seconds.items() if phase != "rebalance")
        said_at = datetime.strptime(line[1], "%Y-%m-%d %H:%M:%S,%f").astimezone()
        yield Acquired(said_at.timestamp() - since, seconds)


def phases(logs: Iterable[str], strikes: Sequence[Strike], epoch: float) -> dict[str, Any]:
    """Return the figures of each phase for all moves, and for the moves after each kind of fault.

    ``epoch`` is the time since 1970 at which the clock of ``strikes`` was 0. If faults overlap, a
    move counts for each of them. ``until_assigned`` is the time from the strike to its first move.
    """
    moves = [each for log in logs for each in acquisitions(log)]
    by_kind: dict[str, list[Acquired]] = defaultdict(list)
    for strike in strikes:
        if strike.began is None:
            continue
        began, last = epoch + strike.began, epoch + strike.ended + AFTER_SECONDS
        mine = [move for move in moves if began <= move.assigned_at <= last]
        if mine:
            soonest = min(move.assigned_at for move in mine)
            first = Acquired(0.0, {UNTIL_ASSIGNED: soonest - began})
            by_kind[str(strike.fault)] += [*mine, first]
    return {
        **_figures(moves),
        "by_kind": {kind: _figures(found) for kind, found in sorted(by_kind.items())},
    }


def _figures(moves: Iterable[Acquired]) -> dict[str, Any]:
    values: dict[str, list[float]] = defaultdict(list)
    for move in moves:
        for phase, took in move.seconds.items():
            values[phase].append(took)
    return {
        phase: {
            "moves": len(each),
            "median": round(median(each), 2),
            "p99": round(sorted(each)[math.ceil(0.99 * len(each)) - 1], 2),
            "longest": round(max(each), 2),
        }
        for phase, each in values.items()
    }
