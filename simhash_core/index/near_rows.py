"""Few documents with few: each compared with each, which costs less than sorting into buckets.

Some rows at a time, so that what is computed of them stays in the cache of the processor, and the
first words of the fingerprints alone: documents that are not near differ in too many bits there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import Prints, bucket_values, shared

_ROWS: Final = 64
_WORDS: Final = 3
"""Words compared first: so many have fewer bits than one byte can count."""

NearRows = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.uint16]]
"""Of each pair its row on the left, its row on the right, and its distance in bits."""


def near_rows(scheme: BlockScheme, left: Prints, right: Prints) -> NearRows:
    """Compare all with all; return the pairs that share a bucket and are within the distance."""
    parts = _maybe_near(scheme, left.fingerprints, right.fingerprints, earlier=False)
    return _near(scheme, left, right, parts)


def near_earlier_rows(scheme: BlockScheme, prints: Prints) -> NearRows:
    """Compare documents with those before them; return pairs as ``near_rows`` does."""
    parts = _maybe_near(scheme, prints.fingerprints, prints.fingerprints, earlier=True)
    return _near(scheme, prints, prints, parts)


def _maybe_near(
    scheme: BlockScheme, left: NDArray[np.uint64], right: NDArray[np.uint64], *, earlier: bool
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the pairs that differ in few enough bits of their first words.

    ``left``, ``right``: words (documents, words). ``earlier``: only pairs whose row on the left is
    the greater.
    """
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
    """Keep the pairs that share a bucket and are within the distance."""
    none = np.empty(0, dtype=np.intp)
    rows, others = map(np.concatenate, zip((none, none), *parts, strict=True))
    differing = left.fingerprints[rows] ^ right.fingerprints[others]
    distances = np.bitwise_count(differing).sum(axis=1, dtype=np.uint16)
    kept = distances <= scheme.distance
    if not scheme.guaranteed and kept.any():
        ours = bucket_values(scheme, left)[rows]
        theirs = bucket_values(scheme, right)[others]
        kept &= np.any(shared(scheme, ours, theirs), axis=1)
    return rows[kept], others[kept], distances[kept]
