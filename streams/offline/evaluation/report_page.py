"""The report of an evaluation as one HTML page: no script, no asset from elsewhere.

Everything that comes from documents is escaped: a text may hold HTML. A policy in the page's head
lets a browser load nothing and run nothing, whatever a text holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from simhash_core.documents import Document
from streams.offline.evaluation import svg_charts
from streams.offline.evaluation.figures import BANDS
from streams.offline.evaluation.report_content import Case, ReportContent
from streams.offline.evaluation.svg_charts import Chart, Series
from streams.offline.evaluation.text_differences import Piece, PieceKind, side_by_side
from streams.offline.evaluation.threshold_sweep import DOCUMENTS_MAX, SweepPoint

_STYLE: Final = Path(__file__).with_name("report_page.css")
_BINS: Final = 24
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(content: ReportContent) -> str:
    """Return the page."""
    sections = [
        _summary(content),
        '<h2>Pairs</h2><div class="charts">' + _distances(content) + _bands(content) + "</div>",
        _thresholds(content),
        _cases(
            "Worst misses",
            "miss",
            "Labelled positives with two originals, not one; those most alike first.",
            content.misses,
            content.miss_count,
        ),
        _cases(
            "Worst false joins",
            "join",
            "Duplicates that are not like the original that they name, those least alike first.",
            content.false_joins,
            content.false_join_count,
        ),
    ]
    title = f"Evaluation of {Path(content.names[0]).name}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{_STYLE.read_text('utf-8')}</style></head>\n"
        "<body><main>\n" + "\n".join(sections) + "\n</main></body></html>\n"
    )


def _summary(content: ReportContent) -> str:
    quality = content.quality
    tiles = [
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
    shown = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{value}</b>'
        f"<span>{escape(note)}</span></div>"
        for name, value, note in tiles
    )
    return (
        f"<h1>Evaluation of {escape(Path(content.names[0]).name)}</h1>"
        f'<p class="soft">Pairs: {escape(Path(content.names[1]).name)}. '
        f"Profile {escape(quality.profile)}: <code>{escape(quality.index)}</code></p>"
        f'<div class="tiles">{shown}</div>'
    )


def _distances(content: ReportContent) -> str:
    distances = content.distances
    most = max([*distances.positives, *distances.negatives, *distances.unrelated, 1])
    width = max(1, -(-(most + 1) // _BINS))
    bins = -(-(most + 1) // width)
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
    table = _table(
        ["distance", *(row.name for row in series)],
        (
            [
                f"{number * width} to {number * width + width - 1}",
                *(f"{row.values[number] or 0:.2%}" for row in series),
            ]
            for number in range(bins)
        ),
    )
    return _figure(
        "Distances",
        "Compared directly, pair by pair. The broken line is the distance in force, "
        f"{content.distance}: beyond it nothing is called a duplicate.",
        svg_charts.legend(series) + picture,
        table,
    )


def _thresholds(content: ReportContent) -> str:
    if not content.by_distance:
        return (
            "<h2>Thresholds</h2><p>Left out: other thresholds are tried on at most "
            f"{DOCUMENTS_MAX:,} documents.</p>"
        )
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
    if content.by_confirmation:
        figures.append(
            _curve(
                "by-confirmation",
                "Figures by agreement threshold",
                "least agreement that confirms (verify_at)",
                content.by_confirmation,
                [point.at.verify_at for point in content.by_confirmation],
                content.verify_at,
            )
        )
    return (
        "<h2>Thresholds</h2><p>Each point is a run of the deduplicator over all documents.</p>"
        '<div class="charts">' + "".join(figures) + "</div>"
    )


def _curve(
    key: str, title: str, x: str, points: Sequence[SweepPoint], xs: Sequence[float], mark: float
) -> str:
    series = [
        Series("recall", [point.quality.recall for point in points], 1),
        Series("precision", [point.quality.precision for point in points], 2),
        Series("F1", [point.quality.f1 for point in points], 3),
    ]
    best = max(
        (value, place)
        for value, place in zip(series[2].values, xs, strict=True)
        for value in [value or 0.0]
    )
    description = (
        f"Recall, precision and F1 over the threshold, from {xs[0]:g} to {xs[-1]:g}; in force is "
        f"{mark:g}. F1 is highest at {best[1]:g}, {best[0]:.1%}."
    )
    picture = svg_charts.lines(Chart(key, title, description, x, ""), xs, series, mark)
    table = _table(
        ["threshold", "recall", "precision", "F1", "caught", "false duplicates"],
        (
            [
                f"{place:g}{' (in force)' if place == mark else ''}",
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
            for place, point in zip(xs, points, strict=True)
        ),
    )
    note = f"In force: {mark:g}, the broken line. F1 is highest at {best[1]:g}."
    return _figure(title, note, svg_charts.legend(series) + picture, table)


def _bands(content: ReportContent) -> str:
    quality = content.quality
    if not any(quality.positives_by_jaccard.values()):
        return ""
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
    table = _table(
        ["Jaccard", "pairs", "recall"],
        (
            [label, f"{quality.positives_by_jaccard[band]:,}", _percent(value)]
            for label, band, value in zip(labels, BANDS, row.values, strict=True)
        ),
    )
    return _figure(
        "Recall by likeness",
        "Labelled positives that are joined, by the Jaccard that the file of pairs gives.",
        svg_charts.bars(chart, labels, row),
        table,
    )


def _cases(title: str, key: str, text: str, cases: Sequence[Case], count: int) -> str:
    shown = "".join(_case(case, f"{key}-{number}") for number, case in enumerate(cases, 1))
    number = f"{len(cases)} of {count:,}" if count > len(cases) else f"{count:,}"
    return (
        f"<h2>{title}</h2><p>{text} {number} shown; passages that are alike are folded.</p>"
        if count
        else f"<h2>{title}</h2><p>None.</p>"
    ) + shown


def _case(case: Case, key: str) -> str:
    facts = [
        f"distance {case.distance}" if case.distance is not None else "no fingerprint",
        f"Jaccard {case.jaccard:.3f}" if case.jaccard is not None else "",
        case.why,
    ]
    pieces = side_by_side(case.first.text, case.second.text)
    return (
        f'<article class="case" aria-labelledby="{key}"><p class="facts" id="{key}">'
        + escape(" · ".join(filter(None, facts)))
        + '</p><div class="sides">'
        + _side("first", case.first, case.groups[0], pieces.left)
        + _side("second", case.second, case.groups[1], pieces.right)
        + "</div></article>"
    )


def _side(place: str, document: Document, group: str | None, pieces: Iterable[Piece]) -> str:
    tags = {
        PieceKind.SAME: "{}",
        PieceKind.ONLY: "<mark>{}</mark>",
        PieceKind.FOLDED: '<span class="folded">{}</span>',
    }
    text = "".join(tags[piece.kind].format(escape(piece.text)) for piece in pieces)
    named = f"{document.id}: {document.title}" if document.title else document.id
    return (
        f'<div class="side {place}"><h4>{escape(named)}</h4>'
        + (f'<span class="soft">group {escape(group)}</span>' if group is not None else "")
        + f'<div class="text" tabindex="0" role="region" aria-label="Text of '
        f'{escape(document.id)}">{text}</div></div>'
    )


def _figure(title: str, note: str, picture: str, table: str) -> str:
    return (
        f"<figure><h3>{escape(title)}</h3><figcaption>{escape(note)}</figcaption>{picture}"
        f'<details><summary>Figures</summary><div class="scroll">{table}</div></details></figure>'
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _shares(values: Sequence[int], width: int, bins: int) -> list[float | None]:
    counts = [0] * bins
    for value in values:
        counts[value // width] += 1
    return [count / len(values) for count in counts]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
