"""Blocks: equal slices of a fingerprint, so that near documents meet without comparing all.

``blocks`` slices of ``block_bits`` bits each, from bit 0 on::

    fingerprint   0 ........ 15 16 ....... 31 32 ....... 47 48 ....... 63
    block         0             1             2             3              (4 × 16 of 64)

**Guarantee** (pigeonhole; Manku et al. 2007, section 3): d differing bits touch at most d blocks,
so where d < blocks at least one block is equal. Two documents within a distance threshold below
the number of blocks always share a bucket.

**Beyond it** the banding is probabilistic: when the d differing bits lie anywhere alike, the chance
that some block is left untouched is, by inclusion and exclusion over the blocks,
Σⱼ (−1)^(j+1) · C(blocks, j) · C(bits − j·block_bits, d) / C(bits, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Final, NewType

from simhash_core.errors import UsageError
from simhash_core.fingerprint import check_bits

Bucket = NewType("Bucket", bytes)
"""A bucket's name: one byte of block index, then the block's value, big-endian."""

CONTENT_BLOCK: Final = 0xFF
"""The index in the name of a content bucket: documents of one content digest, exactly."""

MOST_BLOCKS: Final = 128
WIDEST_BLOCK_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class BlockScheme:
    """How a fingerprint of ``bits`` bits is cut into blocks, and up to which distance two are near.

    ``block_bits`` 0 stands for bits // blocks. Raises ``UsageError`` for a scheme that cannot be.
    """

    bits: int
    blocks: int
    distance: int
    block_bits: int = 0

    def __post_init__(self) -> None:
        """Check all parameters once, against each other."""
        check_bits(self.bits)
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise UsageError(f"blocks is {self.blocks}: it must be from 1 to {MOST_BLOCKS}")
        if self.block_bits == 0:
            object.__setattr__(self, "block_bits", min(self.bits // self.blocks, WIDEST_BLOCK_BITS))
        if not 1 <= self.block_bits <= WIDEST_BLOCK_BITS:
            raise UsageError(
                f"block_bits is {self.block_bits}: it must be from 1 to {WIDEST_BLOCK_BITS}"
            )
        if self.blocks * self.block_bits > self.bits:
            raise UsageError(
                f"{self.blocks} blocks of {self.block_bits} bits need "
                f"{self.blocks * self.block_bits} bits, the fingerprint has {self.bits}"
            )
        if not 0 <= self.distance < self.bits:
            raise UsageError(f"distance is {self.distance}: it must be from 0 to {self.bits - 1}")

    @property
    def guaranteed(self) -> bool:
        """Whether any two fingerprints within the distance share a block."""
        return self.distance < self.blocks

    def values(self, fingerprint: bytes) -> list[int]:
        """Return the value of each block, in order.

        Raises ``UsageError`` for a fingerprint of another width.
        """
        if len(fingerprint) * 8 != self.bits:
            raise UsageError(
                f"a fingerprint of {len(fingerprint) * 8} bits, the scheme has {self.bits}"
            )
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

    def expected_recall(self, distance: int) -> float:
        """Return the chance that two fingerprints at this distance share a block, 0 to 1.

        1 exactly below ``blocks``; beyond, under the assumption that differing bits lie anywhere
        alike (see the formula above). Computed in integers, so exact before the last division.
        """
        if distance < self.blocks:
            return 1.0
        favourable = 0
        for j in range(1, self.blocks + 1):
            left = self.bits - j * self.block_bits
            if left < distance:
                break
            favourable += (-1) ** (j + 1) * comb(self.blocks, j) * comb(left, distance)
        return float(Fraction(favourable, comb(self.bits, distance)))

    def expected_candidates(self, documents: int) -> float:
        """Return the expected candidates of one look-up among ``documents`` random fingerprints."""
        return self.blocks * documents / (1 << self.block_bits)


def content_bucket(content_digest: bytes) -> Bucket:
    """Return the bucket in which an undecidable document meets its exact repeats."""
    return Bucket(bytes((CONTENT_BLOCK,)) + content_digest)
