"""Prints: what of documents an index holds and looks up, as columns.

A document is in the bucket of each block of its fingerprint and, where the scheme has bands, of
each band of its sketch. A *band* is two bins of the sketch: its key is made of their whole minima,
so that unrelated documents practically never share one, however many there are. The keys stand at
the end of the sketch, ``BAND_KEY_BYTES`` each, little-endian. A document without a sketch is in no
bucket of a band; ``NO_BAND`` stands for its keys, and no key of a sketch is equal to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.block_values import block_values

BAND_KEY_BYTES: Final = 4
NO_BAND: Final = 0
_KEY: Final = np.dtype("<u4")


class Prints(NamedTuple):
    """Documents: ``fingerprints`` uint64 words (documents, bits / 64).

    ``bands``: keys, uint32 (documents, bands). ``times_ms``: int64, event times.
    """

    fingerprints: NDArray[np.uint64]
    bands: NDArray[np.uint32]
    times_ms: NDArray[np.int64]

    @property
    def documents(self) -> int:
        """The number of documents."""
        return len(self.fingerprints)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Prints:
        """Return some of the documents."""
        return Prints(self.fingerprints[rows], self.bands[rows], self.times_ms[rows])


def joined_prints(parts: Sequence[Prints]) -> Prints:
    """Return the documents of all parts, in order; there is one part at least."""
    return Prints(*map(np.concatenate, zip(*parts, strict=True)))


def bare_prints(
    fingerprints: NDArray[np.uint64], bands: int = 0, times_ms: int | NDArray[np.int64] = 0
) -> Prints:
    """Return the prints of documents without sketches, of which the fingerprints are known."""
    count = len(fingerprints)
    times = np.broadcast_to(np.asarray(times_ms, dtype=np.int64), (count,))
    return Prints(fingerprints, np.full((count, bands), NO_BAND, dtype=np.uint32), times)


def prints_of(
    scheme: BlockScheme,
    columns: DocumentColumns,
    rows: NDArray[np.intp] | Sequence[int] | None = None,
) -> Prints:
    """Return the prints of documents, or of some of them."""
    bands = band_keys(columns.sketches, scheme.bands)
    whole = Prints(columns.fingerprints, bands, columns.times_ms)
    return whole if rows is None else whole.take(np.asarray(rows, dtype=np.intp))


def band_keys(sketches: BytesColumn, bands: int) -> NDArray[np.uint32]:
    """Return the keys of the bands of sketches, uint32 (sketches, bands)."""
    if not bands:
        return np.empty((len(sketches), 0), dtype=np.uint32)
    keys = np.full((len(sketches), bands), NO_BAND, dtype=np.uint32)
    size = bands * BAND_KEY_BYTES
    ends = sketches.bounds[1:].astype(np.intp)
    some = np.flatnonzero(np.diff(sketches.bounds) >= size)
    if len(some):
        at = (ends[some] - size)[:, None] + np.arange(size)
        joined = np.frombuffer(sketches.joined, dtype=np.uint8)
        keys[some] = joined[at].view(_KEY)
    return keys


def bucket_values(scheme: BlockScheme, prints: Prints) -> NDArray[np.uint32]:
    """Return in which buckets documents are, uint32 (documents, buckets).

    Values of the blocks, then keys of the bands; two documents share a bucket where they have the
    same value in a column, which is not ``NO_BAND`` if it is that of a band.
    """
    as_bytes = np.ascontiguousarray(prints.fingerprints).view(np.uint8)
    values = block_values(scheme, as_bytes)
    return np.concatenate((values, prints.bands), axis=1) if scheme.bands else values


def shared(
    scheme: BlockScheme, ours: NDArray[np.uint32], theirs: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Return which values of ``bucket_values`` are one bucket, of arrays that are in step."""
    equal: NDArray[np.bool_] = ours == theirs
    if scheme.bands:
        bands = (..., slice(scheme.all_blocks, None))
        equal[bands] &= ours[bands] != NO_BAND
    return equal


def shared_buckets(
    scheme: BlockScheme, a: bytes, sketch_a: bytes, b: bytes, sketch_b: bytes
) -> list[int]:
    """Return the numbers of the buckets that two documents share, in order.

    ``a``, ``b``: fingerprints. The bucket of band ``i`` is number ``scheme.all_blocks + i``.
    """
    shared_blocks = scheme.shared_blocks(a, b)
    for number in range(scheme.bands):
        start = -BAND_KEY_BYTES * (scheme.bands - number)
        stop = start + BAND_KEY_BYTES or None
        key = sketch_a[start:stop]
        if any(key) and len(sketch_a) >= -start and key == sketch_b[start:stop]:
            shared_blocks.append(scheme.all_blocks + number)
    return shared_blocks


def first_shared_bucket(
    scheme: BlockScheme, a: bytes, sketch_a: bytes, b: bytes, sketch_b: bytes
) -> int | None:
    """Return the first of ``shared_buckets``, None where there is none."""
    block = scheme.first_shared_block(a, b)
    if block is not None or not scheme.bands:
        return block
    return next(iter(shared_buckets(scheme, a, sketch_a, b, sketch_b)), None)
