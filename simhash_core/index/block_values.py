"""Blocks of many fingerprints at once: the values that ``BlockScheme.values`` gives, in numpy.

The second cut of a square scheme is the transpose of the first. A square of bits is transposed by
exchanging its off-diagonal quarters, then those of each quarter, and so on: four steps for 16 × 16,
each for all fingerprints together (Warren, Hacker's Delight, 2nd edition, section 7-3).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme

_UNSIGNED: Final[dict[int, np.dtype[np.unsignedinteger]]] = {
    8: np.dtype(">u1"),
    16: np.dtype(">u2"),
    32: np.dtype(">u4"),
}
_TRANSPOSED_IN_STEPS: Final = (8, 16)


def block_values(scheme: BlockScheme, fingerprints: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the value of each block of each fingerprint, uint32 (rows, all blocks).

    ``fingerprints``: uint8 (rows, bits / 8), rows contiguous.
    """
    values = np.empty((len(fingerprints), scheme.all_blocks), dtype=np.uint32)
    first = values[:, : scheme.blocks]
    dtype = _UNSIGNED.get(scheme.block_bits)
    if dtype is not None:
        first[:] = fingerprints.view(dtype)[:, : scheme.blocks]
    else:
        first[:] = _slices(np.unpackbits(fingerprints, axis=1), scheme.blocks, scheme.block_bits)
    if scheme.cuts > 1:
        values[:, scheme.blocks :] = _across(first, scheme.blocks)
    return values


def _slices(bits: NDArray[np.uint8], blocks: int, block_bits: int) -> NDArray[np.uint32]:
    """Return slices of bits as numbers, uint32 (rows, blocks)."""
    width = next(each for each in _UNSIGNED if each >= block_bits)
    padded = np.zeros((len(bits), blocks, width), dtype=np.uint8)
    padded[:, :, width - block_bits :] = bits[:, : blocks * block_bits].reshape(
        len(bits), blocks, block_bits
    )
    packed = np.packbits(padded, axis=2).view(_UNSIGNED[width])
    numbers: NDArray[np.uint32] = packed.reshape(len(bits), blocks).astype(np.uint32)
    return numbers


def _across(values: NDArray[np.uint32], side: int) -> NDArray[np.uint32]:
    """Return the columns of squares of bits whose rows are ``values``, uint32 (rows, side)."""
    if side not in _TRANSPOSED_IN_STEPS:
        bits = (values[:, :, None] >> np.arange(side - 1, -1, -1, dtype=np.uint32)) & 1
        columns = np.ascontiguousarray(bits.transpose(0, 2, 1).astype(np.uint8))
        return _slices(columns.reshape(len(values), side * side), side, side)
    square = values.astype(np.uint16)
    half = side // 2
    while half:
        low = np.uint16(sum(((1 << half) - 1) << at for at in range(0, side, 2 * half)))
        quarters = square.reshape(len(values), side // (2 * half), 2, half)
        upper, lower = quarters[:, :, 0], quarters[:, :, 1]
        exchanged = (upper ^ (lower >> half)) & low
        upper ^= exchanged
        lower ^= exchanged << half
        half //= 2
    return square.astype(np.uint32)
