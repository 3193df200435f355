"""A segment of a shard's buckets: some of its documents, sorted by bucket, never changed again.

Columns, each one array::

    orders, fingerprints    of each document
    rows                    documents by number in the segment, bucket after bucket
    directory               where in ``rows`` each range of buckets begins
    keys                    what tells the bucket of each row, where a range has several

A bucket is the number (block index, value). Its range in the directory is that number without its
last ``shift`` bits, so that the directory is no longer than ``rows``: with many documents a range
is one bucket and needs no keys; with few it is looked through, for those last bits.

All buckets of a batch of look-ups are found in one pass of numpy over each column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.block_values import block_values
from simhash_core.blocks import BlockScheme
from simhash_core.placement import Placement, owners

_CHUNK: Final = 65_536
"""Fingerprints whose blocks are found at once: bounds the memory for their owners."""

_SORTED_BY_RADIX_BITS: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class BucketSegment:
    """Documents by bucket.

    ``orders``: uint64 (documents,). ``fingerprints``: uint64 words (documents, bits / 64).
    ``rows``: uint32. ``directory``: uint32 (ranges + 1,). ``keys``: uint32 like ``rows``, empty
    where ``shift`` is 0.
    """

    shift: int
    orders: NDArray[np.uint64]
    fingerprints: NDArray[np.uint64]
    rows: NDArray[np.uint32]
    directory: NDArray[np.uint32]
    keys: NDArray[np.uint32]

    @property
    def documents(self) -> int:
        """The number of documents."""
        return len(self.orders)

    def meet(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
        """Return what is in buckets: of each meeting the index in ``keys``, and the document.

        ``keys``: uint64, of ``block_values.bucket_keys``. Meetings stand in the order of ``keys``,
        those in one bucket in the order of documents.
        """
        ranges = keys >> np.uint64(self.shift) if self.shift else keys
        starts = self.directory[ranges]
        lengths = (self.directory[ranges + np.uint64(1)] - starts).astype(np.intp)
        asked = np.repeat(np.arange(len(keys)), lengths)
        ends = np.cumsum(lengths)
        # Where a look-up's rows begin, less the number of meetings before it.
        places = np.repeat(starts.astype(np.intp) - ends + lengths, lengths)
        places += np.arange(len(places))
        if self.shift:
            last_bits = (keys & np.uint64((1 << self.shift) - 1)).astype(np.uint32)
            met = self.keys[places] == last_bits[asked]
            asked, places = asked[met], places[met]
        return asked, self.rows[places]


def build_segment(
    placement: Placement,
    partition: int,
    orders: NDArray[np.uint64],
    fingerprints: NDArray[np.uint64],
) -> BucketSegment:
    """Return the segment of documents, in the buckets that ``partition`` owns.

    Arrays as of ``BucketSegment``. Documents of a bucket stand in the order that is given.
    """
    scheme = placement.scheme
    values, owned = _values_by_block(placement, partition, fingerprints)
    total = values.size if owned is None else int(np.count_nonzero(owned))
    shift = _shift(scheme, total)
    ranges = 1 << (scheme.block_bits - shift)
    rows = np.empty(total, dtype=np.uint32)
    keys = np.empty(total if shift else 0, dtype=np.uint32)
    counts = np.empty((scheme.all_blocks, ranges), dtype=np.intp)
    done = 0
    for block, own in enumerate(values):
        if owned is None:
            found = np.argsort(own, kind="stable")
        else:
            mine = np.flatnonzero(owned[block])
            found = mine[np.argsort(own[mine], kind="stable")]
        here = slice(done, done + len(found))
        done += len(found)
        rows[here] = found
        in_order = own[found].astype(np.intp)
        counts[block] = np.bincount(in_order >> shift, minlength=ranges)
        if shift:
            keys[here] = in_order & ((1 << shift) - 1)
    directory = np.zeros(counts.size + 1, dtype=np.uint32)
    np.cumsum(counts, out=directory[1:])
    return BucketSegment(shift, orders, fingerprints, rows, directory, keys)


def _shift(scheme: BlockScheme, rows: int) -> int:
    """Return how many bits to leave out, so that there are no more ranges than rows."""
    shift = 0
    while shift < scheme.block_bits and scheme.all_blocks << scheme.block_bits - shift > rows:
        shift += 1
    return shift


def _values_by_block(
    placement: Placement, partition: int, fingerprints: NDArray[np.uint64]
) -> tuple[NDArray[np.uint32], NDArray[np.bool_] | None]:
    """Return block values, (blocks, documents), and which of them are owned; None: all are."""
    scheme = placement.scheme
    shape = scheme.all_blocks, len(fingerprints)
    narrow = scheme.block_bits <= _SORTED_BY_RADIX_BITS
    values = np.empty(shape, dtype=np.uint16 if narrow else np.uint32)
    owned = np.empty(shape, dtype=np.bool_) if placement.partitions > 1 else None
    for first in range(0, len(fingerprints), _CHUNK):
        chunk = slice(first, first + _CHUNK)
        of_chunk = block_values(scheme, fingerprints[chunk].view(np.uint8))
        values[:, chunk] = of_chunk.T
        if owned is not None:
            owned[:, chunk] = (owners(of_chunk, placement.partitions) == partition).T
    return values, owned
