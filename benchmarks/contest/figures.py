"""The results of the contest: ratios between shapes, round by round, and their goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

import msgspec

from benchmarks.contest.service import PARTITIONS, Observed, Waits
from benchmarks.contest.shapes import SHAPES, Shape
from benchmarks.contest.speed import Run
from benchmarks.report import Figures, Goal, Spread, ratios

_TEN_THOUSAND: Final = 10_000
_DIGITS: Final = 4

SHAPE_RATIOS: Final[Mapping[str, tuple[str, str, str]]] = {
    name: ("cpu_seconds", *shapes)
    for name, shapes in {
        "wide_1_beside_ceiling": ("wide_1", "ceiling_1"),
        "wide_16_beside_1": ("wide_16", "wide_1"),
        "wide_64_beside_1": ("wide_64", "wide_1"),
        "wide_256_beside_1": ("wide_256", "wide_1"),
        "workers_2_beside_1": ("wide_4_workers_2", "wide_4"),
        "quix_beside_wide": ("quix", "wide_1"),
        "quix_words_beside_wide": ("quix_words", "wide_1"),
        "faust_beside_wide": ("faust", "wide_1"),
        "exactly_once_beside_at_least_once": ("wide_4", "wide_4_at_least_once"),
        "wide_1_beside_ceiling_copies": ("wide_1_copies", "ceiling_1_copies"),
        "wide_16_beside_1_copies": ("wide_16_copies", "wide_1_copies"),
        "quix_beside_wide_copies": ("quix_copies", "wide_1_copies"),
        "quix_words_beside_wide_copies": ("quix_words_copies", "wide_1_copies"),
        "faust_beside_wide_copies": ("faust_copies", "wide_1_copies"),
    }.items()
} | {"broker_beside_ceiling": ("broker_cpu_seconds", "wide_16", "ceiling_16")}
"""Ratios of a figure of two shapes."""

INTERNAL_BYTES: Final[Mapping[str, str]] = {
    "internal_bytes_a_document_wide": "wide_16",
    "internal_bytes_a_document_classic": "classic_16",
}

IDLE: Final = "idle_worker_core_share"
STALL: Final = "kill_stall_seconds"

P99_RATIOS: Final[Mapping[int, str]] = {
    partitions: f"p99_half_{partitions}_beside_ceiling" for partitions in PARTITIONS
}
"""Ratios of the 99th percentiles of latency at the same rate, by the number of partitions."""

RATIOS: Final = (*SHAPE_RATIOS, *INTERNAL_BYTES, *P99_RATIOS.values(), IDLE, STALL)
"""The names of all ``ratios``."""

LOW: Final = "100"
HALF: Final = "half"
CEILING: Final = "ceiling at half"
"""Names of rates: documents per second, and half of the highest rate of the same worker."""


GOALS: Final[Mapping[str, Goal]] = {
    "wide_1_beside_ceiling": Goal(at_most=1.25),
    "wide_16_beside_1": Goal(at_most=1.05),
    "wide_64_beside_1": Goal(at_most=1.1),
    "wide_256_beside_1": Goal(at_most=1.25),
    "p99_half_1_beside_ceiling": Goal(at_most=1.5),
    "p99_half_16_beside_ceiling": Goal(at_most=2),
    "p99_half_64_beside_ceiling": Goal(at_most=2.5),
    "workers_2_beside_1": Goal(at_most=1.25),
    "quix_beside_wide": Goal(at_least=2.3),
    "faust_beside_wide": Goal(at_least=12),
    "exactly_once_beside_at_least_once": Goal(at_most=1.1),
    "broker_beside_ceiling": Goal(at_most=2.5),
    "internal_bytes_a_document_wide": Goal(at_most=700),
    "internal_bytes_a_document_classic": Goal(at_most=400),
    IDLE: Goal(at_most=0.02),
    STALL: Goal(at_most=3),
}

LATENCY_GOALS_MS: Final[Mapping[str, Mapping[str, Goal]]] = {
    LOW: {"p50": Goal(at_most=25), "p99": Goal(at_most=60)},
    HALF: {},
    CEILING: {},
}


def contest_of(
    runs: Mapping[str, Sequence[Run]],
    observed: Mapping[int, Sequence[Observed]],
    stalls: Sequence[float],
) -> Figures:
    """Return all results of the contest; a ratio is None if a part of it was not measured.

    ``runs`` are by the name of the shape, ``observed`` by the number of partitions; ``stalls`` are
    the seconds beyond the session, after each kill.
    """
    spreads = speed_ratios(runs)
    if observed:  # use the number of partitions with which an idle worker takes the most CPU time
        idle = [Spread.of(each.idle_share for each in seen) for seen in observed.values()]
        spreads[IDLE] = max(idle, key=lambda spread: spread.median)
    for partitions, seen in observed.items():
        ours, theirs = [each.half.p99 for each in seen], [each.ceiling.p99 for each in seen]
        spreads[P99_RATIOS[partitions]] = ratios(ours, theirs)
    if stalls:
        spreads[STALL] = Spread.of(stalls)
    # Use the longest stall, because only one of the killed workers leads.
    medians = {
        name: spread.greatest if name == STALL else spread.median
        for name, spread in spreads.items()
    }
    return {
        "ratios": dict.fromkeys(RATIOS) | medians,
        "ratio_spreads": spreads,
        "goals": GOALS,
        "latency_ms": {
            rate: {
                str(number): _median([getattr(each, name) for each in seen])
                for number, seen in observed.items()
            }
            for rate, name in ((LOW, "low"), (HALF, "half"), (CEILING, "ceiling"))
            if observed
        },
        "latency_goals_ms": LATENCY_GOALS_MS,
        "contenders": [measured(shape, runs[shape.name]) for shape in SHAPES if shape.name in runs],
        "stalls": stalls,
    }


def measured(shape: Shape, runs: Sequence[Run]) -> Figures:
    """Return the figures of one shape from at least one run.

    CPU seconds and bytes are for 10,000 documents. ``duplicates`` is the share of the documents
    that were found to be duplicates.
    """
    names = ("cpu_seconds", "broker_cpu_seconds", "internal_bytes")
    duplicates = sum(run.duplicates for run in runs) / sum(run.documents for run in runs)
    return {
        "shape": shape,
        "documents_per_second": Spread.of(run.documents / run.seconds for run in runs),
        **{
            name: Spread.of(getattr(run, name) / run.documents * _TEN_THOUSAND for run in runs)
            for name in names
        },
        "duplicates": round(duplicates, _DIGITS),
    }


def speed_ratios(runs: Mapping[str, Sequence[Run]]) -> dict[str, Spread]:
    """Return the ratios of the shapes that were run; each ratio compares runs of one round.

    ``runs`` are in the order of the rounds, by the name of the shape.
    """
    by_name = {}
    for name, (figure, *shapes) in SHAPE_RATIOS.items():
        if all(shape in runs for shape in shapes):
            above, below = ([getattr(run, figure) for run in runs[shape]] for shape in shapes)
            by_name[name] = ratios(above, below)
    for name, shape in INTERNAL_BYTES.items():
        if shape in runs:
            by_name[name] = Spread.of(run.internal_bytes / run.documents for run in runs[shape])
    return by_name


def _median(waits: Sequence[Waits]) -> Waits:
    fields = zip(*map(msgspec.structs.astuple, waits), strict=True)
    return Waits(*(round(median(values), _DIGITS) for values in fields))


def shown(contest: Figures) -> Figures:
    latencies = [
        _judged(f"{name} documents/s, {number} partitions, {percentile}", value, value, goal)
        for name, by_partitions in contest["latency_ms"].items()
        for number, waits in by_partitions.items()
        for percentile, value in (("p50", waits.p50), ("p99", waits.p99))
        for goal in [contest["latency_goals_ms"][name].get(percentile)]
    ]
    return {
        "machine": contest["machine"],
        "contenders": [each | {"shape": each["shape"].name} for each in contest["contenders"]],
        "ratios": [
            _judged(name, spread, contest["ratios"][name], contest["goals"].get(name))
            for name, spread in contest["ratio_spreads"].items()
        ],
        "milliseconds from sent to readable": latencies,
    }


def _judged(name: str, figure: object, value: float, goal: Goal | None) -> Figures:
    met = "" if goal is None else "met" if goal.is_met(value) else "missed"
    return {"": name, "measured": figure, "goal": goal, "met": met}
