"""The figures as tables in Markdown, for a terminal and for docs/quality.md, between two marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from benchmarks import report
from benchmarks.quality.contest import ONE_TURN, Contest, Standing, score_of
from benchmarks.quality.sets import FALSE_DUPLICATES_MAX
from streams.evaluation.evaluation import Quality
from streams.settings.reference import between_marks

BEGIN: Final = "<!-- figures: begin; written by make bench-quality -->"
END: Final = "<!-- figures: end -->"

_EQUAL_FALSE: Final = 0.0005
"""Shares of false duplicates that differ by less than this are equal in three digits."""
_QUALITY: Final = ("", "recall", "precision", "F1", "caught", "false")


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    machine: report.Figures
    profiles: list[str]
    indexes: list[str]
    contests: list[Contest]
    experiments: list[report.Figures]
    sentences: list[report.Figures]


class QualityTable(NamedTuple):
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def tables(figures: Figures) -> Iterator[QualityTable]:
    for contest in figures.contests:
        yield _contest(contest)
        yield _bands(contest)
    yield at_equal_false(figures.contests)
    if len(figures.contests) > 1:
        yield at_one_threshold(figures.contests)
    if figures.experiments:
        yield _experiments(figures.experiments)
    if figures.sentences:
        yield _sentences(figures.sentences)


def markdown(figures: Figures) -> str:
    machine = figures.machine
    indexes = zip(figures.profiles, figures.indexes, strict=True)
    where = (
        "Python {python}, {system} on {architecture}, {processors} processors, load {load:g} "
        "before it began."
    )
    lines = [where.format_map(machine), ""]
    lines += [f"- `{profile}`: `{index}`" for profile, index in indexes]
    for table in tables(figures):
        rule = ["---"] + ["---:"] * (len(table.head) - 1)
        lines += ["", f"### {table.title}", ""]
        lines += ["| " + " | ".join(cells) + " |" for cells in (table.head, rule, *table.rows)]
        lines += ["", table.note] if table.note else []
    return "\n".join(lines)


def with_figures(page: str, figures: Figures) -> str:
    """Return a page with new figures; raises ``ValueError`` if it lacks the marks."""
    return between_marks(page, BEGIN, END, markdown(figures))


def _contest(contest: Contest) -> QualityTable:
    rows = []
    for each in contest.standings:
        name = f"**{each.name}**" if each.is_best else each.name
        faster = "" if each.times_as_fast is None else f"{each.times_as_fast.median:.1f}"
        rate = f"{each.documents_per_cpu_second.median:,.0f}"
        rows.append([f"{name} {each.threshold}".strip(), *_shares(each.quality), rate, faster])
    once = ONE_TURN & {each.name for each in contest.standings}
    one_turn = f"; {', '.join(sorted(once))} had one" if once and contest.rounds > 1 else ""
    return QualityTable(
        f"{contest.set}: {contest.documents:,} documents, {contest.positives:,} labelled positives",
        [*_QUALITY, "documents/s", "ours is × as fast"],
        rows,
        "Bold: Firstseen, and each other library at the threshold with its highest "
        f"{contest.score} among those with at most {FALSE_DUPLICATES_MAX:.0%} false duplicates (or "
        "the fewest). Speed is in documents per CPU second, the median of the turns (rounds: "
        f"{contest.rounds}){one_turn}.",
    )


def _bands(contest: Contest) -> QualityTable:
    shown = [each for each in contest.standings if each.is_best or each.is_ours]
    rows = [[_named(each), *map(_share, each.quality.recall_by_jaccard.values())] for each in shown]
    counts = shown[0].quality.positives_by_jaccard
    heads = (f"{band} ({count:,})" for band, count in counts.items())
    return QualityTable(f"{contest.set}: recall by Jaccard of the pair", ["", *heads], rows)


def at_equal_false(contests: Sequence[Contest]) -> QualityTable:
    """Compare our figures with those of each peer at no more false duplicates, set by set."""
    rows = []
    for contest in contests:
        ours = next(each for each in contest.standings if each.is_ours and each.is_best)
        allowed = _false(ours) + _EQUAL_FALSE
        others = [
            each for each in contest.standings if not each.is_ours and _false(each) <= allowed
        ]
        best = {ours.name: ours}
        for each in sorted(others, key=lambda each: -_score(each, contest)):
            best.setdefault(each.name, each)
        rows += [
            [f"{contest.set}: {_named(each)}", *_shares(each.quality)] for each in best.values()
        ]
    return QualityTable(
        "At equal false duplicates",
        _QUALITY,
        rows,
        "Each other library has its best threshold with no more false duplicates than ours.",
    )


def at_one_threshold(contests: Sequence[Contest]) -> QualityTable:
    """Compare our figures with those of peers that also use one threshold for all sets."""
    runs: dict[str, dict[str, list[Standing]]] = {}
    for contest in contests:
        for each in contest.standings:
            runs.setdefault(each.name, {}).setdefault(each.threshold, []).append(each)
    rows = []
    for by_threshold in runs.values():
        whole = [each for each in by_threshold.values() if len(each) == len(contests)]
        best = _best_for_all(whole, contests)
        if best:
            cells = [_named(best[0])]
            for each, contest in zip(best, contests, strict=True):
                cells.append(_share(score_of(each.quality, contest.score)))
                cells.append(_share(each.quality.false_duplicates))
            rows.append(cells)
    heads = [head for each in contests for head in (f"{each.set}: {each.score}", "false")]
    return QualityTable(
        "One threshold for all sets",
        ["", *heads],
        rows,
        "Each library has the threshold with the highest mean among those with at most "
        f"{FALSE_DUPLICATES_MAX:.0%} false duplicates on every set: "
        "a stream has only one threshold.",
    )


def _best_for_all(
    whole: Sequence[Sequence[Standing]], contests: Sequence[Contest]
) -> Sequence[Standing]:
    """Return the best threshold with few false duplicates on every set; we have only one."""
    allowed = [
        each for each in whole if each[0].is_ours or max(map(_false, each)) <= FALSE_DUPLICATES_MAX
    ]
    return max(allowed, key=lambda each: fmean(map(_score, each, contests)), default=())


def _experiments(outcomes: Sequence[Mapping[str, float]]) -> QualityTable:
    figures = ("precision", "precision_least", "recall", "recall_least", "f1")
    title = "{topics} topics, {near_duplicates:,} edited copies among {unrelated:,} articles"
    return QualityTable(
        title.format_map(outcomes[0]),
        ["", "precision", "lowest", "recall", "lowest", "F1"],
        [[f"{each['method']}", *(f"{each[name]:.3f}" for name in figures)] for each in outcomes],
        "Means over the topics, and the lowest values. The papers report .94/.92 and .953/.940.",
    )


def _sentences(figures: Sequence[Mapping[str, float]]) -> QualityTable:
    columns = (
        ("", "Firstseen {profile}"),
        ("undecidable", "{undecidable:,}"),
        ("exact repeats", "{exact:,}"),
        ("near another", "{near:,}"),
        ("of pairs", "{near_share:.3%}"),
        ("different pairs joined", "{near_pairs:,}"),
        ("of pairs", "{near_pairs_share:.3%}"),
        ("no paraphrases", "{near_pairs_apart:,}"),
    )
    return QualityTable(
        f"sentences_zh: {figures[0]['pairs']:,} pairs of short sentences, in one stream",
        [head for head, _ in columns],
        [[cell.format_map(each) for _, cell in columns] for each in figures],
    )


def _named(standing: Standing) -> str:
    return f"{standing.name} {standing.threshold}".strip()


def _false(standing: Standing) -> float:
    return standing.quality.false_duplicates or 0.0


def _score(standing: Standing, contest: Contest) -> float:
    return score_of(standing.quality, contest.score) or 0.0


def _shares(quality: Quality) -> list[str]:
    shares = (quality.recall, quality.precision, quality.f1, quality.caught)
    return [*map(_share, shares), _share(quality.false_duplicates)]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
