"""Blocks: equal slices of a fingerprint, by which near documents are found without comparing all.

There are ``blocks`` slices of ``block_bits`` bits each, from bit 0 on. A square scheme (as many
blocks as a block has bits, without bits left over) can have a second cut: block ``blocks + i`` is
bit ``i`` of every block of the first cut, so twice as many buckets find more near pairs. Documents
may also share *bands* of their sketches (``simhash_core.fingerprints.bands``).

**Guarantee** (pigeonhole; Manku et al. 2007, section 3): d differing bits touch at most d blocks,
so if d < blocks, one block or more is equal: the two documents share a bucket.

**Beyond it**, if the d differing bits are uniformly random, the chance that some block is untouched
is, by inclusion and exclusion, Σⱼ (−1)^(j+1) · C(blocks, j) · C(bits − j·block_bits, d) /
C(bits, d). With two cuts of n blocks it is
1 − Σᵢ Σⱼ (−1)^(i+j) · C(n, i) · C(n, j) · C((n − i)·(n − j), d) / C(bits, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Final

import numpy as np

from simhash_core.errors import UsageError
from simhash_core.fingerprints.bands import BAND_BINS, PAIRS, Bands
from simhash_core.fingerprints.fingerprint import check_bits

BLOCKS_MAX: Final = 128
BANDS_MAX: Final = 64
WIDEST_BLOCK_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class BlockScheme:
    """How fingerprints are cut into blocks; raises ``UsageError`` for an invalid scheme."""

    bits: int
    blocks: int  # of one cut; 0: only bands
    distance: int  # at most so far apart, two fingerprints are near
    block_bits: int = 0  # 0: bits // blocks
    cuts: int = 1  # 2: a square scheme
    bands: int = 0  # of the sketch; each band is one more bucket
    band_bins: int = PAIRS  # of the sketch in a band

    def __post_init__(self) -> None:
        check_bits(self.bits)
        self._check_range("bands", 0, BANDS_MAX)
        self._check_range("blocks", 0 if self.bands else 1, BLOCKS_MAX)
        if self.block_bits == 0:
            widest = self.bits // max(self.blocks, 1)
            object.__setattr__(self, "block_bits", min(widest, WIDEST_BLOCK_BITS))
        self._check_range("block_bits", 1, WIDEST_BLOCK_BITS)
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
        self._check_range("distance", 0, self.bits - 1)
        self._check_range("band_bins", BAND_BINS[0], BAND_BINS[-1])

    def _check_range(self, name: str, lowest: int, highest: int) -> None:
        value = getattr(self, name)
        if not lowest <= value <= highest:
            raise UsageError(
                f"{name} is {value}", setting=name, hint=f"it must be from {lowest} to {highest}"
            )

    @property
    def words(self) -> int:
        """The length of a fingerprint in words of 64 bits."""
        return self.bits // 64

    @property
    def guaranteed(self) -> bool:
        return self.distance < self.blocks

    @property
    def all_blocks(self) -> int:
        return self.blocks * self.cuts

    @property
    def all_buckets(self) -> int:
        return self.all_blocks + self.bands

    @property
    def sketch_bands(self) -> Bands:
        return Bands(self.bands, self.band_bins)

    def bucket_name(self, bucket: int) -> str:
        """Return a bucket's name for people: ``block 3``, ``band 0``."""
        if bucket < self.all_blocks:
            return f"block {bucket}"
        return f"band {bucket - self.all_blocks}"

    def bits_of(self, block: int) -> range:
        """Return the numbers of the bits of a block, the highest first."""
        if block >= self.blocks:
            return range(block - self.blocks, self.bits, self.blocks)
        return range(block * self.block_bits, (block + 1) * self.block_bits)

    def values(self, fingerprint: bytes) -> list[int]:
        """Return the value of each block; raises ``UsageError`` for another width."""
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

    def shared_blocks(self, a: bytes, b: bytes) -> list[int]:
        pairs = zip(self.values(a), self.values(b), strict=True)
        return [index for index, (left, right) in enumerate(pairs) if left == right]

    def first_shared_block(self, a: bytes, b: bytes) -> int | None:
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
        """Return the chance, 0 to 1, that two fingerprints at this distance share a block."""
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
        of_bands = self.bands * documents / (1 << self.sketch_bands.key_bits)
        return self.all_blocks * documents / (1 << self.block_bits) + of_bands
