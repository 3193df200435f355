"""Hamming distance: in how many bits two fingerprints differ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError


def distance_bits(a: bytes, b: bytes) -> int:
    """Return the number of differing bits.

    Raises ``UsageError`` when the fingerprints are of different widths.
    """
    if len(a) != len(b):
        raise UsageError(f"fingerprints of {len(a) * 8} and {len(b) * 8} bits cannot be compared")
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count()


def distances_bits(fingerprint: bytes, others: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Return the distance of one fingerprint to each row of ``others``, uint16 (rows,).

    ``others``: uint8 (rows, bits / 8), rows contiguous.
    """
    if others.shape[1] == 0:
        return np.zeros(len(others), dtype=np.uint16)
    # Eight bytes at a time: the order of bytes within a word does not change the count of ones.
    words = np.frombuffer(fingerprint, dtype=np.uint64)
    differing = np.bitwise_count(others.view(np.uint64) ^ words)
    summed: NDArray[np.uint16] = differing.sum(axis=1, dtype=np.uint16)
    return summed
