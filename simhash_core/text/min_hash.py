"""MinHash (Broder 1997): the Jaccard similarity of two sets from their lowest hashes.

Under a hash function chosen at random the lowest hashes of two sets are equal with a chance of the
sets' Jaccard similarity; so the share of functions under which they are equal estimates it, with
a standard error of sqrt(J (1 - J) / functions).

Wang & Wang (2019) take h_i(x) = (x + i) mod 100, which is no such family: under all its functions
the order of elements is nearly the same. Here h_i(x) is the i-th number of SplitMix64 (Steele, Lea
& Flood 2014) seeded with the XXH3-64 of the element.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Family = Callable[[Hashes], Hashes]
"""Elements, uint64 (elements,), to their hashes under each function, (elements, functions)."""

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT: Final = np.uint64(31)


def element_hashes(elements: Collection[str]) -> Hashes:
    """Return a number for each element, uint64 (elements,)."""
    return np.fromiter(
        (
            xxhash.xxh3_64_intdigest(element.encode("utf-8", "surrogatepass"))
            for element in elements
        ),
        dtype=np.uint64,
        count=len(elements),
    )


def splitmix_family(functions: int) -> Family:
    """Return a family of so many functions."""
    steps = np.arange(1, functions + 1, dtype=np.uint64) * _GAMMA

    def hashes(elements: Hashes) -> Hashes:
        mixed = elements[:, None] + steps
        for shift, factor in _MIX:
            mixed ^= mixed >> np.uint64(shift)
            mixed *= factor
        mixed ^= mixed >> _LAST_SHIFT
        return mixed

    return hashes


def min_hash(elements: Hashes, family: Family) -> Hashes:
    """Return the lowest hash of a non-empty set under each function, uint64 (functions,)."""
    lowest: Hashes = family(elements).min(axis=0)
    return lowest
