"""Sketches of term vectors: the cosine of two texts from their heaviest terms.

Wang, Wu & Li (2016) compare SimHash, which estimates this angle from signs, with the cosine of
whole term vectors. The heaviest terms carry most of a vector's length.

A sketch has the ``TERMS`` heaviest terms; if weights are equal, the lower hashes. It has their
rising 32-bit hashes, then their weights, 8 bits each as a share of the heaviest. If two terms have
one hash, the lighter one is dropped. Integers make the cosine the same on every machine.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

TERMS: Final = 64
USUAL_THRESHOLD: Final = 0.8
IDENTITY: Final = f"cosine-1/{TERMS}x32x8"

_TERM_BYTES: Final = 5
_HEAVIEST: Final = 255
# A sort key has 64 bits: 24 for the text, 8 for the inverted weight, 32 for the hash.
_TEXT_SHIFT: Final = np.uint64(40)
_HASH_BITS: Final = np.uint64(32)
_WEIGHT_BITS: Final = np.uint64(8)
_LOW_32: Final = np.uint64(0xFFFF_FFFF)


def sketches(
    weights: NDArray[np.float64], term_hashes: NDArray[np.uint32], bounds: NDArray[np.int64]
) -> list[bytes]:
    """Return the sketch of each text, ``_TERM_BYTES`` for each term; empty without features."""
    sizes = np.diff(bounds)
    text_of = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes) << _TEXT_SHIFT
    light = _HEAVIEST - _quantised(weights, sizes)
    keys = text_of | (light.astype(np.uint64) << _HASH_BITS) | term_hashes
    keys.sort()
    # After sorting, a text's keys are where its features were, and the heaviest features come
    # first.
    rank = np.arange(len(keys)) - np.repeat(bounds[:-1], sizes)
    keys = keys[rank < TERMS]
    text = keys >> _TEXT_SHIFT
    heavy = np.uint64(_HEAVIEST) - ((keys >> _HASH_BITS) & np.uint64(_HEAVIEST))
    keys = (text << _TEXT_SHIFT) | ((keys & _LOW_32) << _WEIGHT_BITS) | heavy
    keys.sort()
    by_term = keys >> _WEIGHT_BITS
    is_last = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(by_term[1:], by_term[:-1], out=is_last[:-1])
    keys, by_term = keys[is_last], by_term[is_last]
    hashes = (by_term & _LOW_32).astype("<u4").tobytes()
    heavies = (keys & np.uint64(_HEAVIEST)).astype(np.uint8).tobytes()
    texts = np.arange(len(sizes) + 1, dtype=np.uint64)
    limits = np.searchsorted(by_term >> _HASH_BITS, texts).tolist()
    return [hashes[4 * start : 4 * stop] + heavies[start:stop] for start, stop in pairwise(limits)]


def similarity(a: bytes, b: bytes) -> float:
    """Return the cosine of the two vectors, 0 to 1; 0 if one is empty."""
    if not a or not b:
        return 0.0
    hashes_a, weights_a = _vector(a)
    hashes_b, weights_b = _vector(b)
    at = np.minimum(np.searchsorted(hashes_b, hashes_a), len(hashes_b) - 1)
    inner = int(np.dot(weights_a * (hashes_b[at] == hashes_a), weights_b[at]))
    norms = int(np.dot(weights_a, weights_a)) * int(np.dot(weights_b, weights_b))
    return min(1.0, inner / math.sqrt(norms))


def _vector(sketch: bytes) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    terms = len(sketch) // _TERM_BYTES
    weights = np.frombuffer(sketch, dtype=np.uint8, offset=4 * terms)
    return np.frombuffer(sketch, dtype="<u4", count=terms), weights.astype(np.int64)


def _quantised(weights: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each weight as a share of the heaviest weight of its text: 1 to ``_HEAVIEST``."""
    some = sizes > 0
    if not some.any():
        return np.zeros(0, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    heaviest = np.maximum.reduceat(weights, starts[some])
    heaviest[heaviest == 0] = 1.0
    shares = weights / np.repeat(heaviest, sizes[some])
    quantised: NDArray[np.int64] = np.maximum(np.rint(shares * _HEAVIEST), 1).astype(np.int64)
    return quantised
