"""The figures of an evaluation, from decisions and labels; docs/evaluate.md defines them.

Documents are numbered in file order. Two documents are *joined* if they have the same original; a
unique document is its own. A figure is None if its denominator is 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import Final, NamedTuple

POSITIVE: Final = 1
NEGATIVE: Final = 0
UNSCORED: Final = -1
LABELS: Final = (POSITIVE, NEGATIVE, UNSCORED)

BANDS: Final = ("0.5", "0.6", "0.7", "0.8", "0.9")
"""Lower bounds of the Jaccard bands; the last includes 1.0."""

FALSE_DUPLICATE_BELOW: Final = 0.5


class LabelledPair(NamedTuple):
    """Two documents, ``first`` before ``second`` in the file.

    ``label`` is one of ``LABELS``; ``jaccard`` is None if unknown.
    """

    first: int
    second: int
    label: int
    jaccard: float | None = None


class Precision(NamedTuple):
    right: int
    judged: int


def joined(originals: Sequence[int], pair: LabelledPair) -> bool:
    return originals[pair.first] == originals[pair.second]


def is_duplicate(originals: Sequence[int], document: int) -> bool:
    return originals[document] != document


def uniques(originals: Sequence[int]) -> int:
    return sum(original == document for document, original in enumerate(originals))


def recall(originals: Sequence[int], pairs: Iterable[LabelledPair]) -> float | None:
    return share(joined(originals, pair) for pair in pairs if pair.label == POSITIVE)


def caught(originals: Sequence[int], pairs: Iterable[LabelledPair]) -> float | None:
    return share(is_duplicate(originals, pair.second) for pair in pairs if pair.label == POSITIVE)


def recall_by_jaccard(
    originals: Sequence[int], pairs: Iterable[LabelledPair]
) -> dict[str, float | None]:
    """Return the recall of each band; positives below 0.5 or without a Jaccard are in none."""
    bands = by_band(pairs)
    return {band: recall(originals, bands[band]) for band in BANDS}


def by_band(pairs: Iterable[LabelledPair]) -> dict[str, list[LabelledPair]]:
    bands: dict[str, list[LabelledPair]] = {band: [] for band in BANDS}
    for pair in pairs:
        if pair.label == POSITIVE and pair.jaccard is not None:
            within = [band for band in BANDS if pair.jaccard >= float(band)]
            if within:
                bands[within[-1]].append(pair)
    return bands


def precision_counts(
    originals: Sequence[int], groups: Sequence[str | None], pairs: Iterable[LabelledPair]
) -> Precision:
    clusters: dict[int, Counter[str]] = defaultdict(Counter)
    for original, group in zip(originals, groups, strict=True):
        if group is not None:
            clusters[original][group] += 1
    judged = sum(comb(members.total(), 2) for members in clusters.values())
    right = sum(comb(size, 2) for members in clusters.values() for size in members.values())
    for pair in pairs:
        if not joined(originals, pair):
            continue
        one, other = groups[pair.first], groups[pair.second]
        if one is None or other is None:
            judged += pair.label != UNSCORED
            right += pair.label == POSITIVE
        elif pair.label == UNSCORED:
            judged -= 1
            right -= one == other
    return Precision(right, judged)


def f1(recall_: float | None, precision: float | None) -> float | None:
    if recall_ is None or precision is None:
        return None
    return 2 * recall_ * precision / (recall_ + precision) if recall_ + precision else 0.0


def false_duplicates(jaccards: Mapping[int, float]) -> float | None:
    return share(jaccard < FALSE_DUPLICATE_BELOW for jaccard in jaccards.values())


def share(outcomes: Iterable[bool]) -> float | None:
    """Return the share of true outcomes, None without outcomes."""
    counts = Counter(outcomes)
    return counts[True] / counts.total() if counts else None
