"""The figures as tables: on a terminal, and in Markdown for docs/quality.md, between two marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from benchmarks.quality.contest import Contest, Standing, score_of
from benchmarks.quality.experiments import Outcome
from benchmarks.quality.sentences import SentenceFigures
from benchmarks.quality.sets import FALSE_DUPLICATES_MAX
from benchmarks.report import Machine

_EQUAL_FALSE: Final = 0.0005
"""How many more false duplicates count as equally many: what three digits do not show."""

BEGIN: Final = "<!-- figures: begin; written by make bench-quality -->"
END: Final = "<!-- figures: end -->"


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All that is measured here."""

    machine: Machine
    profiles: list[str]
    indexes: list[str]
    contests: list[Contest]
    experiments: list[Outcome]
    sentences: list[SentenceFigures]


class QualityTable(NamedTuple):
    """A table in words; ``notes`` stand below it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def tables(figures: Figures) -> Iterator[QualityTable]:
    """Yield all tables, in the order of the page."""
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
    """Return all tables, and what was measured on what."""
    machine = figures.machine
    where = f"Python {machine.python}, {machine.system} on {machine.architecture}"
    lines = [
        f"{where}, {machine.processors} processors, load {machine.load:g} before it began.",
        "",
        *(
            f"- `{profile}`: `{index}`"
            for profile, index in zip(figures.profiles, figures.indexes, strict=True)
        ),
    ]
    for table in tables(figures):
        lines += ["", f"### {table.title}", "", _row(table.head)]
        lines.append(_row(["---"] + ["---:"] * (len(table.head) - 1)))
        lines += [_row(row) for row in table.rows]
        lines += [line for note in table.notes for line in ("", note)]
    return "\n".join(lines)


def with_figures(page: str, figures: Figures) -> str:
    """Return a page with new figures; raises ``ValueError`` for one without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {END if begin else BEGIN}")
    return f"{before}{begin}\n\n{markdown(figures)}\n\n{end}{after}"


def _contest(contest: Contest) -> QualityTable:
    rows = []
    for each in contest.standings:
        quality = each.quality
        name = f"**{each.name}**" if each.is_best else each.name
        faster = each.times_as_fast
        rows.append(
            [
                f"{name} {each.threshold}".strip(),
                *map(_share, (quality.recall, quality.precision, quality.f1, quality.caught)),
                _share(quality.false_duplicates),
                f"{each.documents_per_cpu_second.median:,.0f}",
                "" if faster is None else f"{faster.median:.1f}",
            ]
        )
    note = (
        "Bold: Firstseen, and each other library at the threshold with its highest "
        f"{contest.score} among those with at most {FALSE_DUPLICATES_MAX:.0%} false duplicates (or "
        "the fewest). "
        f"Speed is in documents per CPU second, the median of the turns (rounds: {contest.rounds})."
    )
    return QualityTable(
        f"{contest.set}: {contest.documents:,} documents, {contest.positives:,} labelled positives",
        ["", "recall", "precision", "F1", "caught", "false", "documents/s", "ours is × as fast"],
        rows,
        [note],
    )


def _bands(contest: Contest) -> QualityTable:
    shown: list[Standing] = [each for each in contest.standings if each.is_best or each.is_ours]
    bands = list(shown[0].quality.recall_by_jaccard)
    counts = shown[0].quality.positives_by_jaccard
    return QualityTable(
        f"{contest.set}: recall by Jaccard of the pair",
        ["", *(f"{band} ({counts[band]:,})" for band in bands)],
        [
            [
                f"{each.name} {each.threshold}".strip(),
                *(_share(each.quality.recall_by_jaccard[band]) for band in bands),
            ]
            for each in shown
        ],
    )


