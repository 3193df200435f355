"""Overloaded buckets: their candidates are found by slices of the remaining bits, without a scan.

Wang & Wang (2019) call a bucket overloaded if it has more than (1 + μ) times the average, μ = 2.
They split it again by the bits of the other blocks: the 48 remaining bits of 64 become 4 × 12. Two
fingerprints that share the bucket and are within distance d differ in at most d of the remaining
bits. If these are cut into d + 1 slices, at least one is equal (pigeonhole). So **no near pair is
lost** if candidates must share a slice too. Some equal slice is followed by one that differs in at
most one bit (``bucket_columns`` says why), so the next slice is kept beside each row as a filter.

If slices were so short that most of the bucket would share one (256 bits, distance 64), the
fingerprints of the bucket are copied together, word by word, and all are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import NEXT_DISTANCE, BucketColumns, spread, unpack_rows

OVERLOAD: Final = 2.0  # μ
DOCUMENTS_MIN: Final = 512  # smaller buckets do not need a second level
BYTE_WORDS: Final = 3
"""The number of words whose differing bits a byte can count: enough to reject most candidates."""

_SHORTEST_SLICE: Final = 8
_LONGEST_SLICE: Final = 16
_VALUE_BITS: Final = np.uint64(32)
_BUCKETS_LIMIT: Final = 1 << 16  # only the fullest buckets; others are looked up as usual
_COMPARED_AT_ONCE: Final = 1 << 16  # distances that fit the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class HotBuckets:
    """The overloaded buckets of a segment, with slices or with words."""

    buckets: NDArray[np.uint64]  # column << 32 | value, sorted
    bounds: NDArray[np.uint32]  # (buckets + 1,), the start of each bucket in ``rows`` and ``words``
    rows: NDArray[np.uint32]  # (slices, documents in them), or (1, documents)
    slice_keys: NDArray[np.uint32]  # like rows; number of the bucket << 16 | value, sorted
    next_slices: NDArray[np.uint16]  # like rows; values of the slices that follow
    words: NDArray[np.uint64]  # (bits / 64, documents)

    def __len__(self) -> int:
        return len(self.buckets)

    def numbers(self, columns: NDArray[np.intp], values: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Return the number of each bucket in this object; -1 if it is not overloaded."""
        wanted = columns.astype(np.uint64) << _VALUE_BITS | values
        at = np.searchsorted(self.buckets, wanted)
        there = at < len(self.buckets)
        there[there] = self.buckets[at[there]] == wanted[there]
        numbers: NDArray[np.intp] = np.where(there, at, -1)
        return numbers

    def candidates(
        self,
        scheme: BlockScheme,
        columns: NDArray[np.intp],
        numbers: NDArray[np.intp],
        fingerprints: NDArray[np.uint64],
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.uint32]]]:
        """Yield look-up numbers and rows of the documents that may be near."""
        if not len(self.slice_keys):
            yield from self._compared(scheme, numbers, fingerprints)
            return
        for column in np.unique(columns).tolist():
            queries = np.flatnonzero(columns == column)
            values = slices(scheme, column, fingerprints[queries]).T
            keys = (numbers[queries] << _LONGEST_SLICE).astype(np.uint32) | values
            starts = np.empty(keys.shape, dtype=np.intp)
            ends = np.empty(keys.shape, dtype=np.intp)
            for number, own in enumerate(self.slice_keys):
                starts[number] = np.searchsorted(own, keys[number])
                ends[number] = np.searchsorted(own, keys[number], side="right")
            lengths = (ends - starts).reshape(-1)
            starts += np.arange(len(starts))[:, None] * self.rows.shape[1]
            of, at = spread(starts.reshape(-1), lengths)
            following = np.roll(values, -1, axis=0).astype(np.uint16).reshape(-1)
            differing = self.next_slices.reshape(-1)[at] ^ following[of]
            kept = np.flatnonzero(np.bitwise_count(differing) <= NEXT_DISTANCE)
            yield queries[of[kept] % len(queries)], self.rows.reshape(-1)[at[kept]]

    def _compared(
        self, scheme: BlockScheme, numbers: NDArray[np.intp], fingerprints: NDArray[np.uint64]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.uint32]]]:
        for number in np.unique(numbers).tolist():
            queries = np.flatnonzero(numbers == number)
            start, stop = int(self.bounds[number]), int(self.bounds[number + 1])
            step = max(_COMPARED_AT_ONCE // len(queries), 1)
            for first in range(start, stop, step):
                part = slice(first, min(first + step, stop))
                distances = np.zeros((len(queries), part.stop - first), dtype=np.uint8)
                for word in range(min(len(self.words), BYTE_WORDS)):
                    ours, theirs = fingerprints[queries, word, None], self.words[word, part]
                    distances += np.bitwise_count(ours ^ theirs)
                of, at = np.nonzero(distances <= scheme.distance)
                yield queries[of], self.rows[0, at + first]


def slice_bits(scheme: BlockScheme, column: int) -> int:
    """Return the bits of a slice in the buckets of a column; 0 if slices are useless."""
    width = scheme.block_bits if column < scheme.all_blocks else 0
    bits = min((scheme.bits - width) // (scheme.distance + 1), _LONGEST_SLICE)
    return bits if bits >= _SHORTEST_SLICE else 0


def slices(
    scheme: BlockScheme, column: int, fingerprints: NDArray[np.uint64]
) -> NDArray[np.uint32]:
    """Return slices of the bits outside a bucket's block, uint32 (fingerprints, distance + 1)."""
    width, count = slice_bits(scheme, column), scheme.distance + 1
    bits = np.unpackbits(np.ascontiguousarray(fingerprints).view(np.uint8), axis=1)
    cut = bits[:, _bits_left(scheme, column)[: count * width]].reshape(-1, width)
    padded = np.zeros((len(cut), _LONGEST_SLICE), dtype=np.uint8)
    padded[:, :width] = cut
    values = np.packbits(padded, axis=1).view(np.uint16).reshape(len(bits), count)
    return values.astype(np.uint32)


@cache
def _bits_left(scheme: BlockScheme, column: int) -> NDArray[np.intp]:
    """Return the numbers of the bits outside the block of a column."""
    used = scheme.bits_of(column) if column < scheme.all_blocks else range(0)
    return np.setdiff1d(np.arange(scheme.bits), np.array(used, dtype=np.intp))


def find_hot(
    scheme: BlockScheme,
    fingerprints: NDArray[np.uint64],
    families: list[tuple[int, int, BucketColumns]],
) -> HotBuckets:
    """Each of ``families``: the number of its first column, the bits of a value, the columns."""
    overloaded = [
        (column << 32 | value, column, start, stop, buckets)
        for first, width, buckets in families
        for column, value, start, stop in _overloaded(first, width, buckets, len(fingerprints))
    ]
    overloaded.sort(key=lambda each: each[2] - each[3])
    hottest = sorted(overloaded[:_BUCKETS_LIMIT], key=lambda each: each[0])
    rows = [unpack_rows(buckets.rows[start:stop]) for _, _, start, stop, buckets in hottest]
    bounds = np.cumsum([0, *map(len, rows)]).astype(np.uint32)
    numbers = np.array([each[0] for each in hottest], dtype=np.uint64)
    whole = np.concatenate([*rows, np.empty(0, dtype=np.uint32)])
    sliced = bool(hottest) and all(slice_bits(scheme, column) for _, column, *_ in hottest)
    count = scheme.distance + 1 if sliced else 0
    keys = np.empty((count, len(whole)), dtype=np.uint32)
    following = np.empty((count, len(whole)), dtype=np.uint16)
    if not sliced:
        words = np.ascontiguousarray(fingerprints[whole].T)
        return HotBuckets(numbers, bounds, whole[None, :], keys, following, words)
    for number, ((_, column, *_), own) in enumerate(zip(hottest, rows, strict=True)):
        part = slice(int(bounds[number]), int(bounds[number + 1]))
        values = slices(scheme, column, fingerprints[own])
        keys[:, part] = (values | np.uint32(number << _LONGEST_SLICE)).T
        following[:, part] = np.roll(values, -1, axis=1).T
    order = np.argsort(keys, axis=1, kind="stable")
    keys = np.take_along_axis(keys, order, axis=1)
    following = np.take_along_axis(following, order, axis=1)
    no_words = np.empty((fingerprints.shape[1], 0), dtype=np.uint64)
    return HotBuckets(numbers, bounds, whole[order], keys, following, no_words)


def overload_threshold(width: int, documents: int) -> float:
    """Return how many documents a bucket may have without being overloaded."""
    return max((1 + OVERLOAD) * documents / (1 << width), float(DOCUMENTS_MIN))


def _overloaded(
    first: int, width: int, buckets: BucketColumns, documents: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield column, value, and start and end in ``rows`` of each overloaded bucket."""
    threshold = overload_threshold(width, documents)
    bounds = buckets.directory[:: 1 << buckets.range_tag_bits]
    lengths = np.diff(bounds)
    a_column = len(lengths) // max(buckets.columns, 1)
    for index in np.flatnonzero(lengths > threshold).tolist():
        column, high = divmod(index, a_column)
        start = int(bounds[index])
        if not buckets.shift:
            yield first + column, high, start, start + int(lengths[index])
            continue
        rest = buckets.tags[start : start + int(lengths[index])]
        values, at, counts = np.unique(rest, return_index=True, return_counts=True)
        for value, begun, count in zip(values.tolist(), at.tolist(), counts.tolist(), strict=True):
            if count > threshold:
                whole = high << buckets.shift | value
                yield first + column, whole, start + begun, start + begun + count
