"""The figures of an evaluation, each as a function of what was decided and what is known.

Documents are numbered in the order of their file. Two documents are *joined* when they have the
same original; a unique document is its own. So an original and its duplicates are a cluster, and
all pairs of a cluster are joined, also two duplicates that were never compared.

- **recall**: labelled positives that are joined, over all labelled positives.
- **caught**: labelled positives whose later document is a duplicate, of anything. In dense clusters
  this is what matters: the repeat is gone, whichever of its like it was said to repeat.
- **precision**: of the joined pairs, those that are right. A pair is right when both documents are
  of one group; pairs labelled −1 are left out. Where one of the two has no group the label
  decides, 1 right and 0 wrong, and pairs without a label are left out.
- **f1**: the harmonic mean of recall and precision.
- **false_duplicates**: duplicates whose exact Jaccard with the very document that they are said to
  repeat is below 0.5, over all duplicates.

A figure over nothing is None: it is not known, not 0.
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
"""Lower bounds of the Jaccard bands, each up to the next one; the last to 1.0, which is in it."""

FALSE_DUPLICATE_BELOW: Final = 0.5


class LabelledPair(NamedTuple):
    """Two documents by their numbers, ``first`` before ``second`` in the file; and what is known.

    ``label`` is one of ``LABELS``; ``jaccard`` is None where the file of pairs has none.
    """

    first: int
    second: int
    label: int
    jaccard: float | None = None


class Precision(NamedTuple):
    """Joined pairs that can be judged, and how many of these are right."""

    right: int
    judged: int


def joined(originals: Sequence[int], pair: LabelledPair) -> bool:
    """Whether the documents of a pair have the same original."""
    return originals[pair.first] == originals[pair.second]


def is_duplicate(originals: Sequence[int], document: int) -> bool:
    """Whether a document was called a duplicate of another."""
    return originals[document] != document


def uniques(originals: Sequence[int]) -> int:
    """Return the number of documents that are their own original."""
    return sum(original == document for document, original in enumerate(originals))


def recall(originals: Sequence[int], pairs: Iterable[LabelledPair]) -> float | None:
    """Return the share of labelled positives that are joined."""
    return share(joined(originals, pair) for pair in pairs if pair.label == POSITIVE)


def caught(originals: Sequence[int], pairs: Iterable[LabelledPair]) -> float | None:
    """Return the share of labelled positives whose later document is a duplicate of anything."""
    return share(is_duplicate(originals, pair.second) for pair in pairs if pair.label == POSITIVE)


def recall_by_jaccard(
    originals: Sequence[int], pairs: Iterable[LabelledPair]
) -> dict[str, float | None]:
    """Return the recall within each band; positives without a Jaccard, or below 0.5, have none."""
    bands = by_band(pairs)
    return {band: recall(originals, bands[band]) for band in BANDS}


def by_band(pairs: Iterable[LabelledPair]) -> dict[str, list[LabelledPair]]:
    """Return the labelled positives of each band."""
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
    """Count the joined pairs that can be judged, and those of them that are right."""
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
    """Return the harmonic mean of recall and precision; 0 where both are 0."""
    if recall_ is None or precision is None:
        return None
    return 2 * recall_ * precision / (recall_ + precision) if recall_ + precision else 0.0


def false_duplicates(jaccards: Mapping[int, float]) -> float | None:
    """Return the share of false ones; ``jaccards``: of each duplicate with its named original."""
    return share(jaccard < FALSE_DUPLICATE_BELOW for jaccard in jaccards.values())


def share(outcomes: Iterable[bool]) -> float | None:
    """Return the share of true outcomes, None of none at all."""
    counts = Counter(outcomes)
    return counts[True] / counts.total() if counts else None
