"""The report of an evaluation as one HTML page: no script, no asset from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from markupsafe import Markup

from streams.offline.evaluation import svg_charts
from streams.offline.evaluation.figures import BANDS
from streams.offline.evaluation.report_content import Case, ReportContent
from streams.offline.evaluation.svg_charts import Chart, Series
from streams.offline.evaluation.threshold_sweep import DOCUMENTS_MAX, SweepPoint
from streams.offline.pages import ShownText, page, text_pair

_BINS: Final = 24


class _Figure(NamedTuple):
    """A chart, and the table of what it shows."""

    title: str
    note: str
    picture: Markup
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class _ShownCase(NamedTuple):
    facts: str
    first: ShownText
    second: ShownText


class _Group(NamedTuple):
    """Cases of one kind; ``shown`` says how many of them."""

    title: str
    key: str
    text: str
    total: int
    shown: str
    cases: Sequence[_ShownCase]


def report_page(content: ReportContent) -> str:
    """Return the page."""
    groups = [
        _group(
            "Worst misses",
            "miss",
            "Labelled positives with two different originals, the most similar first.",
            content.misses,
            content.miss_count,
        ),
        _group(
            "Worst false joins",
            "join",
            "Duplicates that differ from the original that they name, the least similar first.",
            content.false_joins,
            content.false_join_count,
        ),
    ]
    return page(
        "evaluation.html",
        f"Evaluation of {Path(content.names[0]).name}",
        {
            "pairs": Path(content.names[1]).name,
            "quality": content.quality,
            "tiles": _tiles(content),
            "pair_figures": [_distances(content), *_bands(content)],
            "threshold_figures": _thresholds(content),
            "documents_max": f"{DOCUMENTS_MAX:,}",
            "groups": groups,
        },
    )


def _tiles(content: ReportContent) -> list[tuple[str, str, str]]:
    quality = content.quality
    return [
        ("Recall", _percent(quality.recall), f"of {quality.positives:,} labelled positives"),
        ("Precision", _percent(quality.precision), f"of {quality.joined_pairs:,} joined pairs"),
        ("F1", _percent(quality.f1), "of these two"),
        ("Caught", _percent(quality.caught), "later documents called duplicates"),
        (
            "False duplicates",
            _percent(quality.false_duplicates),
            f"of {quality.duplicates:,} share less than half",
        ),
        ("Uniques", f"{quality.uniques:,}", f"of {quality.documents:,} documents"),
        ("Undecidable", f"{quality.undecidable:,}", "too short to compare"),
        ("Speed", f"{quality.documents_per_second:,.0f}", "documents a second"),
    ]


def _distances(content: ReportContent) -> _Figure:
    distances = content.distances
    largest = max([*distances.positives, *distances.negatives, *distances.unrelated, 1])
    width = max(1, -(-(largest + 1) // _BINS))
    bins = -(-(largest + 1) // width)
    rows = [
        ("labelled positives", distances.positives, 1),
        ("labelled negatives", distances.negatives, 2),
        ("random pairs of different groups", distances.unrelated, 3),
    ]
    series = [
        Series(f"{name} ({len(values):,})", _shares(values, width, bins), colour)
        for name, values, colour in rows
        if values
    ]
    labels = [str(number * width) for number in range(bins)]
    chart = Chart(
        "distances",
        "Distances of labelled pairs",
        f"Share of pairs by distance in bits. Pairs up to {content.distance} bits apart are "
        "candidates for being near.",
        f"distance in bits, of {content.bits}",
        "share of pairs",
    )
    picture = svg_charts.histogram(chart, labels, series, (content.distance + 1) / width)
    return _figure(
        "Distances",
        "Compared directly, pair by pair. The broken line is the distance in force, "
        f"{content.distance}: beyond it nothing is called a duplicate.",
        svg_charts.legend(series) + picture,
        ["distance", *(row.name for row in series)],
        [
            [
                f"{number * width} to {number * width + width - 1}",
                *(f"{row.values[number] or 0:.2%}" for row in series),
            ]
            for number in range(bins)
        ],
    )


def _thresholds(content: ReportContent) -> list[_Figure]:
    if not content.by_distance:
        return []
    figures = [
        _curve(
            "by-distance",
            "Figures by distance threshold",
            "distance threshold in bits",
            content.by_distance,
            [point.at.distance for point in content.by_distance],
            content.distance,
        )
    ]
    if content.by_verification:
        figures.append(
            _curve(
                "by-confirmation",
                "Figures by similarity threshold",
                "minimum similarity (verify_at)",
                content.by_verification,
                [point.at.verify_at for point in content.by_verification],
                content.verify_at,
            )
        )
    return figures


def _curve(
    key: str, title: str, x: str, points: Sequence[SweepPoint], xs: Sequence[float], mark: float
) -> _Figure:
    series = [
        Series("recall", [point.quality.recall for point in points], 1),
        Series("precision", [point.quality.precision for point in points], 2),
        Series("F1", [point.quality.f1 for point in points], 3),
    ]
    best = max(
        (value, left)
        for value, left in zip(series[2].values, xs, strict=True)
        for value in [value or 0.0]
    )
    description = (
        f"Recall, precision and F1 over the threshold, from {xs[0]:g} to {xs[-1]:g}; in force is "
        f"{mark:g}. F1 is highest at {best[1]:g}, {best[0]:.1%}."
    )
    picture = svg_charts.lines(Chart(key, title, description, x, ""), xs, series, mark)
    rows = [
        [
            f"{left:g}{' (in force)' if left == mark else ''}",
            *map(
                _percent,
                (
                    point.quality.recall,
                    point.quality.precision,
                    point.quality.f1,
                    point.quality.caught,
                    point.quality.false_duplicates,
                ),
            ),
        ]
        for left, point in zip(xs, points, strict=True)
    ]
    note = f"In force: {mark:g}, the broken line. F1 is highest at {best[1]:g}."
    head = ["threshold", "recall", "precision", "F1", "caught", "false duplicates"]
    return _figure(title, note, svg_charts.legend(series) + picture, head, rows)


def _bands(content: ReportContent) -> list[_Figure]:
    quality = content.quality
    if not any(quality.positives_by_jaccard.values()):
        return []
    ends = [*BANDS[1:], "1.0"]
    labels = [f"{low}–{high}" for low, high in zip(BANDS, ends, strict=True)]
    row = Series("recall", [quality.recall_by_jaccard[band] for band in BANDS], 1)
    known = (
        f"{label}: {value:.1%}"
        for label, value in zip(labels, row.values, strict=True)
        if value is not None
    )
    chart = Chart(
        "bands", "Recall by Jaccard band", "; ".join(known), "Jaccard of the pair", "recall"
    )
    drawn = _figure(
        "Recall by likeness",
        "Labelled positives that are joined, by the Jaccard that the file of pairs gives.",
        svg_charts.bars(chart, labels, row),
        ["Jaccard", "pairs", "recall"],
        [
            [label, f"{quality.positives_by_jaccard[band]:,}", _percent(value)]
            for label, band, value in zip(labels, BANDS, row.values, strict=True)
        ],
    )
    return [drawn]


def _group(title: str, key: str, text: str, cases: Sequence[Case], count: int) -> _Group:
    shown = f"{len(cases)} of {count:,}" if count > len(cases) else f"{count:,}"
    return _Group(title, key, text, count, shown, [_case(case) for case in cases])


def _case(case: Case) -> _ShownCase:
    facts = [
        f"distance {case.distance}" if case.distance is not None else "no fingerprint",
        f"Jaccard {case.jaccard:.3f}" if case.jaccard is not None else "",
        case.why,
    ]
    notes = [None if group is None else f"group {group}" for group in case.groups]
    pair = text_pair(case.first, case.second, (notes[0], notes[1]))
    return _ShownCase(" · ".join(filter(None, facts)), *pair)


def _figure(
    title: str, note: str, picture: str, head: Sequence[str], rows: Sequence[Sequence[str]]
) -> _Figure:
    """Return a figure; ``picture`` is ours, with its texts escaped."""
    return _Figure(title, note, Markup(picture), head, rows)  # noqa: S704


def _shares(values: Sequence[int], width: int, bins: int) -> list[float | None]:
    counts = [0] * bins
    for value in values:
        counts[value // width] += 1
    return [count / len(values) for count in counts]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
