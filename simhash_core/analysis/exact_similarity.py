"""Exact similarities of two texts, to measure how good estimates are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

GRAM_CHARACTERS: Final = 5

_CODE_BITS: Final = 64
_Codes = NDArray[np.uint64]


def exact_jaccard(a: str, b: str) -> float:
    """Return the shared 5-grams divided by all 5-grams, 0 to 1, without white space.

    A shorter text is one gram. Texts are not normalised. Near-duplicates are commonly labelled with
    this measure.
    """
    a, b = "".join(a.split()), "".join(b.split())
    if a == b:
        return 1.0
    if min(len(a), len(b)) < GRAM_CHARACTERS:
        return _by_sets(a, b)
    # Characters get consecutive numbers, so a gram of them fits 64 bits unless the alphabet is very
    # large. Sorting numbers is several times as fast as a set.
    points = np.frombuffer((a + b).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    present = np.zeros(int(points.max()) + 1, dtype=np.bool_)
    present[points] = True
    alphabet = np.flatnonzero(present)
    bits = max(1, (len(alphabet) - 1).bit_length())
    if bits * GRAM_CHARACTERS > _CODE_BITS:
        return _by_sets(a, b)
    number_of = np.empty(len(present), dtype=np.uint64)
    number_of[alphabet] = np.arange(len(alphabet), dtype=np.uint64)
    numbers = number_of[points]
    grams_a, grams_b = _packed(numbers[: len(a)], bits), _packed(numbers[len(a) :], bits)
    union = len(_distinct(np.concatenate([grams_a, grams_b])))
    return (len(grams_a) + len(grams_b) - union) / union


def _packed(numbers: _Codes, bits: int) -> _Codes:
    """Return the distinct grams of a text, each as one number."""
    windows = len(numbers) - GRAM_CHARACTERS + 1
    packed = np.zeros(windows, dtype=np.uint64)
    for at in range(GRAM_CHARACTERS):
        packed = (packed << np.uint64(bits)) | numbers[at : at + windows]
    return _distinct(packed)


def _distinct(codes: _Codes) -> _Codes:
    """Return the distinct codes, sorted; ``np.unique`` hashes and takes ten times as long."""
    ordered = np.sort(codes)
    is_new = np.empty(len(ordered), dtype=np.bool_)
    is_new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def _by_sets(a: str, b: str) -> float:
    one, other = (
        {text[at : at + GRAM_CHARACTERS] for at in range(max(1, len(text) - GRAM_CHARACTERS + 1))}
        for text in (a, b)
    )
    return len(one & other) / len(one | other)


def vector_cosine(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """Return the cosine of two term vectors; 0 if one of them is zero."""
    norms = math.hypot(*a.values()) * math.hypot(*b.values())
    if not norms:
        return 0.0
    inner = math.fsum(weight * b[term] for term, weight in a.items() if term in b)
    return max(-1.0, min(1.0, inner / norms))
