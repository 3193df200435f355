"""The buckets of a segment: the rows of the documents in each bucket.

::

    rows        rows of the segment, bucket after bucket, column after column
    directory   where in ``rows`` each range of buckets begins
    tags        what distinguishes candidates before their fingerprints are read

A bucket is a column (a block or a band) and a value in it. A range is all values with the same
first bits; there are about as many ranges as documents. If a range has several buckets, the *tag*
of a row is the rest of its value, and only rows with the looked-up tag are candidates. If a range
is one bucket and the distance is short, the tag is 16 other bits of the fingerprint: a candidate
that differs in more of them than the distance is not near. This excludes nearly all others.

In a large segment buckets are full: 128 documents of 8 million share a block of 16 bits. There a
range is the block **and the first bits of its tag**, which is the next block (after the last, the
first). Of two fingerprints within distance d < n, cut into n blocks, some block is equal while the
next one differs in one bit at most. (Otherwise each of z equal blocks is followed by one with two
differing bits or more, and each other block has at least one: n differing bits, more than d.) So a
look-up needs only the range with its own first bits and the ranges that differ from it in one bit:
6 of 32.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme

TAG_BITS: Final = 16
SHORT_TAG_BITS: Final = 8
_TAGGED_DISTANCE: Final = 4  # up to this distance, 16 bits tell 96 of 100 random fingerprints apart

_ROW_BITS: Final = np.uint64(32)
# Values of bands and wide blocks are hardly ever equal. So a range has four to eight rows, or, if
# this takes less memory, as few as tags of one or two bytes need. Small segments have shorter
# ranges and longer directories: there are several, and a look-up takes a third less time.
_SPARSE_BITS: Final = 24
_SPARSE_RANGE_ROWS: Final = 8
_SMALL_RANGE_ROWS: Final = 2
_LARGE_DOCUMENTS: Final = 1 << 18
# Bits that may differ in the block after some equal block of near fingerprints.
NEXT_DISTANCE: Final = 1
_FULL_RANGE_BITS: Final = 2  # four rows in each range of a full bucket: a directory as long as rows
_TAG_BITS_MIN: Final = 3  # with fewer tag bits in a range, a look-up needs nearly all ranges

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""A computation in steps of some milliseconds, so that an event loop can do other work between."""


def completed(steps: Steps[Result]) -> Result:
    """Take all steps at once and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


ROWS_LIMIT: Final = 1 << 24  # a row number takes three bytes
_BYTES: Final = 3
_NUMBER: Final = np.dtype("<u4")
_NO_ROWS: Final = np.empty(0, dtype=_NUMBER)


def pack_rows(rows: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return row numbers, uint32 (rows,), as little-endian bytes, uint8 (rows, 3)."""
    as_bytes = rows.astype(_NUMBER, copy=False).view(np.uint8).reshape(-1, _NUMBER.itemsize)
    return np.ascontiguousarray(as_bytes[:, :_BYTES])


def unpack_rows(packed: NDArray[np.uint8]) -> NDArray[np.uint32]:
    as_bytes = np.zeros((len(packed), _NUMBER.itemsize), dtype=np.uint8)
    as_bytes[:, :_BYTES] = packed
    return as_bytes.reshape(-1).view(_NUMBER)


