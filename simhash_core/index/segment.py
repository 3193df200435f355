"""A segment: documents sorted by the buckets that they are in. Built once, never changed.

::

    sequences, slots, fingerprints   one row for each document
    rows                    documents by number in the segment, bucket after bucket
    directory               where in ``rows`` each range of buckets begins
    keys                    what tells the bucket of each row, where a range has several

A bucket is the number (block index, value). Its range in the directory is that number without its
last ``shift`` bits, so that the directory is no longer than ``rows``: with many documents a range
is one bucket and needs no keys; with few, the range is searched for those last bits.

All buckets of a packet are found in one pass of numpy over each column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.block_values import block_values

_CHUNK: Final = 65_536
"""Fingerprints whose blocks are computed at once: bounds the memory."""

_SORTED_BY_RADIX_BITS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Documents by bucket.

    ``sequences``: uint64 (documents,). ``slots``: uint16. ``fingerprints``: uint64 words
    (documents, bits / 64). ``rows``: uint32. ``directory``: uint32 (ranges + 1,). ``keys``: uint32
    like ``rows``, empty where ``shift`` is 0.
    """

    shift: int
    sequences: NDArray[np.uint64]
    slots: NDArray[np.uint16]
    fingerprints: NDArray[np.uint64]
    rows: NDArray[np.uint32]
    directory: NDArray[np.uint32]
    keys: NDArray[np.uint32]

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.sequences)

    def ranges(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return where the range of each bucket begins in ``rows``, and its length."""
        ranges = keys >> np.uint64(self.shift) if self.shift else keys
        starts = self.directory[ranges].astype(np.intp)
        return starts, self.directory[ranges + np.uint64(1)].astype(np.intp) - starts

    def candidates(
        self, keys: NDArray[np.uint64], starts: NDArray[np.intp], lengths: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
        """Return what is in buckets: of each candidate the index in ``keys``, and its row here.

        ``keys``: uint64, of ``bucket_numbers``; ``starts``, ``lengths``: their ``ranges``.
        """
        asked = np.repeat(np.arange(len(keys)), lengths)
        # Where the rows of a bucket begin, less the number of candidates before it.
        at = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        at += np.arange(len(at))
        if self.shift:
            last_bits = (keys & np.uint64((1 << self.shift) - 1)).astype(np.uint32)
            equal = self.keys[at] == last_bits[asked]
            asked, at = asked[equal], at[equal]
        return asked, self.rows[at]


def bucket_numbers(scheme: BlockScheme, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the buckets of fingerprints as numbers, uint64 (documents, all blocks)."""
    values = block_values(scheme, np.ascontiguousarray(fingerprints).view(np.uint8))
    blocks = np.arange(scheme.all_blocks, dtype=np.uint64) << np.uint64(scheme.block_bits)
    return values.astype(np.uint64) | blocks


def build_segment(
    scheme: BlockScheme,
    sequences: NDArray[np.uint64],
    slots: NDArray[np.uint16],
    fingerprints: NDArray[np.uint64],
) -> Segment:
    """Return the segment of documents, in the order given within each bucket."""
    values = _values_by_block(scheme, fingerprints)
    shift = _shift(scheme, values.size)
    ranges = 1 << (scheme.block_bits - shift)
    rows = np.empty(values.shape, dtype=np.uint32)
    keys = np.empty(values.shape if shift else (len(values), 0), dtype=np.uint32)
    counts = np.empty((scheme.all_blocks, ranges), dtype=np.intp)
    for block, own in enumerate(values):
        order = np.argsort(own, kind="stable")
        rows[block] = order
        in_order = own[order].astype(np.intp)
        counts[block] = np.bincount(in_order >> shift, minlength=ranges)
        if shift:
            keys[block] = in_order & ((1 << shift) - 1)
    directory = np.zeros(counts.size + 1, dtype=np.uint32)
    np.cumsum(counts, out=directory[1:])
    return Segment(
        shift, sequences, slots, fingerprints, rows.reshape(-1), directory, keys.reshape(-1)
    )


def _shift(scheme: BlockScheme, rows: int) -> int:
    """Return how many bits to leave out, so that there are no more ranges than rows."""
    shift = 0
    while shift < scheme.block_bits and scheme.all_blocks << scheme.block_bits - shift > rows:
        shift += 1
    return shift


def _values_by_block(
    scheme: BlockScheme, fingerprints: NDArray[np.uint64]
) -> NDArray[np.unsignedinteger]:
    """Return block values, (blocks, documents)."""
    narrow = scheme.block_bits <= _SORTED_BY_RADIX_BITS
    values: NDArray[np.unsignedinteger] = np.empty(
        (scheme.all_blocks, len(fingerprints)), dtype=np.uint16 if narrow else np.uint32
    )
    as_bytes = np.ascontiguousarray(fingerprints).view(np.uint8)
    for first in range(0, len(fingerprints), _CHUNK):
        chunk = slice(first, first + _CHUNK)
        values[:, chunk] = block_values(scheme, as_bytes[chunk]).T
    return values
