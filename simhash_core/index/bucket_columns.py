"""The buckets of a segment: in which of its rows the documents of each bucket stand.

::

    rows        rows of the segment, bucket after bucket, column after column
    directory   where in ``rows`` each range of buckets begins
    tags        what tells candidates apart before their fingerprints are read

A bucket is a column (a block, or a band) and a value in it. A range is all values with the same
first bits: as many bits as make about as many ranges as there are documents, so that the directory
is no longer than ``rows``. Where a range has several buckets, the *tag* of a row is the rest of its
value, and only rows with the tag that is asked for are candidates. Where a range is one bucket and
the distance is short, the tag is 16 other bits of the fingerprint: a candidate that differs in more
of them than the distance allows is farther than that, and nearly all are. Reading tags one after
the other costs a tenth of reading fingerprints here and there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.ragged import spread

TAG_BITS: Final = 16
_TAGGED_DISTANCE: Final = 4
"""Up to it 16 bits of random fingerprints tell apart 96 of 100."""

_ROW_BITS: Final = np.uint64(32)
_SPARSE_BITS: Final = 24
"""Wider values hardly ever meet: their ranges have four rows each, for a shorter directory."""


class Asked(NamedTuple):
    """Buckets of documents that are looked up, each (documents, columns).

    ``values``: uint32. ``tags``: uint16, of the fingerprints, empty where they are not needed.
    """

    values: NDArray[np.uint32]
    tags: NDArray[np.uint16]


class Ranges(NamedTuple):
    """Where buckets are: ``starts`` in ``rows`` and ``lengths``, intp."""

    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class BucketColumns:
    """Columns of one width. ``rows``: uint32 (columns · documents,).

    ``directory``: uint32 (ranges + 1,). ``tags``: uint16 or uint32 like ``rows``, or empty.
    ``shift``: bits of a value that are not of its range. ``distance``: of fingerprints that
    ``tags`` are bits of; -1 where they are the rest of the values, or empty.
    """

    shift: int
    columns: int
    distance: int
    rows: NDArray[np.uint32]
    directory: NDArray[np.uint32]
    tags: NDArray[np.uint16] | NDArray[np.uint32]

    def ranges(self, values: NDArray[np.uint32]) -> Ranges:
        """Return where the range of each bucket is, (documents, columns)."""
        a_column = (len(self.directory) - 1) // max(self.columns, 1)
        ranges = (values >> np.uint32(self.shift)).astype(np.intp)
        ranges += np.arange(self.columns) * a_column
        starts = self.directory[ranges].astype(np.intp)
        return Ranges(starts, self.directory[ranges + 1].astype(np.intp) - starts)

    def candidates(
        self, question: Asked, starts: NDArray[np.intp], lengths: NDArray[np.intp], *, within: bool
    ) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
        """Return what is in buckets: of each candidate the index in ``question``, and its row.

        All arrays are flat and in step. ``within``: leave out what tags show to be too far.
        """
        if not self.shift and not (within and self.distance >= 0):
            of, at = spread(starts, lengths)
            return of, self.rows[at]
        ends = np.cumsum(lengths)
        at = np.repeat(starts - ends + lengths, lengths)
        at += np.arange(len(at))
        tags = self.tags.take(at)
        if self.shift:
            rest = (question.values & np.uint32((1 << self.shift) - 1)).astype(self.tags.dtype)
            kept = np.flatnonzero(tags == np.repeat(rest, lengths))
        else:
            tags ^= np.repeat(question.tags, lengths)
            kept = np.flatnonzero(np.bitwise_count(tags) <= self.distance)
        return np.searchsorted(ends, kept, side="right"), self.rows[at[kept]]

    def values(self, documents: int) -> NDArray[np.uint32]:
        """Return the value of each document in each column, uint32 (documents, columns).

        Only where ``tags`` are the rest of the values, or there is none.
        """
        by_column = np.empty((documents, self.columns), dtype=np.uint32)
        a_column = (len(self.directory) - 1) // max(self.columns, 1)
        lengths = np.diff(self.directory)
        for column in range(self.columns):
            own = slice(column * documents, (column + 1) * documents)
            ranges = lengths[column * a_column : (column + 1) * a_column]
            values = np.repeat(np.arange(a_column, dtype=np.uint32) << self.shift, ranges)
            if self.shift:
                values |= self.tags[own]
            by_column[self.rows[own], column] = values
        return by_column


def build_columns(
    scheme: BlockScheme,
    width: int,
    columns: Iterable[tuple[NDArray[np.uint32], NDArray[np.uint16]]],
    count: int,
    documents: int,
) -> BucketColumns:
    """Return the buckets of documents.

    ``columns``: of each of ``count`` the value and the tag of each document. ``width``: bits.
    """
    shift = _shift(width, documents)
    distance = scheme.distance if is_tagged(scheme) and not shift else -1
    ranges = 1 << (width - shift)
    rows = np.empty((count, documents), dtype=np.uint32)
    tagged = shift > 0 or distance >= 0
    tags = np.empty(
        (count, documents if tagged else 0), dtype=np.uint16 if shift <= TAG_BITS else np.uint32
    )
    directory = np.zeros(count * ranges + 1, dtype=np.uint32)
    for number, (values, of_fingerprints) in enumerate(columns):
        # Sorting value and row as one number takes a fifth of the time of an argsort.
        pairs = values.astype(np.uint64) << _ROW_BITS | np.arange(documents, dtype=np.uint64)
        pairs.sort()
        order = rows[number] = pairs.astype(np.uint32)
        in_order = (pairs >> _ROW_BITS).astype(np.uint32)
        bounds = directory[number * ranges + 1 : (number + 1) * ranges + 1]
        bounds[:] = np.cumsum(np.bincount((in_order >> shift).astype(np.intp), minlength=ranges))
        bounds += np.uint32(number * documents)
        if shift:
            tags[number] = in_order & np.uint32((1 << shift) - 1)
        elif tagged:
            tags[number] = of_fingerprints[order]
    return BucketColumns(shift, count, distance, rows.reshape(-1), directory, tags.reshape(-1))


def is_tagged(scheme: BlockScheme) -> bool:
    """Return whether 16 bits of a fingerprint tell most candidates from near ones."""
    return scheme.distance <= _TAGGED_DISTANCE


def fingerprint_tags(scheme: BlockScheme, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return 16 bits of each fingerprint that stand behind each block, uint16 (documents, blocks).

    Empty in the second axis where tags are of no use. Any 16 bits would do: those of the block
    itself, which are equal, would tell nothing.
    """
    if not is_tagged(scheme):
        return np.empty((len(fingerprints), 0), dtype=np.uint16)
    pieces = np.ascontiguousarray(fingerprints).view(np.uint16)
    ends = np.array(
        [(scheme.bits_of(block)[-1] + TAG_BITS) // TAG_BITS for block in range(scheme.all_blocks)],
        dtype=np.intp,
    )
    return pieces[:, ends % pieces.shape[1]]


def _shift(width: int, documents: int) -> int:
    """Return how many bits of a value are not of its range."""
    bits = max(documents, 1).bit_length() - 1
    if width > _SPARSE_BITS:
        bits -= 2
    return max(width - max(bits, 0), 0)