def at_equal_false(contests: Sequence[Contest]) -> QualityTable:
    """Set ours beside what others reach with no more false duplicates, each on each set."""
    rows = []
    for contest in contests:
        ours = next(each for each in contest.standings if each.is_ours and each.is_best)
        allowed = (ours.quality.false_duplicates or 0.0) + _EQUAL_FALSE
        best: dict[str, Standing] = {ours.name: ours}
        for each in contest.standings:
            if each.is_ours or (each.quality.false_duplicates or 0.0) > allowed:
                continue
            known = best.get(each.name)
            score = score_of(each.quality, contest.score) or 0.0
            if known is None or score > (score_of(known.quality, contest.score) or 0.0):
                best[each.name] = each
        for each in best.values():
            quality = each.quality
            rows.append(
                [
                    f"{contest.set}: {each.name} {each.threshold}".strip(),
                    *map(_share, (quality.recall, quality.precision, quality.f1, quality.caught)),
                    _share(quality.false_duplicates),
                ]
            )
    return QualityTable(
        "At equal false duplicates",
        ["", "recall", "precision", "F1", "caught", "false"],
        rows,
        ["Each other library has its best threshold with no more false duplicates than ours."],
    )


def at_one_threshold(contests: Sequence[Contest]) -> QualityTable:
    """Set ours, which has one threshold for all texts, beside what others reach with one."""
    runs: dict[str, dict[str, list[Standing]]] = {}
    for contest in contests:
        for each in contest.standings:
            runs.setdefault(each.name, {}).setdefault(each.threshold, []).append(each)
    rows = []
    for name, by_threshold in runs.items():
        whole = {
            at: standings
            for at, standings in by_threshold.items()
            if len(standings) == len(contests)
        }
        at = _best_for_all(whole, contests)
        if at is not None:
            scored = zip(whole[at], contests, strict=True)
            rows.append(
                [
                    f"{name} {at}".strip(),
                    *(
                        figure
                        for each, contest in scored
                        for figure in (
                            _share(score_of(each.quality, contest.score)),
                            _share(each.quality.false_duplicates),
                        )
                    ),
                ]
            )
    note = (
        "Each library has the threshold with the highest mean among those with at most "
        f"{FALSE_DUPLICATES_MAX:.0%} false duplicates on every set: "
        "a stream has only one threshold."
    )
    heads = [head for each in contests for head in (f"{each.set}: {each.score}", "false")]
    return QualityTable(
        "One threshold for all sets",
        ["", *heads],
        rows,
        [note],
    )


def _best_for_all(
    whole: Mapping[str, Sequence[Standing]], contests: Sequence[Contest]
) -> str | None:
    """Return the best threshold that keeps false duplicates low on every set; ours has but one."""
    allowed = [
        at
        for at, standings in whole.items()
        if standings[0].is_ours
        or all((each.quality.false_duplicates or 0.0) <= FALSE_DUPLICATES_MAX for each in standings)
    ]

    def mean(at: str) -> float:
        scored = zip(whole[at], contests, strict=True)
        return fmean(score_of(each.quality, contest.score) or 0.0 for each, contest in scored)

    return max(allowed, key=mean, default=None)


def _experiments(outcomes: Sequence[Outcome]) -> QualityTable:
    first = outcomes[0]
    return QualityTable(
        f"{first.topics} topics, {first.near_duplicates:,} edited copies among "
        f"{first.unrelated:,} articles",
        ["", "precision", "lowest", "recall", "lowest", "F1"],
        [
            [
                each.method,
                *map(
                    _share,
                    (
                        each.precision,
                        each.precision_least,
                        each.recall,
                        each.recall_least,
                        each.f1,
                    ),
                ),
            ]
            for each in outcomes
        ],
        ["Means over the topics, and the lowest values. The papers report .94/.92 and .953/.940."],
    )


def _sentences(figures: Sequence[SentenceFigures]) -> QualityTable:
    return QualityTable(
        f"sentences_zh: {figures[0].pairs:,} pairs of short sentences, in one stream",
        [
            "",
            "undecidable",
            "exact repeats",
            "near another",
            "of pairs",
            "different pairs joined",
            "of pairs",
            "no paraphrases",
        ],
        [
            [
                f"Firstseen {each.profile}",
                f"{each.undecidable:,}",
                f"{each.exact:,}",
                f"{each.near:,}",
                f"{each.near_share:.3%}",
                f"{each.near_pairs:,}",
                f"{each.near_pairs_share:.3%}",
                f"{each.near_pairs_apart:,}",
            ]
            for each in figures
        ],
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
