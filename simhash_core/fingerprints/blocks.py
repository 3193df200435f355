"""Blocks: equal slices of a fingerprint, so that near documents are found without comparing all.

``blocks`` slices of ``block_bits`` bits each, from bit 0 on::

    fingerprint   0 ........ 15 16 ....... 31 32 ....... 47 48 ....... 63
    block         0             1             2             3              (4 × 16 of 64)

A square scheme (as many blocks as a block has bits, and nothing left over) can be cut a second
time, across: block ``blocks + i`` is bit ``i`` of every block of the first cut. Laid out in a
square, the blocks of the first cut are its rows, those of the second its columns. Twice as many
buckets find more near pairs, and the fingerprint grows no wider for it.

Documents may also share *bands* of their sketches (``simhash_core.index.prints``).

**Guarantee** (pigeonhole; Manku et al. 2007, section 3): d differing bits touch at most d blocks,
so where d < blocks at least one block is equal. Two documents within a distance threshold below
the number of blocks always share a bucket.

**Beyond it** the banding is probabilistic: when the d differing bits lie anywhere alike, the chance
that some block is left untouched is, by inclusion and exclusion over the blocks,
Σⱼ (−1)^(j+1) · C(blocks, j) · C(bits − j·block_bits, d) / C(bits, d). With two cuts of n blocks:
1 − Σᵢ Σⱼ (−1)^(i+j) · C(n, i) · C(n, j) · C((n − i)·(n − j), d) / C(bits, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Final, NewType

import numpy as np

from simhash_core.errors import UsageError
from simhash_core.fingerprints.fingerprint import check_bits

Bucket = NewType("Bucket", bytes)
"""A bucket's name: one byte of block index, then the block's value, big-endian."""

BLOCKS_MAX: Final = 128
BANDS_MAX: Final = 64
WIDEST_BLOCK_BITS: Final = 32
BAND_KEY_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class BlockScheme:
    """How a fingerprint of ``bits`` bits is cut into blocks, and up to which distance two are near.

    ``blocks``: those of one cut; 0 if only bands are used. ``block_bits`` 0 stands for
    bits // blocks. ``cuts``: 1, or 2 for a square scheme. ``bands``: of the sketch, each a bucket
    more (``simhash_core.index.prints``). Raises ``UsageError`` for an invalid scheme.
    """

    bits: int
    blocks: int
    distance: int
    block_bits: int = 0
    cuts: int = 1
    bands: int = 0

    def __post_init__(self) -> None:
        """Check all parameters once, against each other."""
        check_bits(self.bits)
        if not 0 <= self.bands <= BANDS_MAX:
            raise UsageError(
                f"bands is {self.bands}", setting="bands", hint=f"it must be from 0 to {BANDS_MAX}"
            )
        blocks_min = 0 if self.bands else 1
        if not blocks_min <= self.blocks <= BLOCKS_MAX:
            raise UsageError(
                f"blocks is {self.blocks}",
                setting="blocks",
                hint=f"it must be from {blocks_min} to {BLOCKS_MAX}",
            )
        if self.block_bits == 0:
            widest = self.bits // max(self.blocks, 1)
            object.__setattr__(self, "block_bits", min(widest, WIDEST_BLOCK_BITS))
        if not 1 <= self.block_bits <= WIDEST_BLOCK_BITS:
            raise UsageError(
                f"block_bits is {self.block_bits}",
                setting="block_bits",
                hint=f"it must be from 1 to {WIDEST_BLOCK_BITS}",
            )
        if self.blocks * self.block_bits > self.bits:
            raise UsageError(
                f"{self.blocks} blocks of {self.block_bits} bits need "
                f"{self.blocks * self.block_bits} bits, the fingerprint has {self.bits}"
            )
        if self.cuts not in (1, 2):
            raise UsageError(f"cuts is {self.cuts}", setting="cuts", hint="it must be 1 or 2")
        if self.cuts > 1 and not self.blocks == self.block_bits == self.bits // self.blocks:
            raise UsageError(
                "cuts is 2, which needs as many blocks as a block has bits, and no bits left over "
                f"(16 x 16 of 256); these are {self.blocks} x {self.block_bits} of {self.bits}",
                setting="cuts",
                hint="set cuts to 1",
            )
        if not 0 <= self.distance < self.bits:
            raise UsageError(
                f"distance is {self.distance}",
                setting="distance",
                hint=f"it must be from 0 to {self.bits - 1}",
            )

    @property
    def guaranteed(self) -> bool:
        """Whether any two fingerprints within the distance share a block."""
        return self.distance < self.blocks

    @property
    def all_blocks(self) -> int:
        """The number of blocks of all cuts."""
        return self.blocks * self.cuts

    @property
    def all_buckets(self) -> int:
        """The number of buckets that a document is in: one for each block, one for each band."""
        return self.all_blocks + self.bands

    def bucket_name(self, bucket: int) -> str:
        """Return what people call a bucket by its number: ``block 3``, ``band 0``."""
        if bucket < self.all_blocks:
            return f"block {bucket}"
        return f"band {bucket - self.all_blocks}"

    def bits_of(self, block: int) -> range:
        """Return the numbers of the bits that make the value of a block, its highest bit first."""
        if block >= self.blocks:
            return range(block - self.blocks, self.bits, self.blocks)
        return range(block * self.block_bits, (block + 1) * self.block_bits)

    def values(self, fingerprint: bytes) -> list[int]:
        """Return the value of each block, in order, those of the first cut first.

        Raises ``UsageError`` for a fingerprint of another width.
        """
        if len(fingerprint) * 8 != self.bits:
            raise UsageError(
                f"a fingerprint of {len(fingerprint) * 8} bits, the scheme has {self.bits}"
            )
        values = self._slices(fingerprint)
        if self.cuts > 1:
            square = np.unpackbits(np.frombuffer(fingerprint, dtype=np.uint8))
            across = square.reshape(self.blocks, self.blocks).T
            values += self._slices(np.packbits(across).tobytes())
        return values

    def _slices(self, fingerprint: bytes) -> list[int]:
        number = int.from_bytes(fingerprint, "big")
        mask = (1 << self.block_bits) - 1
        first = self.bits - self.block_bits
        return [
            (number >> (first - index * self.block_bits)) & mask for index in range(self.blocks)
        ]

    def buckets(self, fingerprint: bytes) -> list[Bucket]:
        """Return the name of the bucket of each block, in order."""
        size = (self.block_bits + 7) // 8
        return [
            Bucket(bytes((index,)) + value.to_bytes(size, "big"))
            for index, value in enumerate(self.values(fingerprint))
        ]

    def shared_blocks(self, a: bytes, b: bytes) -> list[int]:
        """Return the indices of the blocks in which two fingerprints are equal, in order."""
        pairs = zip(self.values(a), self.values(b), strict=True)
        return [index for index, (left, right) in enumerate(pairs) if left == right]

    def first_shared_block(self, a: bytes, b: bytes) -> int | None:
        """Return the first of ``shared_blocks``, None where there is none."""
        differing = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
        mask = (1 << self.block_bits) - 1
        shift = self.bits
        columns = 0
        for block in range(self.blocks):
            shift -= self.block_bits
            row = differing >> shift & mask
            if not row:
                return block
            columns |= row
        if self.cuts > 1 and columns != mask:
            equal = ~columns & mask
            return self.blocks + self.block_bits - equal.bit_length()
        return None

    def expected_recall(self, distance: int) -> float:
        """Return the chance that two fingerprints at this distance share a block, 0 to 1.

        1 exactly below ``blocks``; beyond, under the assumption that differing bits lie anywhere
        alike (see the formula above). Computed in integers, so exact before the last division.
        """
        if distance < self.blocks:
            return 1.0
        if self.cuts > 1:
            return self._expected_recall_of_two_cuts(distance)
        favourable = 0
        for j in range(1, self.blocks + 1):
            left = self.bits - j * self.block_bits
            if left < distance:
                break
            favourable += (-1) ** (j + 1) * comb(self.blocks, j) * comb(left, distance)
        return float(Fraction(favourable, comb(self.bits, distance)))

    def _expected_recall_of_two_cuts(self, distance: int) -> float:
        missed, side = 0, self.blocks
        for rows in range(side + 1):
            for columns in range(side + 1):
                left = (side - rows) * (side - columns)
                combinations = comb(side, rows) * comb(side, columns) * comb(left, distance)
                missed += (-1) ** (rows + columns) * combinations
        return 1.0 - float(Fraction(missed, comb(self.bits, distance)))

    def expected_candidates(self, documents: int) -> float:
        """Return the expected candidates of one look-up among ``documents`` random fingerprints."""
        of_bands = self.bands * documents / (1 << BAND_KEY_BITS)
        return self.all_blocks * documents / (1 << self.block_bits) + of_bands
