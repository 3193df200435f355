"""Hamming distance: in how many bits two fingerprints differ."""

from __future__ import annotations

from simhash_core.errors import UsageError


def distance_bits(a: bytes, b: bytes) -> int:
    """Return the number of differing bits.

    Raises ``UsageError`` when the fingerprints are of different widths.
    """
    if len(a) != len(b):
        raise UsageError(f"fingerprints of {len(a) * 8} and {len(b) * 8} bits cannot be compared")
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count()
