"""The columns that an index keeps and looks up for each document, and their buckets.

A document is in the bucket of each block of its fingerprint and of each band of its sketch. A
document without a sketch has the key ``NO_BAND``, and is in no bucket of a band.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.fingerprints.bands import NO_BAND, Bands
from simhash_core.fingerprints.blocks import BlockScheme

_UNSIGNED: Final[dict[int, np.dtype[np.unsignedinteger]]] = {
    8: np.dtype(">u1"),
    16: np.dtype(">u2"),
    32: np.dtype(">u4"),
}
_TRANSPOSED_IN_STEPS: Final = (8, 16)


def block_values(scheme: BlockScheme, fingerprints: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return ``BlockScheme.values`` of many fingerprints, uint32 (rows, all blocks).

    ``fingerprints`` are uint8 (rows, bits / 8), contiguous.
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
    """Return the columns of squares of bits whose rows are ``values``, uint32 (rows, side).

    A square is transposed by exchanging its off-diagonal quarters, then those of each quarter, and
    so on (Warren, Hacker's Delight, 2nd edition, section 7-3).
    """
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


class Prints(NamedTuple):
    fingerprints: NDArray[np.uint64]  # words (documents, bits / 64)
    bands: NDArray[np.uint32]  # keys (documents, bands)
    times_ms: NDArray[np.int64]  # event times

    @property
    def documents(self) -> int:
        return len(self.fingerprints)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Prints:
        return Prints(self.fingerprints[rows], self.bands[rows], self.times_ms[rows])


def joined_prints(parts: Sequence[Prints]) -> Prints:
    return parts[0] if len(parts) == 1 else Prints(*map(np.concatenate, zip(*parts, strict=True)))


class Rows(NamedTuple):
    """Documents in an index."""

    sequences: NDArray[np.uint64]
    slots: NDArray[np.uint16]
    prints: Prints

    @property
    def documents(self) -> int:
        return len(self.sequences)

    def take(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        return Rows(self.sequences[rows], self.slots[rows], self.prints.take(rows))

    def live(self, live: NDArray[np.bool_]) -> Rows:
        return self.take(live[self.slots])


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Join one or more parts; a single part is not copied, as it may have millions of documents."""
    if len(parts) == 1:
        return parts[0]
    sequences, slots, prints = zip(*parts, strict=True)
    return Rows(np.concatenate(sequences), np.concatenate(slots), joined_prints(prints))


def prints_of(
    scheme: BlockScheme,
    columns: DocumentColumns,
    rows: NDArray[np.intp] | Sequence[int] | None = None,
) -> Prints:
    """Return the prints of ``rows``, which must rise; None means all rows."""
    bands = columns.bands
    if bands is None:
        bands = band_keys(columns.sketches, scheme.sketch_bands)
    whole = Prints(columns.fingerprints, bands, columns.times_ms)
    if rows is None or len(rows) == len(columns):
        return whole
    return whole.take(np.asarray(rows, dtype=np.intp))


def with_bands(scheme: BlockScheme, columns: DocumentColumns) -> DocumentColumns:
    """Return the columns with their band keys, so that later steps need not compute them again."""
    return replace(columns, bands=band_keys(columns.sketches, scheme.sketch_bands))


def band_keys(sketches: BytesColumn, bands: Bands) -> NDArray[np.uint32]:
    """Return the keys of the bands of sketches, uint32 (sketches, bands)."""
    lengths = np.diff(sketches.bounds)
    size = int(lengths[0]) if len(lengths) else 0
    if bands.number and size >= bands.head_bytes + bands.tail_bytes and (lengths == size).all():
        # The usual case needs no copies.
        rows = np.frombuffer(sketches.joined, dtype=np.uint8).reshape(-1, size)
        return bands.keys(rows[:, : bands.head_bytes], rows[:, size - bands.tail_bytes :])
    bounds = sketches.bounds.astype(np.intp)
    return band_keys_at(sketches.joined, bounds[:-1], bounds[1:], bands)


def band_keys_at(
    joined: bytes, starts: NDArray[np.intp], ends: NDArray[np.intp], bands: Bands
) -> NDArray[np.uint32]:
    """Return the keys of the sketches at some positions in ``joined``, uint32 (sketches, bands)."""
    keys = np.full((len(starts), bands.number), NO_BAND, dtype=np.uint32)
    head, tail = bands.head_bytes, bands.tail_bytes
    some = np.flatnonzero(ends - starts >= max(head + tail, 1)) if bands.number else ()
    if len(some):
        as_bytes = np.frombuffer(joined, dtype=np.uint8)
        heads = as_bytes[starts[some, None] + np.arange(head)]
        keys[some] = bands.keys(heads, as_bytes[ends[some, None] + np.arange(-tail, 0)])
    return keys


def bucket_values(scheme: BlockScheme, prints: Prints) -> NDArray[np.uint32]:
    """Return the buckets of documents, uint32 (documents, buckets): block values, then band keys.

    Two documents share a bucket if a column has the same value for both, except ``NO_BAND``.
    """
    as_bytes = np.ascontiguousarray(prints.fingerprints).view(np.uint8)
    values = block_values(scheme, as_bytes)
    return np.concatenate((values, prints.bands), axis=1) if scheme.bands else values


def shared(
    scheme: BlockScheme, ours: NDArray[np.uint32], theirs: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Return which values of ``bucket_values`` are the same bucket; the arrays have one shape."""
    equal: NDArray[np.bool_] = ours == theirs
    if scheme.bands:
        bands = (..., slice(scheme.all_blocks, None))
        equal[bands] &= ours[bands] != NO_BAND
    return equal


def shared_buckets(
    scheme: BlockScheme, a: bytes, sketch_a: bytes, b: bytes, sketch_b: bytes
) -> list[int]:
    """Return the buckets that two documents share; band ``i`` is ``scheme.all_blocks + i``."""
    shared_blocks = scheme.shared_blocks(a, b)
    for band in scheme.sketch_bands.shared(sketch_a, sketch_b):
        shared_blocks.append(scheme.all_blocks + band)
    return shared_blocks


def first_shared_bucket(
    scheme: BlockScheme, a: bytes, sketch_a: bytes, b: bytes, sketch_b: bytes
) -> int | None:
    block = scheme.first_shared_block(a, b)
    if block is not None or not scheme.bands:
        return block
    band = next(scheme.sketch_bands.shared(sketch_a, sketch_b), None)
    return None if band is None else scheme.all_blocks + band
