"""The report of an evaluation as one HTML page without scripts or external assets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from markupsafe import Markup

from simhash_core.documents import Document
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from streams.evaluation.dedup_pass import RememberedFingerprints
from streams.evaluation.evaluation import (
    Evaluated,
    PairDistances,
    Quality,
    Watch,
    evaluate,
    pair_distances,
    read_labelled,
    texts_of,
    unwatched,
)
from streams.evaluation.figures import (
    BANDS,
    FALSE_DUPLICATE_BELOW,
    NEGATIVE,
    POSITIVE,
    is_duplicate,
    joined,
)
from streams.evaluation.tuning import (
    DOCUMENTS_MAX,
    SweepPoint,
    confirmations_around,
    distances_around,
    means_around,
    sweep,
    threshold_of,
)
from streams.offline.pages import ShownText, page, part, text_pair
from streams.settings.settings import Settings

# ---- Charts: histogram, lines, bars.

_CHARTS: Final = "charts.html"


class Series(NamedTuple):
    """Named values, None where one is missing. ``colour`` is the number of a CSS variable."""

    name: str
    values: Sequence[float | None]
    colour: int


class Chart(NamedTuple):
    """``key`` is unique on the page; ``x`` and ``y`` name the axes."""

    key: str
    title: str
    description: str
    x: str
    y: str


def histogram(
    chart: Chart, labels: Sequence[str], series: Sequence[Series], mark: float | None = None
) -> Markup:
    """Draw shares by bin, series side by side, and a line at ``mark``, which is in bins."""
    largest = max((value for row in series for value in row.values if value), default=0.0)
    steps = (0.04, 0.08, 0.12, 0.2, 0.4, 0.6, 0.8, 1.0)
    top = next((step for step in steps if largest <= step), 1.0)
    return part(_CHARTS, "histogram", chart, labels, series, top, mark)


def lines(
    chart: Chart, xs: Sequence[float], series: Sequence[Series], mark: float | None = None
) -> Markup:
    """Draw values up to 1 over ascending ``xs``, and a line at x = ``mark``."""
    values = [value for row in series for value in row.values if value is not None]
    lowest = min(values, default=0.0)
    low = next((step for step in (0.9, 0.8, 0.6, 0.5) if lowest >= step), 0.0)
    return part(_CHARTS, "lines", chart, xs, series, low, mark)


def bars(chart: Chart, labels: Sequence[str], row: Series) -> Markup:
    """Draw a bar for each label, with its value; the axis is from 0 to 1."""
    return part(_CHARTS, "bars", chart, labels, row)


def legend(series: Sequence[Series]) -> Markup:
    return part(_CHARTS, "legend", series)


CASES_MAX: Final = 8  # the most misses, and the most false joins, that are shown with their texts


class CaseGroup(NamedTuple):
    """The worst of ``total`` cases of one kind: the facts, and two documents judged wrongly.

    ``key`` is unique on the page.
    """

    title: str
    key: str
    text: str
    total: int
    cases: Sequence[tuple[str, ShownText, ShownText]]

    @property
    def shown(self) -> str:
        some = f"{len(self.cases)} of " if self.total > len(self.cases) else ""
        return f"{some}{self.total:,}"


class _Wrong(NamedTuple):
    first: int
    second: int
    jaccard: float | None
    why: str


def report_page(
    names: tuple[str, str], settings: Settings, watch: Watch = unwatched
) -> tuple[str, Quality]:
    """Evaluate the files of documents and of pairs; return the page and its figures."""
    labelled = read_labelled(*names, settings)
    count = len(labelled.documents.ids)
    profile = settings.index_profile()
    remembered = RememberedFingerprints()
    is_swept = count <= DOCUMENTS_MAX
    fingerprinter_of: Callable[[Profile], Fingerprinter] = (
        remembered.fingerprinter if is_swept else Fingerprinter
    )
    evaluated = evaluate(labelled, settings, fingerprinter_of, watch)
    misses, false_joins = _misses(evaluated), _false_joins(evaluated)
    shown = [*misses[:CASES_MAX], *false_joins[:CASES_MAX]]
    ends = [(case.first, case.second) for case in shown]
    distances = pair_distances(
        labelled,
        settings,
        remembered.fingerprinter(profile),
        ends,
        lambda done: watch("comparing pairs", done, count),
    )
    curves: list[_Figure] = []
    if is_swept:
        curves = _threshold_figures(evaluated, settings, fingerprinter_of, watch)
    documents = texts_of(names[0], settings, {number for pair in ends for number in pair})
    cases = [_case(wrong, evaluated, documents, distances.of) for wrong in shown]
    kept = min(CASES_MAX, len(misses))
    groups = [
        CaseGroup(
            "Worst misses",
            "miss",
            "Labelled positives with two different originals, most similar first.",
            len(misses),
            cases[:kept],
        ),
        CaseGroup(
            "Worst false joins",
            "join",
            "Duplicates that differ from their original, least similar first.",
            len(false_joins),
            cases[kept:],
        ),
    ]
    values = {
        "pairs": Path(names[1]).name,
        "quality": evaluated.quality,
        "tiles": _tiles(evaluated.quality),
        "pair_figures": [
            _distance_figure(distances, profile.distance, profile.bits),
            *_band_figures(evaluated.quality),
        ],
        "threshold_figures": curves,
        "documents_max": f"{DOCUMENTS_MAX:,}",
        "groups": groups,
    }
    title = f"Evaluation of {Path(names[0]).name}"
    return page("evaluation.html", title, values), evaluated.quality


def _misses(evaluated: Evaluated) -> list[_Wrong]:
    """Return the labelled positives that are not joined, the most similar first."""
    originals, ids = evaluated.decided.originals, evaluated.labelled.documents.ids
    wrong = []
    for pair in evaluated.labelled.pairs:
        if pair.label != POSITIVE or joined(originals, pair):
            continue
        if is_duplicate(originals, pair.second):
            why = f"the second was reported as a duplicate of {ids[originals[pair.second]]} instead"
        elif is_duplicate(originals, pair.first):
            why = f"the first is a duplicate of {ids[originals[pair.first]]}; the second is unique"
        else:
            why = "both are unique"
        wrong.append(_Wrong(pair.first, pair.second, pair.jaccard, why))
    return sorted(wrong, key=lambda case: (-(case.jaccard or 0.0), case.first, case.second))


def _false_joins(evaluated: Evaluated) -> list[_Wrong]:
    """Return wrong duplicates, the least similar first.

    A duplicate and its original are wrong if they are labelled 0, if they have no label and are of
    different groups, or if they share less than half and are not labelled 1 or -1.
    """
    documents, originals = evaluated.labelled.documents, evaluated.decided.originals
    labels = {(pair.first, pair.second): pair.label for pair in evaluated.labelled.pairs}
    wrong = []
    for duplicate, jaccard in evaluated.jaccards.items():
        original = originals[duplicate]
        label = labels.get((min(original, duplicate), max(original, duplicate)))
        one, other = documents.groups[original], documents.groups[duplicate]
        reasons = []
        if label == NEGATIVE:
            reasons.append("labelled as different")
        if label is None and one is not None and other is not None and one != other:
            reasons.append("of different groups")
        if jaccard < FALSE_DUPLICATE_BELOW and label in (None, NEGATIVE):
            reasons.append("they share less than half")
        if reasons:
            wrong.append(_Wrong(original, duplicate, jaccard, ", ".join(reasons)))
    return sorted(wrong, key=lambda case: (case.jaccard or 0.0, case.first, case.second))


def _case(
    wrong: _Wrong,
    evaluated: Evaluated,
    documents: Mapping[int, Document],
    distances: Mapping[tuple[int, int], int],
) -> tuple[str, ShownText, ShownText]:
    ends = (wrong.first, wrong.second)
    facts = [
        f"distance {distances[ends]}" if ends in distances else "no fingerprint",
        f"Jaccard {wrong.jaccard:.3f}" if wrong.jaccard is not None else "",
        wrong.why,
    ]
    groups = (evaluated.labelled.documents.groups[number] for number in ends)
    first, second = (None if group is None else f"group {group}" for group in groups)
    pair = text_pair(documents[wrong.first], documents[wrong.second], (first, second))
    return " · ".join(filter(None, facts)), *pair


_BINS: Final = 24


class _Figure(NamedTuple):
    title: str
    note: str
    picture: Markup
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def _tiles(quality: Quality) -> list[tuple[str, str, str]]:
    return [
        ("Recall", _percent(quality.recall), f"of {quality.positives:,} labelled positives"),
        ("Precision", _percent(quality.precision), f"of {quality.joined_pairs:,} joined pairs"),
        ("F1", _percent(quality.f1), "of recall and precision"),
        ("Caught", _percent(quality.caught), "later documents reported as duplicates"),
        (
            "False duplicates",
            _percent(quality.false_duplicates),
            f"of {quality.duplicates:,} share less than half",
        ),
        ("Uniques", f"{quality.uniques:,}", f"of {quality.documents:,} documents"),
        ("Undecidable", f"{quality.undecidable:,}", "too short to compare"),
        ("Speed", f"{quality.documents_per_second:,.0f}", "documents per second"),
    ]


def _distance_figure(distances: PairDistances, in_force: int, of_bits: int) -> _Figure:
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
        f"Share of pairs by distance in bits. Pairs up to {in_force} bits apart can be near.",
        f"distance in bits, of {of_bits}",
        "share of pairs",
    )
    picture = histogram(chart, labels, series, (in_force + 1) / width)
    return _Figure(
        "Distances",
        f"Compared directly, pair by pair. The dashed line is the distance in use, {in_force}: "
        "pairs beyond it are not near duplicates.",
        legend(series) + picture,
        ["distance", *(row.name for row in series)],
        [
            [
                f"{number * width} to {number * width + width - 1}",
                *(f"{row.values[number] or 0:.2%}" for row in series),
            ]
            for number in range(bins)
        ],
    )


def _threshold_figures(
    evaluated: Evaluated,
    settings: Settings,
    fingerprinter_of: Callable[[Profile], Fingerprinter],
    watch: Watch,
) -> list[_Figure]:
    """Evaluate other thresholds too; draw the figures over each kind."""
    in_force = threshold_of(settings)
    distances, confirmations = distances_around(settings), confirmations_around(settings)
    means = means_around(settings)
    others = [at for at in (*distances, *confirmations, *means) if at != in_force]
    points = sweep(evaluated.labelled, settings, others, fingerprinter_of, watch)
    points[in_force] = SweepPoint(in_force, evaluated.quality, evaluated.decided)
    title, x = "Figures by distance threshold", "distance threshold in bits"
    by_distance = [points[at] for at in distances]
    xs: list[float] = [at.distance for at in distances]
    figures = [_curve("by-distance", title, x, by_distance, xs, in_force.distance)]
    if confirmations:
        title, x = "Figures by similarity threshold", "minimum similarity (verify_at)"
        points_of = [points[at] for at in confirmations]
        xs = [at.verify_at for at in confirmations]
        figures.append(_curve("by-confirmation", title, x, points_of, xs, in_force.verify_at))
    if means:
        title, x = "Figures by mean", "minimum mean of both similarities (mean_at)"
        points_of, xs = [points[at] for at in means], [at.mean_at for at in means]
        figures.append(_curve("by-mean", title, x, points_of, xs, in_force.mean_at))
    return figures


def _curve(
    key: str, title: str, x: str, points: Sequence[SweepPoint], xs: Sequence[float], mark: float
) -> _Figure:
    recall, precision, f1, *_ = zip(*map(_figures_of, points), strict=True)
    series = [Series("recall", recall, 1), Series("precision", precision, 2), Series("F1", f1, 3)]
    best = max(
        (value, left)
        for value, left in zip(series[2].values, xs, strict=True)
        for value in [value or 0.0]
    )
    description = (
        f"Recall, precision and F1 over the threshold, from {xs[0]:g} to {xs[-1]:g}; {mark:g} is "
        f"in use. F1 is highest at {best[1]:g}, {best[0]:.1%}."
    )
    picture = lines(Chart(key, title, description, x, ""), xs, series, mark)
    rows = [
        [f"{left:g}{' (in use)' if left == mark else ''}", *map(_percent, _figures_of(point))]
        for left, point in zip(xs, points, strict=True)
    ]
    note = f"In use: {mark:g}, the dashed line. F1 is highest at {best[1]:g}."
    head = ["threshold", "recall", "precision", "F1", "caught", "false duplicates"]
    return _Figure(title, note, legend(series) + picture, head, rows)


def _figures_of(point: SweepPoint) -> tuple[float | None, ...]:
    quality = point.quality
    shares = (quality.recall, quality.precision, quality.f1)
    return *shares, quality.caught, quality.false_duplicates


def _band_figures(quality: Quality) -> list[_Figure]:
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
    drawn = _Figure(
        "Recall by similarity",
        "Labelled positives that are joined, by the Jaccard similarity in the file of pairs.",
        bars(chart, labels, row),
        ["Jaccard", "pairs", "recall"],
        [
            [label, f"{quality.positives_by_jaccard[band]:,}", _percent(value)]
            for label, band, value in zip(labels, BANDS, row.values, strict=True)
        ],
    )
    return [drawn]


def _shares(values: Sequence[int], width: int, bins: int) -> list[float | None]:
    counts = [0] * bins
    for value in values:
        counts[value // width] += 1
    return [count / len(values) for count in counts]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
