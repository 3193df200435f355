"""What a report of an evaluation shows, gathered before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from simhash_core.documents import Document
from streams.offline.evaluation.evaluation import (
    Evaluated,
    Watch,
    evaluate,
    read_labelled,
    texts_of,
)
from streams.offline.evaluation.figures import (
    FALSE_DUPLICATE_BELOW,
    NEGATIVE,
    POSITIVE,
    is_duplicate,
    joined,
)
from streams.offline.evaluation.pair_distances import PairDistances, pair_distances
from streams.offline.evaluation.quality import Quality
from streams.offline.evaluation.remembered_fingerprints import RememberedFingerprints
from streams.offline.evaluation.threshold_sweep import (
    DOCUMENTS_MAX,
    SweepPoint,
    confirmations_around,
    distances_around,
    sweep,
    threshold_of,
)
from streams.settings.settings import Settings

CASES_MAX: Final = 8
"""Misses, and false joins, that are shown with their texts."""


class Case(NamedTuple):
    """Two documents that were judged wrongly; ``why`` says how.

    ``distance`` is None where one has no fingerprint, ``jaccard`` where it is not known.
    """

    first: Document
    second: Document
    groups: tuple[str | None, str | None]
    distance: int | None
    jaccard: float | None
    why: str


class ReportContent(NamedTuple):
    """``by_distance`` and ``by_verification`` are empty where nothing was swept."""

    quality: Quality
    names: tuple[str, str]
    bits: int
    distance: int
    verify_at: float
    distances: PairDistances
    by_distance: Sequence[SweepPoint]
    by_verification: Sequence[SweepPoint]
    misses: Sequence[Case]
    miss_count: int
    false_joins: Sequence[Case]
    false_join_count: int


class _Wrong(NamedTuple):
    """A case by the numbers of its documents."""

    first: int
    second: int
    jaccard: float | None
    why: str


def report_content(
    names: tuple[str, str], settings: Settings, watch: Watch | None = None
) -> ReportContent:
    """Evaluate the files of documents and pairs ``names``, and gather what the report shows."""
    labelled = read_labelled(*names, settings)
    count = len(labelled.documents.ids)
    remembered = RememberedFingerprints()
    swept = count <= DOCUMENTS_MAX
    fingerprinter_of = remembered.fingerprinter if swept else None
    evaluated = (
        evaluate(labelled, settings, fingerprinter_of, watch)
        if fingerprinter_of
        else evaluate(labelled, settings, watch=watch)
    )
    misses, false_joins = _misses(evaluated), _false_joins(evaluated)
    shown = [*misses[:CASES_MAX], *false_joins[:CASES_MAX]]
    ends = [(case.first, case.second) for case in shown]
    profile = settings.index_profile()
    distances = pair_distances(
        labelled,
        settings,
        remembered.fingerprinter(profile),
        ends,
        lambda done: watch("comparing pairs", done, count) if watch else None,
    )
    thresholds = [distances_around(settings), confirmations_around(settings)]
    points = (
        sweep(
            labelled,
            settings,
            [at for ats in thresholds for at in ats if at != threshold_of(settings)],
            fingerprinter_of,
            watch,
        )
        if fingerprinter_of
        else {}
    )
    if points:
        at = threshold_of(settings)
        points[at] = SweepPoint(at, evaluated.quality, evaluated.decided)
    by_distance, by_verification = (
        [points[at] for at in ats if at in points] for ats in thresholds
    )
    documents = texts_of(names[0], settings, {number for pair in ends for number in pair})
    cases = [_case(wrong, evaluated, documents, distances.of) for wrong in shown]
    kept = min(CASES_MAX, len(misses))
    return ReportContent(
        quality=evaluated.quality,
        names=names,
        bits=profile.bits,
        distance=profile.distance,
        verify_at=profile.verify_at,
        distances=distances,
        by_distance=by_distance,
        by_verification=by_verification,
        misses=cases[:kept],
        miss_count=len(misses),
        false_joins=cases[kept:],
        false_join_count=len(false_joins),
    )


def _misses(evaluated: Evaluated) -> list[_Wrong]:
    """Return the labelled positives that are not joined, those most alike first."""
    originals, ids = evaluated.decided.originals, evaluated.labelled.documents.ids
    wrong = []
    for pair in evaluated.labelled.pairs:
        if pair.label != POSITIVE or joined(originals, pair):
            continue
        if is_duplicate(originals, pair.second):
            why = f"the second was called a duplicate of {ids[originals[pair.second]]} instead"
        elif is_duplicate(originals, pair.first):
            why = f"the first is a duplicate of {ids[originals[pair.first]]}; the second is unique"
        else:
            why = "both are unique"
        wrong.append(_Wrong(pair.first, pair.second, pair.jaccard, why))
    return sorted(wrong, key=lambda case: (-(case.jaccard or 0.0), case.first, case.second))


def _false_joins(evaluated: Evaluated) -> list[_Wrong]:
    """Return duplicates that are wrong about their original, those least alike first.

    Wrong: labelled 0, of another group, or sharing less than half of it; unless labelled otherwise.
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
            reasons.append("less than half is shared")
        if reasons:
            wrong.append(_Wrong(original, duplicate, jaccard, ", ".join(reasons)))
    return sorted(wrong, key=lambda case: (case.jaccard or 0.0, case.first, case.second))


def _case(
    wrong: _Wrong,
    evaluated: Evaluated,
    documents: Mapping[int, Document],
    distances: Mapping[tuple[int, int], int],
) -> Case:
    groups = evaluated.labelled.documents.groups
    return Case(
        documents[wrong.first],
        documents[wrong.second],
        (groups[wrong.first], groups[wrong.second]),
        distances.get((wrong.first, wrong.second)),
        wrong.jaccard,
        wrong.why,
    )
