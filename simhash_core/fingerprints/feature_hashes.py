"""Feature hashes by name: they map a term to as many bits as a fingerprint has.

A feature hash is a pure function ``(term, bits) -> bytes``. It returns ``bits / 8`` bytes,
big-endian: bit 0 of the fingerprint is the highest bit of the first byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from simhash_core.errors import UnknownNameError

_MULTIPLIER: Final = 1000003


def java_hash(term: str, bits: int) -> bytes:
    """Return the hash of the Java write-up of classic SimHash (2013): Python 2's hash, widened.

    It exists to reproduce the published sample; its high bits are poorly mixed for short terms.
    """
    if not term:
        return bytes(bits // 8)
    mask = (1 << bits) - 1
    x = ord(term[0]) << 7
    for character in term:
        x = ((x * _MULTIPLIER) ^ ord(character)) & mask
    x ^= len(term)
    # The sample turns −1 into −2, because its C original reserved −1 for errors; as an unsigned
    # number, −1 is the mask.
    if x == mask:
        x -= 1
    return x.to_bytes(bits // 8, "big")


def xxh3_hash(term: str, bits: int) -> bytes:
    """Return XXH3-128, with a new seed for each 128 bits: the default, fast and well mixed."""
    data = term.encode("utf-8", "surrogatepass")
    size = bits // 8
    digests, seed = xxhash.xxh3_128_digest(data, 0), 1
    while len(digests) < size:
        digests += xxhash.xxh3_128_digest(data, seed)
        seed += 1
    return digests[:size]


def splitmix64(seeds: NDArray[np.uint64], numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the n-th number that SplitMix64 (Steele, Lea & Flood 2014) draws from each seed."""
    mixed: NDArray[np.uint64] = seeds + numbers * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


FeatureHash = Callable[[str, int], bytes]

_BY_NAME: Final[Mapping[str, FeatureHash]] = {"xxh3": xxh3_hash, "java": java_hash}
FEATURE_HASHES: Final = tuple(_BY_NAME)


def feature_hash_named(name: str) -> FeatureHash:
    """Raises ``UnknownNameError``."""
    if name not in _BY_NAME:
        raise UnknownNameError("feature hash", name, FEATURE_HASHES)
    return _BY_NAME[name]