def spread(
    starts: NDArray[np.intp], lengths: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of the range, and the position, for each position in the ranges."""
    of = np.repeat(np.arange(len(starts)), lengths)
    # The start of each range minus the number of positions in the ranges before it.
    at = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    at += np.arange(len(at))
    return of, at


class BucketQuery(NamedTuple):
    """The buckets to look up; each array is (documents, columns)."""

    values: NDArray[np.uint32]
    tags: NDArray[np.uint16]  # of the fingerprints, empty if not needed


class Search(NamedTuple):
    """Ranges to search, in flat arrays of equal length; the ranges of one bucket are adjacent."""

    query: BucketQuery
    starts: NDArray[np.intp]  # in ``rows``
    lengths: NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class BucketColumns:
    """The bucket columns whose values have the same width."""

    shift: int  # bits of a value outside its range
    columns: int
    # Of the fingerprints whose bits are tags; -1: tags are the rests of values, or there are none.
    distance: int
    range_tag_bits: int  # first bits of a row's tag that belong to its range
    rows: NDArray[np.uint8]  # (columns · documents, 3), from ``pack_rows``
    directory: NDArray[np.uint32]  # (ranges + 1,)
    tags: NDArray[np.unsignedinteger]  # one for each row, or empty

    def search(self, question: BucketQuery, *, within: bool) -> Search:
        """Return ranges of (documents, columns); ``within``: only those that may hold near ones."""
        a_column = (len(self.directory) - 1) // max(self.columns, 1)
        first = (question.values >> np.uint32(self.shift)).astype(np.intp)
        first <<= self.range_tag_bits
        first += np.arange(self.columns) * a_column
        if not (within and self.range_tag_bits):
            first = first.reshape(-1)
            starts = self.directory[first].astype(np.intp)
            ends = self.directory[first + (1 << self.range_tag_bits)].astype(np.intp)
            flat = BucketQuery(question.values.reshape(-1), question.tags.reshape(-1))
            return Search(flat, starts, ends - starts)
        first |= question.tags >> np.uint16(TAG_BITS - self.range_tag_bits)
        near = first[:, :, None] ^ np.array([0, *(1 << bit for bit in range(self.range_tag_bits))])
        values = np.broadcast_to(question.values[:, :, None], near.shape).reshape(-1)
        tags = np.broadcast_to(question.tags[:, :, None], near.shape).reshape(-1)
        near = near.reshape(-1)
        starts = self.directory[near].astype(np.intp)
        ends = self.directory[near + 1].astype(np.intp)
        return Search(BucketQuery(values, tags), starts, ends - starts)

    def candidates(
        self,
        question: BucketQuery,
        starts: NDArray[np.intp],
        lengths: NDArray[np.intp],
        *,
        within: bool,
    ) -> tuple[NDArray[np.intp], NDArray[np.uint32]]:
        """Return for each candidate its index in ``question`` and its row, in two flat arrays."""
        if not self.shift and not (within and self.distance >= 0):
            of, at = spread(starts, lengths)
            return of, unpack_rows(self.rows[at])
        ends = lengths.cumsum()
        at = (starts - ends + lengths).repeat(lengths)
        at += np.arange(len(at))
        tags = self.tags.take(at)
        if self.shift:
            rest = (question.values & np.uint32((1 << self.shift) - 1)).astype(self.tags.dtype)
            kept = (tags == rest.repeat(lengths)).nonzero()[0]
        else:
            tags ^= question.tags.repeat(lengths)
            limit = NEXT_DISTANCE if self.range_tag_bits else self.distance
            kept = (np.bitwise_count(tags) <= limit).nonzero()[0]
        if not len(kept):
            return kept, _NO_ROWS
        return ends.searchsorted(kept, side="right"), unpack_rows(self.rows[at[kept]])

    def values(self, documents: int) -> Steps[NDArray[np.uint32]]:
        """Return the values, (documents, columns); tags, if any, are the rests of values."""
        by_column = np.empty((self.columns, documents), dtype=np.uint32)
        a_column = (len(self.directory) - 1) // max(self.columns, 1)
        lengths = np.diff(self.directory)
        for column in range(self.columns):
            own = slice(column * documents, (column + 1) * documents)
            ranges = lengths[column * a_column : (column + 1) * a_column]
            values = np.repeat(np.arange(a_column, dtype=np.uint32) << self.shift, ranges)
            if self.shift:
                values |= self.tags[own]
            by_column[column, unpack_rows(self.rows[own])] = values
            yield
        return by_column.T


def build_columns(
    scheme: BlockScheme,
    width: int,
    columns: Iterable[tuple[NDArray[np.uint32], NDArray[np.uint16]]],
    count: int,
    documents: int,
    *,
    sparse: bool = False,
) -> Steps[BucketColumns]:
    """Return the buckets of documents, fewer than ``ROWS_LIMIT``; ``width`` is in bits.

    ``columns`` yields ``count`` pairs: value and tag of each document. ``sparse``: hardly any
    values are equal.
    """
    shift = _shift(width, documents, sparse=sparse or width > _SPARSE_BITS) if count else width
    distance = scheme.distance if is_tagged(scheme) and not shift else -1
    range_tag_bits = tag_bits_of_ranges(scheme, documents) if distance >= 0 else 0
    ranges = 1 << (width - shift + range_tag_bits)
    rows = np.empty((count, documents, 3), dtype=np.uint8)
    tagged = shift > 0 or distance >= 0
    tags = np.empty(
        (count, documents if tagged else 0), dtype=_tag_type(shift) if shift else np.uint16
    )
    directory = np.zeros(count * ranges + 1, dtype=np.uint32)
    for number, (values, of_fingerprints) in enumerate(columns):
        # Sorting value and row as one number takes a fifth of the time of an argsort.
        keys = values.astype(np.uint64)
        if range_tag_bits:
            keys <<= np.uint64(range_tag_bits)
            keys |= of_fingerprints >> np.uint16(TAG_BITS - range_tag_bits)
        keys <<= _ROW_BITS
        keys |= np.arange(documents, dtype=np.uint64)
        keys.sort()
        order = keys.astype(np.uint32)
        rows[number] = pack_rows(order)
        in_order = (keys >> _ROW_BITS).astype(np.uint32)
        bounds = directory[number * ranges + 1 : (number + 1) * ranges + 1]
        bounds[:] = np.cumsum(np.bincount((in_order >> shift).astype(np.intp), minlength=ranges))
        bounds += np.uint32(number * documents)
        if shift:
            tags[number] = in_order & np.uint32((1 << shift) - 1)
        elif tagged:
            tags[number] = of_fingerprints[order]
        yield
    return BucketColumns(
        shift, count, distance, range_tag_bits, rows.reshape(-1, 3), directory, tags.reshape(-1)
    )


def tag_bits_of_ranges(scheme: BlockScheme, documents: int) -> int:
    """Return how many first bits of the tag select a row's range; 0 for none."""
    is_next_block = scheme.block_bits == TAG_BITS and scheme.blocks * TAG_BITS == scheme.bits
    if not (is_next_block and scheme.cuts == 1 and scheme.guaranteed):
        return 0
    in_a_bucket = documents >> scheme.block_bits
    bits = in_a_bucket.bit_length() - 1 - _FULL_RANGE_BITS
    return bits if bits >= _TAG_BITS_MIN else 0


def is_tagged(scheme: BlockScheme) -> bool:
    """Return whether 16 bits of a fingerprint exclude most candidates that are not near."""
    return scheme.distance <= _TAGGED_DISTANCE


def fingerprint_tags(scheme: BlockScheme, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return 16 bits of each fingerprint after each block, uint16 (documents, blocks).

    The bits of the block itself would be equal. The second axis is empty if tags are useless.
    """
    if not is_tagged(scheme):
        return np.empty((len(fingerprints), 0), dtype=np.uint16)
    pieces = np.ascontiguousarray(fingerprints).view(np.uint16)
    ends = np.array(
        [(scheme.bits_of(block)[-1] + TAG_BITS) // TAG_BITS for block in range(scheme.all_blocks)],
        dtype=np.intp,
    )
    return pieces[:, ends % pieces.shape[1]]


def _shift(width: int, documents: int, *, sparse: bool) -> int:
    """Return how many bits of a value are outside its range."""
    if not sparse:
        return max(width - max(documents.bit_length() - 1, 0), 0)
    rows = _SPARSE_RANGE_ROWS if documents >= _LARGE_DOCUMENTS else _SMALL_RANGE_ROWS
    usual = max(width - (documents // rows).bit_length(), 0)
    shorter = [bits for bits in (TAG_BITS, SHORT_TAG_BITS) if bits < usual]
    return min([usual, *shorter], key=lambda shift: _sparse_bytes(width, documents, shift))


def sparse_bytes(width: int, documents: int) -> float:
    """Return the bytes that a document takes in a column of sparse values."""
    shift = _shift(width, documents, sparse=True)
    return _BYTES + _sparse_bytes(width, documents, shift) / documents


def _sparse_bytes(width: int, documents: int, shift: int) -> int:
    """Return the bytes of directory and tags."""
    return (4 << width - shift) + documents * _tag_type(shift).itemsize


def _tag_type(shift: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(
        np.uint8 if shift <= SHORT_TAG_BITS else np.uint16 if shift <= TAG_BITS else np.uint32
    )
