"""The string hash of the Java write-up of classic SimHash (2013), any width.

x = s[0] · 2⁷; x = (x · 1000003) XOR c mod 2^f for each character c; x XOR length. It is Python 2's
string hash widened to f bits. Kept so that the published sample can be run; for short terms its
high bits are poorly mixed, which is why it is not the default.
"""

from __future__ import annotations

from typing import Final

_MULTIPLIER: Final = 1000003


def feature_hash(term: str, bits: int) -> bytes:
    """Return the hash of ``term`` modulo 2^``bits`` as ``bits / 8`` bytes; 0 for an empty term."""
    if not term:
        return bytes(bits // 8)
    mask = (1 << bits) - 1
    x = ord(term[0]) << 7
    for character in term:
        x = ((x * _MULTIPLIER) ^ ord(character)) & mask
    x ^= len(term)
    # The sample turns −1 into −2, as the C code that it follows kept −1 for errors; in f bits
    # without a sign −1 is the mask.
    if x == mask:
        x -= 1
    return x.to_bytes(bits // 8, "big")
