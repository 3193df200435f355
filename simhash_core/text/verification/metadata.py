"""Similarity of content and metadata together.

Wang & Wang 2019 (improved SimHash for large-scale document deduplication) blend the distance with
the keywords, tags and references that two documents share:

    sim(A, B) = μ · 1 / (Hamming(A, B) + 1) + (1 − μ) · minHash(A, B),    μ = 0.9

Documents are near at 0.25 or more (docs/methods.md says why). This is always so up to distance 2 of
64 bits, at distance 3 if a quarter of the metadata is shared, and at distance 4 if seven tenths are
shared.

Keywords, tags and references are one set, because one publisher's keyword is another's tag. If one
of two documents has none, the content alone decides, by 1 / (Hamming + 1).

A sketch is 8 bits of each of 100 lowest hashes, one for each hash function: these are equal for two
sets with a probability that is their Jaccard similarity (MinHash, Broder 1997; b-bit minwise
hashing, Li & König 2010). So it has 100 bytes; it is empty for a document without metadata. Two
different hashes are equal once in 256 times; the estimate corrects for this. Its standard error is
0.05 or less. With the functions of the paper, (x + i) mod 100, elements are nearly always in the
same order; here the i-th hash of x is the i-th number of SplitMix64 seeded with x.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from simhash_core.documents import Content
from simhash_core.fingerprints.feature_hashes import splitmix64
from simhash_core.text.normalization import normalize_batch

FUNCTIONS: Final = 100
USUAL_THRESHOLD: Final = 0.25
# μ in tenths, so that the limits in the paper (3 at 0.25, 4 at 0.7) are computed exactly.
CONTENT_TENTHS: Final = 9
IDENTITY: Final = f"metadata-1/{FUNCTIONS}x8@{CONTENT_TENTHS / 10:g}"

_TENTHS: Final = 10
_CHANCE: Final = 2**-8
_NUMBERS: Final = np.arange(1, FUNCTIONS + 1, dtype=np.uint64)


def sketches(contents: Sequence[Content], *, simplify: bool = False) -> list[bytes]:
    """Return ``FUNCTIONS`` bytes for each document, or none; ``simplify`` as in ``normalize``."""
    return [
        _sketch((*item.keywords, *item.tags, *item.references), simplify=simplify)
        for item in contents
    ]


def similarity(distance: int, a: bytes, b: bytes) -> float:
    return combined(distance, jaccard(a, b) if a and b else None)


def jaccard(a: bytes, b: bytes) -> float:
    """Return the estimated Jaccard similarity of two documents' metadata."""
    same = np.count_nonzero(np.frombuffer(a, np.uint8) == np.frombuffer(b, np.uint8))
    return max(0.0, (int(same) / FUNCTIONS - _CHANCE) / (1 - _CHANCE))


def combined(distance: int, shared: float | None) -> float:
    """Return sim(A, B) for a distance in bits and a Jaccard similarity, None without metadata."""
    if shared is None:
        return 1 / (distance + 1)
    return (CONTENT_TENTHS / (distance + 1) + (_TENTHS - CONTENT_TENTHS) * shared) / _TENTHS


def _sketch(metadata: Sequence[str], *, simplify: bool) -> bytes:
    if not metadata:
        return b""
    elements = {element for element in normalize_batch(metadata, simplify=simplify) if element}
    if not elements:
        return b""
    digests = [xxhash.xxh3_64_intdigest(element.encode()) for element in elements]
    hashes = splitmix64(np.array(digests, dtype=np.uint64)[:, None], _NUMBERS)
    lowest: NDArray[np.uint64] = hashes.min(axis=0)
    return lowest.astype(np.uint8).tobytes()
