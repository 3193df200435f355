"""The report of an evaluation as one HTML page without scripts or external assets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from streams.evaluation.dedup_pass import remembering
from streams.evaluation.evaluation import (
    Evaluated,
    PairDistances,
    Quality,
    Watch,
    evaluate,
    pair_distances,
    read_labelled,
    texts_of,
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
    confirmations_around,
    distances_around,
    means_around,
    sweep,
    threshold_of,
)
from streams.offline.pages import ShownText, page, text_pair
from streams.settings.settings import Settings

CASES_MAX: Final = 8  # the most misses, and the most false joins, that are shown with their texts
_MISSES: Final = (
    "Worst misses",
    "miss",
    "Labelled positives with two different originals, most similar first.",
)
_FALSE_JOINS: Final = (
    "Worst false joins",
    "join",
    "Duplicates that differ from their original, least similar first.",
)


def report_page(
    names: tuple[str, str], settings: Settings, watch: Watch = lambda *_: None
) -> tuple[str, Quality]:
    """Evaluate the files of documents and of pairs; return the page and its figures."""
    labelled = read_labelled(*names, settings)
    count = len(labelled.documents.ids)
    profile = settings.index_profile()
    caching = remembering()
    is_swept = count <= DOCUMENTS_MAX
    fingerprinter_of = caching if is_swept else Fingerprinter
    evaluated = evaluate(labelled, settings, fingerprinter_of, watch)
    misses, false_joins = _misses(evaluated), _false_joins(evaluated)
    shown = [*misses[:CASES_MAX], *false_joins[:CASES_MAX]]
    distances = pair_distances(
        labelled,
        settings,
        caching(profile),
        [(case.first, case.second) for case in shown],
        lambda done: watch("comparing pairs", done, count),
    )
    by_threshold: list[Figure] = []
    if is_swept:
        by_threshold = _threshold_figures(evaluated, settings, fingerprinter_of, watch)
    documents = texts_of(
        names[0], settings, {number for case in shown for number in (case.first, case.second)}
    )

    def case_of(wrong: _Wrong) -> tuple[str, ShownText, ShownText]:
        ends = (wrong.first, wrong.second)
        facts = [
            f"distance {distances.of[ends]}" if ends in distances.of else "no fingerprint",
            f"Jaccard {wrong.jaccard:.3f}" if wrong.jaccard is not None else "",
            wrong.why,
        ]
        groups = (labelled.documents.groups[number] for number in ends)
        first, second = (None if group is None else f"group {group}" for group in groups)
        pair = text_pair(documents[wrong.first], documents[wrong.second], (first, second))
        return " · ".join(filter(None, facts)), *pair

    values = {
        "pairs": Path(names[1]).name,
        "quality": evaluated.quality,
        "tiles": _tiles(evaluated.quality),
        "pair_figures": [
            _distance_figure(distances, profile.distance, profile.bits),
            *_band_figures(evaluated.quality),
        ],
        "threshold_figures": by_threshold,
        "documents_max": f"{DOCUMENTS_MAX:,}",
        "groups": [
            (*about, f"{len(wrong):,}", [case_of(each) for each in wrong[:CASES_MAX]])
            for about, wrong in ((_MISSES, misses), (_FALSE_JOINS, false_joins))
        ],
    }
    title = f"Evaluation of {Path(names[0]).name}"
    return page("evaluation.html", title, values), evaluated.quality


class _Wrong(NamedTuple):
    first: int
    second: int
    jaccard: float | None
    why: str


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


_BINS: Final = 24


class Figure(NamedTuple):
    """A table of shares, with a bar behind each; a row has its name and its shares.

    ``marked`` is the name of the row of the threshold in use.
    """

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float | None]]]
    marked: str = ""

    @property
    def largest(self) -> float:
        """The largest share, whose bar fills its cell."""
        return max((share for _, shares in self.rows for share in shares if share), default=1.0)


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


def _distance_figure(distances: PairDistances, in_force: int, of_bits: int) -> Figure:
    by_name = {
        "labelled positives": distances.positives,
        "labelled negatives": distances.negatives,
        "random pairs of different groups": distances.unrelated,
    }
    kinds = {name: values for name, values in by_name.items() if values}
    largest = max((max(values) for values in kinds.values()), default=0)
    width = 1 + largest // _BINS
    counts = [Counter(value // width for value in values) for values in kinds.values()]
    names = [f"{low} to {low + width - 1}" for low in range(0, largest + 1, width)]
    return Figure(
        "Distances",
        f"Share of pairs by distance in bits, of {of_bits}, compared pair by pair. Pairs beyond "
        f"the distance in use, {in_force}, are not near duplicates.",
        ["distance", *(f"{name} ({len(values):,})" for name, values in kinds.items())],
        [
            (name, [count[number] / count.total() for count in counts])
            for number, name in enumerate(names)
        ],
        names[min(in_force // width, len(names) - 1)],
    )


def _threshold_figures(
    evaluated: Evaluated,
    settings: Settings,
    fingerprinter_of: Callable[[Profile], Fingerprinter],
    watch: Watch,
) -> list[Figure]:
    """Evaluate other thresholds too; return the figures over each kind."""
    in_force = threshold_of(settings)
    kinds = [
        ("By distance threshold", "distance", distances_around(settings)),
        ("By similarity threshold", "verify_at", confirmations_around(settings)),
        ("By mean of both similarities", "mean_at", means_around(settings)),
    ]
    others = [at for _, _, thresholds in kinds for at in thresholds if at != in_force]
    points = sweep(evaluated.labelled, settings, others, fingerprinter_of, watch)
    points[in_force] = evaluated.quality
    return [
        Figure(
            title,
            f"The setting {name} is {getattr(in_force, name):g}.",
            [name, "recall", "precision", "F1", "caught", "false duplicates"],
            [(f"{getattr(at, name):g}", _shares_of(points[at])) for at in thresholds],
            f"{getattr(in_force, name):g}",
        )
        for title, name, thresholds in kinds
        if thresholds
    ]


def _shares_of(quality: Quality) -> list[float | None]:
    shares = (quality.recall, quality.precision, quality.f1)
    return [*shares, quality.caught, quality.false_duplicates]


def _band_figures(quality: Quality) -> list[Figure]:
    if not any(quality.positives_by_jaccard.values()):
        return []
    return [
        Figure(
            "Recall by similarity",
            "Labelled positives that are joined, by the Jaccard similarity in the file of pairs.",
            ["Jaccard", "recall"],
            [
                (
                    f"{low} to {high} ({quality.positives_by_jaccard[low]:,} pairs)",
                    [quality.recall_by_jaccard[low]],
                )
                for low, high in zip(BANDS, [*BANDS[1:], "1.0"], strict=True)
            ],
        )
    ]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
