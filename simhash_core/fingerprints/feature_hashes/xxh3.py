"""XXH3-128, with a new seed for each 128 bits: the default feature hash, fast and well mixed."""

from __future__ import annotations

import xxhash


def feature_hash(term: str, bits: int) -> bytes:
    """Return ``bits / 8`` bytes: the digests under seeds 0, 1, … one after the other."""
    data = term.encode("utf-8", "surrogatepass")
    size = bits // 8
    digests, seed = xxhash.xxh3_128_digest(data, 0), 1
    while len(digests) < size:
        digests += xxhash.xxh3_128_digest(data, seed)
        seed += 1
    return digests[:size]
