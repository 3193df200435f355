"""What the contest comes to: ratios between shapes, round by round, and the goals for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.contest.latency import Observed, Waits
from benchmarks.contest.shapes import Shape
from benchmarks.contest.speed import Run
from benchmarks.report import Machine, Spread, ratios

_TEN_THOUSAND: Final = 10_000
_DIGITS: Final = 4

CPU_RATIOS: Final[Mapping[str, tuple[str, str]]] = {
    "wide_1_beside_ceiling": ("wide_1", "ceiling_1"),
    "wide_16_beside_1": ("wide_16", "wide_1"),
    "wide_64_beside_1": ("wide_64", "wide_1"),
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
}
"""The processor's time of one shape beside that of another."""

BROKER_RATIOS: Final[Mapping[str, tuple[str, str]]] = {
    "broker_beside_ceiling": ("wide_16", "ceiling_16"),
}
"""The same of the broker."""

INTERNAL_BYTES: Final[Mapping[str, str]] = {
    "internal_bytes_a_document_wide": "wide_16",
    "internal_bytes_a_document_classic": "classic_16",
}

IDLE: Final = "idle_worker_core_share"
STALL: Final = "kill_stall_seconds"

RATIOS: Final = (*CPU_RATIOS, *BROKER_RATIOS, *INTERNAL_BYTES, IDLE, STALL)
"""All that stands under ``ratios``."""

LOW: Final = "100"
HALF: Final = "half"
"""Names of rates: documents a second, and half of what the same worker can do."""


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A limit, met on one side of it."""

    at_most: float | None = None
    at_least: float | None = None

    def shown(self) -> str:
        """Return the limit with its side."""
        return f"≤ {self.at_most:,g}" if self.at_most is not None else f"≥ {self.at_least:,g}"

    def is_met(self, value: float) -> bool:
        """Tell whether a figure is on the right side."""
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )


GOALS: Final[Mapping[str, Goal]] = {
    "wide_1_beside_ceiling": Goal(at_most=1.4),
    "wide_16_beside_1": Goal(at_most=1.15),
    "wide_64_beside_1": Goal(at_most=1.25),
    "workers_2_beside_1": Goal(at_most=1.25),
    "quix_beside_wide": Goal(at_least=2.3),
    "faust_beside_wide": Goal(at_least=12),
    "exactly_once_beside_at_least_once": Goal(at_most=1.1),
    "broker_beside_ceiling": Goal(at_most=2.5),
    "internal_bytes_a_document_wide": Goal(at_most=1_000),
    "internal_bytes_a_document_classic": Goal(at_most=400),
    IDLE: Goal(at_most=0.02),
    STALL: Goal(at_most=3),
}

LATENCY_GOALS_MS: Final[Mapping[str, Mapping[str, Goal]]] = {
    LOW: {"p50": Goal(at_most=40), "p99": Goal(at_most=120)},
    HALF: {"p99": Goal(at_most=300)},
}


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one shape. Seconds of the processor and bytes are for 10,000 documents.

    ``duplicates``: the share of the documents that were found to be.
    """

    shape: Shape
    cpu_seconds: Spread
    documents_per_second: Spread
    broker_cpu_seconds: Spread
    internal_bytes: Spread
    duplicates: float


class Contest(msgspec.Struct, frozen=True, kw_only=True):
    """All that the contest has measured. A ratio is None where ``--only`` left something out.

    ``latency_ms``: by rate and number of partitions. ``stalls``: seconds beyond the session, after
    each kill; their greatest is among the ratios.
    """

    machine: Machine
    documents: int
    characters: int
    copied_share: float
    rounds: int
    ratios: dict[str, float | None]
    ratio_spreads: dict[str, Spread]
    goals: Mapping[str, Goal]
    latency_ms: dict[str, dict[str, Waits]]
    latency_goals_ms: Mapping[str, Mapping[str, Goal]]
    contenders: list[Measured]
    stalls: list[float]
    shard_documents: int


def measured(shape: Shape, runs: Sequence[Run]) -> Measured:
    """Return the figures of one shape from at least one run."""
    return Measured(
        shape=shape,
        cpu_seconds=_for_ten_thousand((run.cpu_seconds, run) for run in runs),
        documents_per_second=Spread.of(run.documents / run.seconds for run in runs),
        broker_cpu_seconds=_for_ten_thousand((run.broker_cpu_seconds, run) for run in runs),
        internal_bytes=_for_ten_thousand((run.internal_bytes, run) for run in runs),
        duplicates=round(
            sum(run.duplicates for run in runs) / sum(run.documents for run in runs), _DIGITS
        ),
    )


def speed_ratios(runs: Mapping[str, Sequence[Run]]) -> dict[str, Spread]:
    """Return the ratios for which there are runs, each of shapes in one round.

    ``runs``: in order of the rounds, by the name of the shape.
    """
    by_name = {}
    for name, (above, below) in CPU_RATIOS.items():
        if above in runs and below in runs:
            by_name[name] = ratios(
                [run.cpu_seconds for run in runs[above]], [run.cpu_seconds for run in runs[below]]
            )
    for name, (above, below) in BROKER_RATIOS.items():
        if above in runs and below in runs:
            by_name[name] = ratios(
                [run.broker_cpu_seconds for run in runs[above]],
                [run.broker_cpu_seconds for run in runs[below]],
            )
    for name, shape in INTERNAL_BYTES.items():
        if shape in runs:
            by_name[name] = Spread.of(run.internal_bytes / run.documents for run in runs[shape])
    return by_name


def idle_share(observed: Mapping[int, Sequence[Observed]]) -> Spread:
    """Return the share of the number of partitions on which an idle worker takes the most."""
    spreads = [Spread.of(each.idle_share for each in seen) for seen in observed.values()]
    return max(spreads, key=lambda spread: spread.median)


def latency(observed: Mapping[int, Sequence[Observed]]) -> dict[str, dict[str, Waits]]:
    """Return the medians of the rounds, by rate and number of partitions."""
    return {
        LOW: {str(number): _median(each.low for each in seen) for number, seen in observed.items()},
        HALF: {
            str(number): _median(each.half for each in seen) for number, seen in observed.items()
        },
    }


def summary(spreads: Mapping[str, Spread]) -> dict[str, float | None]:
    """Return the figure of each ratio that the contest can have; None for what is not measured.

    It is the median; of the stalls it is the longest, since only one worker leads.
    """
    ratios: dict[str, float | None] = dict.fromkeys(RATIOS)
    for name, spread in spreads.items():
        ratios[name] = spread.greatest if name == STALL else spread.median
    return ratios


def _median(waits: Iterable[Waits]) -> Waits:
    values = list(waits)
    return Waits(
        rate=Spread.of(each.rate for each in values).median,
        p50=Spread.of(each.p50 for each in values).median,
        p99=Spread.of(each.p99 for each in values).median,
    )


def _for_ten_thousand(values: Iterable[tuple[float, Run]]) -> Spread:
    return Spread.of(value / run.documents * _TEN_THOUSAND for value, run in values)
