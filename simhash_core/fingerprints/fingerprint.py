"""SimHash (Charikar 2002; Manku, Jain & Das Sarma 2007): weighted features to a fingerprint.

Each feature's hash votes on each bit: its weight is added for a 1 and subtracted for a 0. A bit of
the fingerprint is 1 if the sum is above zero; a tie is 0. The expected share of bits in which two
texts differ is the angle between their weighted features over π.

A fingerprint is ``bits / 8`` bytes, bit 0 first (the highest bit of byte 0). Weights are scaled and
rounded to integers that a float32 holds exactly, so that neither the order of summation nor the
machine matters.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError

WORD_BITS: Final = 64
WIDEST_BITS: Final = 512

# Scaled weights sum to less than 2**23, plus a rounding of at most 1/2 for each feature: below the
# 2**24 up to which float32 holds every integer.
_SUM_EXPONENT: Final = 23
# Number of features that are summed at once: their votes stay in the processor's cache, and they
# are few enough for numpy's OpenBLAS to use one thread. Several threads take 20 times as long on a
# busy machine.
_STEP: Final = 512

# One row for each feature, (features, bits): +1 where the bit of its hash is 1, −1 where it is 0.
Votes = NDArray[np.int8]


def distance_bits(a: bytes, b: bytes) -> int:
    """Return the Hamming distance; raises ``UsageError`` for different widths."""
    if len(a) != len(b):
        raise UsageError(f"fingerprints of {len(a) * 8} and {len(b) * 8} bits cannot be compared")
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count()


def check_bits(bits: int) -> None:
    """Raise ``UsageError`` unless ``bits`` is a multiple of 64 from 64 to 512."""
    if bits % WORD_BITS or not WORD_BITS <= bits <= WIDEST_BITS:
        raise UsageError(
            f"bits is {bits}",
            setting="bits",
            hint=f"it must be a multiple of {WORD_BITS} up to {WIDEST_BITS}",
        )


def votes_of(hashes: bytes, bits: int) -> Votes:
    """Turn concatenated feature hashes, each ``bits / 8`` bytes, into votes (features, bits)."""
    packed = np.frombuffer(hashes, dtype=np.uint8).reshape(-1, bits // 8)
    return (np.unpackbits(packed, axis=1).view(np.int8) << 1) - np.int8(1)


def scale(
    weights: NDArray[np.float64], bounds: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """Scale weights by a power of two for each document and round them to integers, float32.

    Document ``i`` has the features from ``bounds[i]`` up to ``bounds[i + 1]``; without ``bounds``
    there is one document. Raises ``UsageError`` for a weight that is negative or not finite.
    """
    if not weights.size:
        return np.zeros(0, dtype=np.float32)
    if not (np.isfinite(weights).all() and weights.min() >= 0):
        raise UsageError("a weight is negative or not finite: weights must be 0 or more")
    sizes = np.diff(bounds) if bounds is not None else np.array([len(weights)])
    starts = np.cumsum(sizes) - sizes
    some = sizes > 0
    # The highest weight times the number of features bounds the sum in any order of evaluation.
    exponents = np.frexp(np.maximum.reduceat(weights, starts[some]) * sizes[some])[1]
    shifts = np.repeat(_SUM_EXPONENT - exponents, sizes[some])
    scaled: NDArray[np.float32] = np.rint(np.ldexp(weights, shifts)).astype(np.float32)
    return scaled


def sums(votes: Votes, scaled: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vote on each bit, float32 (bits,), exact integers."""
    if len(scaled) <= _STEP:
        return np.asarray(scaled @ votes.astype(np.float32))
    result = np.zeros(votes.shape[1], dtype=np.float32)
    for start in range(0, len(scaled), _STEP):
        part = slice(start, start + _STEP)
        result += scaled[part] @ votes[part].astype(np.float32)
    return result


def pack(bit_sums: NDArray[np.float32]) -> bytes:
    """Return the fingerprint of one row of sums, or the joined fingerprints of several rows."""
    return np.packbits(bit_sums > 0).tobytes()
