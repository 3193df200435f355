"""What the contest comes to: ratios between shapes, round by round, the goals for them, tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from rich.table import Table

from benchmarks.contest.latency import Observed, Waits
from benchmarks.contest.shapes import Shape
from benchmarks.contest.speed import Run
from benchmarks.report import Machine, Spread, new_table, ratios

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

    def is_met(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )

    def judged(self, value: float) -> tuple[str, str]:
        """Return the limit with its side, and whether a figure meets it."""
        limit = f"≤ {self.at_most:,g}" if self.at_most is not None else f"≥ {self.at_least:,g}"
        return limit, "met" if self.is_met(value) else "missed"


_NO_GOAL: Final = ("", "")

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

    def for_ten_thousand(name: str) -> Spread:
        return Spread.of(getattr(run, name) / run.documents * _TEN_THOUSAND for run in runs)

    duplicates = sum(run.duplicates for run in runs) / sum(run.documents for run in runs)
    return Measured(
        shape=shape,
        cpu_seconds=for_ten_thousand("cpu_seconds"),
        documents_per_second=Spread.of(run.documents / run.seconds for run in runs),
        broker_cpu_seconds=for_ten_thousand("broker_cpu_seconds"),
        internal_bytes=for_ten_thousand("internal_bytes"),
        duplicates=round(duplicates, _DIGITS),
    )


def speed_ratios(runs: Mapping[str, Sequence[Run]]) -> dict[str, Spread]:
    """Return the ratios for which there are runs, each of shapes in one round.

    ``runs``: in order of the rounds, by the name of the shape.
    """
    by_name = {}
    compared = (("cpu_seconds", CPU_RATIOS), ("broker_cpu_seconds", BROKER_RATIOS))
    for figure, pairs in compared:
        for name, pair in pairs.items():
            if all(shape in runs for shape in pair):
                by_name[name] = ratios(
                    *([getattr(run, figure) for run in runs[shape]] for shape in pair)
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


def _median(waits: Iterable[Waits]) -> Waits:
    values = list(waits)
    return Waits(
        rate=Spread.of(each.rate for each in values).median,
        p50=Spread.of(each.p50 for each in values).median,
        p99=Spread.of(each.p99 for each in values).median,
    )


def summary(spreads: Mapping[str, Spread]) -> dict[str, float | None]:
    """Return the figure of each ratio that the contest can have; None for what is not measured.

    It is the median; of the stalls it is the longest, since only one worker leads.
    """
    figures: dict[str, float | None] = dict.fromkeys(RATIOS)
    for name, spread in spreads.items():
        figures[name] = spread.greatest if name == STALL else spread.median
    return figures


def tables(contest: Contest) -> Iterator[Table]:
    """Show the figures: medians of the rounds, with the least and the greatest in brackets."""
    if contest.contenders:
        yield new_table(
            f"{contest.documents:,} documents of {contest.characters} characters on Apache Kafka, "
            f"{contest.rounds} rounds: CPU s of contender and broker for 10,000 documents, "
            "bytes a document on internal topics",
            ("shape", "CPU s", "documents/s", "broker's", "bytes", "duplicates"),
            (
                (
                    each.shape.name,
                    each.cpu_seconds.shown(digits=2),
                    each.documents_per_second.shown(),
                    each.broker_cpu_seconds.shown(digits=2),
                    f"{each.internal_bytes.median / _TEN_THOUSAND:,.0f}",
                    f"{each.duplicates:.1%}",
                )
                for each in contest.contenders
            ),
        )
    yield new_table("Ratios, within a round", ("ratio", "", "goal", ""), _ratio_rows(contest))
    if contest.latency_ms:
        heads = ("documents/s", "partitions", "", "", "goal", "")
        yield new_table("Milliseconds from sent to readable", heads, _latency_rows(contest))


def _ratio_rows(contest: Contest) -> Iterator[Sequence[str]]:
    for name, spread in contest.ratio_spreads.items():
        value = contest.ratios[name]
        assert value is not None
        goal = contest.goals.get(name)
        judged = goal.judged(value) if goal else _NO_GOAL
        yield name, spread.shown(0 if value >= 100 else 3), *judged


def _latency_rows(contest: Contest) -> Iterator[Sequence[str]]:
    for name, by_partitions in contest.latency_ms.items():
        for partitions, waits in by_partitions.items():
            rate = f"{waits.rate:,.0f}" if name.isdecimal() else f"{waits.rate:,.0f} ({name})"
            for percentile, value in (("p50", waits.p50), ("p99", waits.p99)):
                goal = contest.latency_goals_ms[name].get(percentile)
                judged = goal.judged(value) if goal else _NO_GOAL
                yield rate, partitions, percentile, f"{value:.0f}", *judged
