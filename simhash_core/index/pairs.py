"""Pairs of near documents: results of look-ups, and direct comparison of few documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import Prints, bucket_values, shared


class Pairs(NamedTuple):
    """Pairs within the distance, each once, sorted by row, distance and sequence number."""

    rows: NDArray[np.intp]  # of the looked-up documents
    distances: NDArray[np.uint16]  # bits
    sequences: NDArray[np.uint64]
    slots: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, at: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Pairs:
        return Pairs(self.rows[at], self.distances[at], self.sequences[at], self.slots[at])


def sorted_pairs(parts: list[Pairs]) -> Pairs:
    """Join pairs, sort them, and drop repeats: a document may share several buckets."""
    if not parts:
        empty = np.empty(0, dtype=np.intp)
        return Pairs(
            empty, empty.astype(np.uint16), empty.astype(np.uint64), empty.astype(np.uint16)
        )
    pairs = Pairs(*map(np.concatenate, zip(*parts, strict=True)))
    if len(pairs) > 1:
        pairs = pairs.take(_order(pairs.rows, pairs.distances, pairs.sequences))
        is_first = np.ones(len(pairs), dtype=np.bool_)
        is_first[1:] = pairs.rows[1:] != pairs.rows[:-1]
        is_first[1:] |= pairs.sequences[1:] != pairs.sequences[:-1]
        pairs = pairs.take(is_first)
    return pairs


def _order(
    rows: NDArray[np.intp], distances: NDArray[np.uint16], sequences: NDArray[np.uint64]
) -> NDArray[np.intp]:
    """Return the order by row, then nearest, then earliest."""
    return np.lexsort((sequences, distances, rows))


# Few documents are compared directly, which is faster than sorting them into buckets. A few rows
# are compared at once, so that results stay in the processor's cache. The first words of the
# fingerprints come first, because most documents already differ there in too many bits.
_ROWS: Final = 64
_WORDS: Final = 3  # compared first; a byte can count their differing bits

NearRows = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.uint16]]
"""For each pair: row on the left, row on the right, distance in bits."""


def near_rows(scheme: BlockScheme, left: Prints, right: Prints) -> NearRows:
    """Compare all with all; return pairs that share a bucket and are within the distance."""
    parts = _maybe_near(scheme, left.fingerprints, right.fingerprints, earlier=False)
    return _near(scheme, left, right, parts)


def near_earlier_rows(scheme: BlockScheme, prints: Prints) -> NearRows:
    """Compare each document with those before it; return pairs as ``near_rows`` does."""
    parts = _maybe_near(scheme, prints.fingerprints, prints.fingerprints, earlier=True)
    return _near(scheme, prints, prints, parts)


def _maybe_near(
    scheme: BlockScheme, left: NDArray[np.uint64], right: NDArray[np.uint64], *, earlier: bool
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the pairs that differ in few enough bits of their first words, (documents, words)."""
    words = min(left.shape[1], _WORDS)
    by_word = np.ascontiguousarray(right[:, :words].T)
    shape = min(_ROWS, len(left)), len(right)
    differing = np.empty(shape, dtype=np.uint64)
    ones, summed = np.empty(shape, dtype=np.uint8), np.empty(shape, dtype=np.uint8)
    for first in range(0, len(left), _ROWS):
        ours = left[first : first + _ROWS]
        others = min(first + len(ours), len(right)) if earlier else len(right)
        part = np.s_[: len(ours), :others]
        for word in range(words):
            np.bitwise_xor(ours[:, word, None], by_word[word, :others], out=differing[part])
            np.bitwise_count(differing[part], out=ones[part] if word else summed[part])
            if word:
                np.add(summed[part], ones[part], out=summed[part])
        near = np.flatnonzero(summed[part] <= scheme.distance)
        if not len(near):
            continue
        rows, columns = np.divmod(near, others)
        rows += first
        if earlier:
            is_earlier = columns < rows
            rows, columns = rows[is_earlier], columns[is_earlier]
        yield rows, columns


def _near(
    scheme: BlockScheme,
    left: Prints,
    right: Prints,
    parts: Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]],
) -> NearRows:
    none = np.empty(0, dtype=np.intp)
    rows, others = map(np.concatenate, zip((none, none), *parts, strict=True))
    if not len(rows):
        return rows, others, none.astype(np.uint16)
    differing = left.fingerprints[rows] ^ right.fingerprints[others]
    distances = np.bitwise_count(differing).sum(axis=1, dtype=np.uint16)
    kept = distances <= scheme.distance
    if not scheme.guaranteed and kept.any():
        ours = bucket_values(scheme, left)[rows]
        theirs = bucket_values(scheme, right)[others]
        kept &= _share_a_bucket(scheme, ours, theirs)
    return rows[kept], others[kept], distances[kept]


def _share_a_bucket(
    scheme: BlockScheme, ours: NDArray[np.uint32], theirs: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Return which pairs share a bucket, bool (pairs,); both arrays have one row per pair."""
    sharing: NDArray[np.bool_] = np.any(shared(scheme, ours, theirs), axis=1)
    return sharing
