"""Bands: a few bins of a sketch each. Two documents that share a band are compared.

The probability that two texts share a given band of n bins is the n-th power of their similarity.

**Bands of three bins** share bins, because a bin is worth its bytes in several bands (Andoni &
Indyk 2006 share hash functions among hash tables in the same way). The first bins of the sketch
form three groups of g, a third of the number of bands, rounded up. Band i of the first g has bin i
of each group; of the next g, bin i, i + 1 and i + 2 of the groups, modulo g; of the last g, bin i,
i + 2 and i + 4. So from ``TRIPLES_MIN`` bands on, two have one bin in common at most. A bin counts
with twelve bits: four are in the sketch, and the next eight follow the sketch in its *tail*. The
key of a band are 26 bits, the exclusive or of its first bin, its second bin << 7 and its third bin
<< 14.

**Bands of two bins** share none. Their keys of 32 bits, little-endian, are the tail of the sketch.
Indexes of release 0.1.0 have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

PAIRS: Final = 2
TRIPLES: Final = 3
BAND_BINS: Final = (PAIRS, TRIPLES)
TRIPLES_MIN: Final = 13
TAIL_BITS: Final = 8  # of a bin in the tail, with bands of three bins

NO_BAND: Final = 0  # the key of a document without a sketch, and of no bucket

_KEY: Final = np.dtype("<u4")
_SHIFTS: Final = (0, 7, 14)  # of the bins of a key
_ALONE: Final = 0x7F
_HALF: Final = 4  # bits of a bin in the sketch
_LOW: Final = 0x0F


class Bands(NamedTuple):
    number: int
    bins: int = PAIRS  # of a band, one of ``BAND_BINS``

    @property
    def key_bits(self) -> int:
        return 26 if self.bins == TRIPLES else 32

    @property
    def head_bytes(self) -> int:
        """The bytes at the start of a sketch from which keys are computed."""
        return (self.tail_bytes + 1) // 2 if self.bins == TRIPLES else 0

    @property
    def tail_bytes(self) -> int:
        """The bytes that follow the sketch for its bands."""
        if self.bins != TRIPLES:
            return self.number * _KEY.itemsize
        return TRIPLES * _group(self.number)

    @property
    def members(self) -> NDArray[np.intp]:
        """The bins of each band, (number, bins)."""
        return _triples(self.number) if self.bins == TRIPLES else _pairs(self.number)

    def keys(self, heads: NDArray[np.uint8], tails: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """Return the keys of heads and tails, both (sketches, bytes): (sketches, number)."""
        keys: NDArray[np.uint32]
        if self.bins != TRIPLES:
            keys = np.ascontiguousarray(tails).view(_KEY)
            return keys
        values = np.empty((len(tails), 2 * self.head_bytes), dtype=_KEY)
        np.right_shift(heads, np.uint8(_HALF), out=values[:, 0::2])
        np.bitwise_and(heads, np.uint8(_LOW), out=values[:, 1::2])
        values <<= np.uint32(TAIL_BITS)
        values[:, : self.tail_bytes] |= tails
        first, second, third = _triples(self.number).T
        keys = values.take(first, axis=1)
        for others, shift in ((second, _SHIFTS[1]), (third, _SHIFTS[2])):
            of_others = values.take(others, axis=1)
            of_others <<= np.uint32(shift)
            keys ^= of_others
        return keys

    def shared(self, a: bytes, b: bytes) -> Iterator[int]:
        """Yield the bands whose keys are equal in two sketches with tails, in rising order."""
        size = self.head_bytes + self.tail_bytes
        if not self.number or min(len(a), len(b)) < size:
            return
        ours, theirs = a[len(a) - self.tail_bytes :], b[len(b) - self.tail_bytes :]
        if self.bins != TRIPLES:
            for band in range(self.number):
                key = slice(band * _KEY.itemsize, (band + 1) * _KEY.itemsize)
                if ours[key] == theirs[key] and any(ours[key]):
                    yield band
            return
        heads, tails = _xor(a[: self.head_bytes], b[: self.head_bytes]), _xor(ours, theirs)
        for band, members in enumerate(_members_of_triples(self.number)):
            # The lowest bits of a key are of its first bin alone, which rejects most bands.
            if tails[members[0]] & _ALONE or _key(heads, tails, members):
                continue
            if _key(a, ours, members) != NO_BAND:
                yield band


def _xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a) ^ int.from_bytes(b)).to_bytes(len(a))


def _key(head: bytes, tail: bytes, members: tuple[int, int, int]) -> int:
    key = 0
    for member, shift in zip(members, _SHIFTS, strict=True):
        half = head[member // 2] & _LOW if member % 2 else head[member // 2] >> _HALF
        key ^= (half << TAIL_BITS | tail[member]) << shift
    return key


NO_BANDS: Final = Bands(0)


def _group(number: int) -> int:
    return -(-number // TRIPLES)


@cache
def _triples(number: int) -> NDArray[np.intp]:
    size = max(_group(number), 1)
    turn, first = np.divmod(np.arange(number)[:, None], size)
    step = np.arange(TRIPLES)
    return step * size + (first + turn * step) % size


@cache
def _members_of_triples(number: int) -> list[tuple[int, int, int]]:
    return [(first, second, third) for first, second, third in _triples(number).tolist()]


@cache
def _pairs(number: int) -> NDArray[np.intp]:
    return np.arange(PAIRS * number).reshape(number, PAIRS)
