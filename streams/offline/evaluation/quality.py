"""The result of an evaluation: the figures of one pass, as they stand in its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from simhash_core.index_digest import index_digest
from streams.offline.evaluation import figures
from streams.offline.evaluation.dedup_pass import Decided
from streams.offline.evaluation.figures import LabelledPair
from streams.offline.evaluation.labelled_files import LabelledDocuments

_DIGITS: Final = 6


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The figures; shares are 0 to 1 to six digits, None where there was nothing to measure.

    ``recall`` to ``false_duplicates`` are defined in ``streams.offline.evaluation.figures``.
    ``joined_pairs`` are those that precision is of, ``negatives_joined`` the labelled negatives
    among all that are joined. ``documents_per_second`` is of the deduplication alone, by the
    clock; ``cpu_seconds`` is the processor's time for the same.
    """

    documents: int
    uniques: int
    recall: float | None
    recall_by_jaccard: Mapping[str, float | None]
    caught: float | None
    precision: float | None
    f1: float | None
    false_duplicates: float | None
    documents_per_second: float
    duplicates: int
    exact_duplicates: int
    undecidable: int
    positives: int
    positives_by_jaccard: Mapping[str, int]
    negatives: int
    negatives_joined: int
    joined_pairs: int
    seconds: float
    cpu_seconds: float
    profile: str
    index: str


def quality_of(
    documents: LabelledDocuments,
    pairs: Sequence[LabelledPair],
    decided: Decided,
    jaccards: Mapping[int, float],
    profile: str,
) -> Quality:
    """Work out all figures of a pass; ``jaccards``: of each duplicate with its original."""
    originals = decided.originals
    counted = figures.precision_counts(originals, documents.groups, pairs)
    recall = figures.recall(originals, pairs)
    precision = counted.right / counted.judged if counted.judged else None
    negatives = [pair for pair in pairs if pair.label == figures.NEGATIVE]
    uniques = figures.uniques(originals)
    return Quality(
        documents=len(documents.ids),
        uniques=uniques,
        recall=_rounded(recall),
        recall_by_jaccard={
            band: _rounded(value)
            for band, value in figures.recall_by_jaccard(originals, pairs).items()
        },
        caught=_rounded(figures.caught(originals, pairs)),
        precision=_rounded(precision),
        f1=_rounded(figures.f1(recall, precision)),
        false_duplicates=_rounded(figures.false_duplicates(jaccards)),
        documents_per_second=round(len(documents.ids) / max(decided.seconds, 1e-6), 1),
        duplicates=len(documents.ids) - uniques,
        exact_duplicates=decided.counts.get("exact_duplicate", 0),
        undecidable=decided.counts.get("undecidable", 0),
        positives=sum(pair.label == figures.POSITIVE for pair in pairs),
        positives_by_jaccard={
            band: len(in_band) for band, in_band in figures.by_band(pairs).items()
        },
        negatives=len(negatives),
        negatives_joined=sum(figures.joined(originals, pair) for pair in negatives),
        joined_pairs=counted.judged,
        seconds=round(decided.seconds, 3),
        cpu_seconds=round(decided.cpu_seconds, 3),
        profile=profile,
        index=index_digest(decided.identity),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
