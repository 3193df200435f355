"""Bands: a few bins of a sketch each. Two documents that share a band are compared.

The probability that two texts share a given band of n bins is the n-th power of their similarity.

**Bands of three bins** share bins, because a bin is worth its bytes in several bands (as Andoni &
Indyk 2006 share hash functions among tables). The first bins of the sketch form three groups of g.
Band i of the first g has bin i of each group. Band g + i has bin i of the first group, bin i + 1 of
the second and bin i + 2 of the third, modulo g. So from five bands on, two have one bin in common
at most. A bin counts with eight bits: four are in the sketch, and the next four follow the sketch
in its *tail*, two bins a byte. A key is the 24 bits of a band's bins, the first bin lowest.

**Bands of two bins** share none. Their keys of 32 bits, little-endian, are the tail of the sketch.
Indexes of release 0.1.0 have them. Two bins with eight bits each would not tell enough documents
apart.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

PAIRS: Final = 2
TRIPLES: Final = 3
BAND_BINS: Final = (PAIRS, TRIPLES)

NO_BAND: Final = 0  # the key of a document without a sketch, and of no bucket

_ROUNDS: Final = 2  # how many bands have a bin
_PAIR_KEY: Final = np.dtype("<u4")
_HALF: Final = np.uint8(4)  # bits
_LOW: Final = np.uint8(0x0F)
_HIGH: Final = np.uint8(0xF0)


class Bands(NamedTuple):
    number: int
    bins: int = PAIRS  # of a band, one of ``BAND_BINS``

    @property
    def key_bits(self) -> int:
        return 8 * self.bins if self.bins == TRIPLES else 8 * _PAIR_KEY.itemsize

    @property
    def head_bytes(self) -> int:
        """The bytes at the start of a sketch from which keys are computed."""
        return self.tail_bytes if self.bins == TRIPLES else 0

    @property
    def tail_bytes(self) -> int:
        """The bytes that follow the sketch for its bands."""
        if self.bins != TRIPLES:
            return self.number * _PAIR_KEY.itemsize
        return (self.bins * _group(self.number) + 1) // 2

    @property
    def members(self) -> NDArray[np.intp]:
        """The bins of each band, (number, bins)."""
        return _triples(self.number) if self.bins == TRIPLES else _pairs(self.number)

    def keys(self, heads: NDArray[np.uint8], tails: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """Return the keys of contiguous heads and tails, (sketches, bytes): (sketches, number)."""
        if self.bins == TRIPLES:
            values = np.empty((len(tails), 2 * self.tail_bytes), dtype=np.uint8)
            values[:, 0::2] = heads & _HIGH | tails >> _HALF
            values[:, 1::2] = heads << _HALF | tails & _LOW
            tails = np.zeros((len(tails), self.number, _PAIR_KEY.itemsize), dtype=np.uint8)
            tails[:, :, : self.bins] = values[:, self.members]
        keys: NDArray[np.uint32] = tails.view(_PAIR_KEY).reshape(-1, self.number)
        return keys

    def keys_of(self, sketch: bytes) -> NDArray[np.uint32]:
        """Return the keys of a sketch with its tail, (number,); ``NO_BAND`` if it is too short."""
        if len(sketch) < self.head_bytes + self.tail_bytes:
            return np.full(self.number, NO_BAND, dtype=np.uint32)
        head = np.frombuffer(sketch[: self.head_bytes], dtype=np.uint8)
        tail = np.frombuffer(sketch[len(sketch) - self.tail_bytes :], dtype=np.uint8)
        return self.keys(head[None], tail[None]).reshape(-1)


NO_BANDS: Final = Bands(0)


def _group(count: int) -> int:
    return -(-count // _ROUNDS)


@cache
def _triples(count: int) -> NDArray[np.intp]:
    size = _group(count)
    turn, first = np.divmod(np.arange(count)[:, None], max(size, 1))
    step = np.arange(TRIPLES)
    return step * size + (first + turn * step) % max(size, 1)


@cache
def _pairs(count: int) -> NDArray[np.intp]:
    return np.arange(PAIRS * count).reshape(count, PAIRS)
