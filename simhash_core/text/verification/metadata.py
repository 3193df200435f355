"""Content and metadata in one similarity: what two documents say, and what is said about them.

Wang & Wang 2019 (improved SimHash for large-scale document deduplication) blend the distance with
the keywords, tags and references that two documents share:

    sim(A, B) = μ · 1 / (Hamming(A, B) + 1) + (1 − μ) · minHash(A, B),    μ = 0.9

*Reading of a lost formula.* The copy that we have lost its image; the text names μ, the two parts,
and "+1 so that distance 0 is not infinite". It calls documents near *below* 0.25; with this formula
larger is nearer, so it is 0.25 or more: a distance of 2 or less is always near, 3 where a quarter
of the metadata is shared, 4 where seven tenths are. These distances are of 64 bits.

Keywords, tags and references are one set: what one publisher calls a keyword is another's tag.
Where one of two documents has none, there is nothing to compare, and the content decides alone, by
1 / (Hamming + 1): so 3 is near then, as in classic SimHash.

A sketch is 100 lowest hashes (``simhash_core.text.min_hash``) of which 8 bits are kept (b-bit
minwise hashing, Li & König 2010): 100 bytes, none for a document without metadata. Two different
ones are equal once in 256 times, which the estimate takes off. Its standard error is at most 0.05.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from simhash_core.documents import Content
from simhash_core.text.min_hash import element_hashes, min_hash, splitmix_family
from simhash_core.text.normal_forms import normalize_batch

FUNCTIONS: Final = 100
USUAL_THRESHOLD: Final = 0.25
CONTENT_TENTHS: Final = 9
"""μ in tenths, so that the limits of the text (3 at 0.25, 4 at 0.7) come out exactly."""
IDENTITY: Final = f"metadata-1/{FUNCTIONS}x8@{CONTENT_TENTHS / 10:g}"

_TENTHS: Final = 10
_CHANCE: Final = 2**-8
_FAMILY: Final = splitmix_family(FUNCTIONS)


def sketches(contents: Sequence[Content], *, simplify: bool = False) -> list[bytes]:
    """Return the sketch of the metadata of each document: ``FUNCTIONS`` bytes, or none.

    ``simplify``: as of ``normalize``.
    """
    return [
        _sketch((*item.keywords, *item.tags, *item.references), simplify=simplify)
        for item in contents
    ]


def similarity(distance: int, a: bytes, b: bytes) -> float:
    """Return the similarity of two documents, from 0 to 1."""
    return combined(distance, jaccard(a, b) if a and b else None)


def jaccard(a: bytes, b: bytes) -> float:
    """Return the estimated share of the metadata that two documents both have, 0 to 1."""
    same = np.count_nonzero(np.frombuffer(a, np.uint8) == np.frombuffer(b, np.uint8))
    return max(0.0, (int(same) / FUNCTIONS - _CHANCE) / (1 - _CHANCE))


def combined(distance: int, shared: float | None) -> float:
    """Return sim(A, B) for a distance in bits and a Jaccard similarity, None for none."""
    if shared is None:
        return 1 / (distance + 1)
    return (CONTENT_TENTHS / (distance + 1) + (_TENTHS - CONTENT_TENTHS) * shared) / _TENTHS


def _sketch(metadata: Sequence[str], *, simplify: bool) -> bytes:
    if not metadata:
        return b""
    elements = {element for element in normalize_batch(metadata, simplify=simplify) if element}
    if not elements:
        return b""
    return min_hash(element_hashes(elements), _FAMILY).astype(np.uint8).tobytes()
