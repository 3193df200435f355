"""The contest for people: what each contender took, the ratios with their goals, latency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from benchmarks.contest.figures import Contest, Goal
from benchmarks.report import new_table

_TEN_THOUSAND: Final = 10_000
_MET: Final = {True: "met", False: "missed"}


def tables(contest: Contest) -> Iterator[Table]:
    """Show the figures: medians of the rounds, with the least and the greatest in brackets."""
    if contest.contenders:
        yield _contenders(contest)
    yield _ratios(contest)
    if contest.latency_ms:
        yield _latency(contest)


def _contenders(contest: Contest) -> Table:
    table = new_table(
        f"{contest.documents:,} documents of {contest.characters} characters on Apache Kafka, "
        f"{contest.rounds} rounds: CPU s of contender and broker for 10,000 documents, "
        "bytes a document on internal topics",
        "shape",
        "CPU s",
        "documents/s",
        "broker's",
        "bytes",
        "duplicates",
    )
    for each in contest.contenders:
        table.add_row(
            each.shape.name,
            each.cpu_seconds.shown(digits=2),
            each.documents_per_second.shown(),
            each.broker_cpu_seconds.shown(digits=2),
            f"{each.internal_bytes.median / _TEN_THOUSAND:,.0f}",
            f"{each.duplicates:.1%}",
        )
    return table


def _ratios(contest: Contest) -> Table:
    table = new_table("Ratios, within a round", "ratio", "", "goal", "")
    for name, spread in contest.ratio_spreads.items():
        value = contest.ratios[name]
        assert value is not None
        digits = 0 if value >= 100 else 3
        table.add_row(name, spread.shown(digits), *_judged(contest.goals.get(name), value))
    return table


def _latency(contest: Contest) -> Table:
    table = new_table(
        "Milliseconds from sent to readable", "documents/s", "partitions", "", "", "goal", ""
    )
    for name, by_partitions in contest.latency_ms.items():
        for partitions, waits in by_partitions.items():
            for percentile, value in (("p50", waits.p50), ("p99", waits.p99)):
                goal = contest.latency_goals_ms[name].get(percentile)
                rate = f"{waits.rate:,.0f}" if name.isdecimal() else f"{waits.rate:,.0f} ({name})"
                table.add_row(rate, partitions, percentile, f"{value:.0f}", *_judged(goal, value))
    return table


def _judged(goal: Goal | None, value: float) -> tuple[str, str]:
    return ("", "") if goal is None else (goal.shown(), _MET[goal.is_met(value)])
