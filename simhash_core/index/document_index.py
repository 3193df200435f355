"""Documents by the buckets that they are in: a small table of new ones, and sorted segments.

A new document goes into the memtable, which is compared whole: with a few hundred documents that
costs less than buckets would. A full memtable becomes a segment; four segments of about one size
become one. So each document is sorted a few times in all, and a look-up visits few segments.

One index serves all shards of a worker, so that a look-up costs the same for one shard and for
many. Each row says by its *slot* which opening of a shard it belongs to; a shard that leaves is
dropped by its slot, and its rows go when their segment is merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.memtable import Memtable, Rows, joined
from simhash_core.index.near_rows import near_rows
from simhash_core.index.segment import Segment, bucket_numbers, build_segment

MEMTABLE_DOCUMENTS: Final = 512
SEGMENT_DOCUMENTS_LIMIT: Final = 1 << 20
"""A merge takes some seconds at most, and 300 MB of memory."""
SLOTS_LIMIT: Final = 1 << 16

_MERGED_SEGMENTS: Final = 4

_CANDIDATES_LIMIT: Final = 1 << 21
"""Candidates in memory at one time; where buckets are full, documents go in smaller groups."""

_COMPARED_ROWS: Final = 256
"""Documents compared with the memtable at one time."""


class Pairs(NamedTuple):
    """Documents of a look-up with documents of the index that are within the distance.

    Sorted by ``rows``, then distance, then sequence number; each pair once. ``rows``: intp, indices
    of the documents looked up. ``distances``: uint16, bits. ``sequences``: uint64. ``slots``:
    uint16.
    """

    rows: NDArray[np.intp]
    distances: NDArray[np.uint16]
    sequences: NDArray[np.uint64]
    slots: NDArray[np.uint16]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.rows)


class BucketCounts(NamedTuple):
    """``candidates``: documents that share a bucket. ``fullest``: those in the fullest bucket."""

    candidates: int
    fullest: int


class DocumentIndex:
    """Documents by bucket; a look-up sees all that were added."""

    def __init__(self, scheme: BlockScheme) -> None:
        """Begin empty."""
        self._scheme = scheme
        self._words = scheme.bits // 64
        self._segments: list[Segment] = []
        self._memtable = Memtable(self._words, MEMTABLE_DOCUMENTS)
        self._live = np.zeros(SLOTS_LIMIT, dtype=np.bool_)
        self._visible = np.zeros(SLOTS_LIMIT, dtype=np.bool_)
        self._counts: dict[int, int] = {}
        self.candidates_met = 0

    def __len__(self) -> int:
        """Return the number of documents of all open slots."""
        return sum(self._counts.values())

    def documents(self, slot: int) -> int:
        """Return the number of documents of one slot."""
        return self._counts.get(slot, 0)

    @property
    def segments(self) -> list[Segment]:
        """The segments, the earliest first."""
        return self._segments

    def open_slot(self, *, visible: bool = True) -> int:
        """Return a slot that no row has. Raises ``UsageError`` where all are taken.

        Look-ups do not see the documents of a slot that is not visible, until ``show_slot``.
        """
        self._forget_dropped()
        taken = set(np.unique(np.concatenate([each.slots for each in self._all_parts()])).tolist())
        slot = next((s for s in range(SLOTS_LIMIT) if s not in taken and s not in self._counts), -1)
        if slot < 0:
            raise UsageError(f"an index holds at most {SLOTS_LIMIT} shards at one time")
        self._live[slot] = True
        self._visible[slot] = visible
        self._counts[slot] = 0
        return slot

    def show_slot(self, slot: int) -> None:
        """Let look-ups see the documents of a slot: all that it had are loaded."""
        self._visible[slot] = True

    def drop_slot(self, slot: int) -> None:
        """Forget all documents of a slot; without effect where it is not open."""
        self._live[slot] = self._visible[slot] = False
        self._counts.pop(slot, None)

    def add(
        self, slot: int, sequences: NDArray[np.uint64], fingerprints: NDArray[np.uint64]
    ) -> None:
        """Add documents of an open slot; arrays as of ``Segment``."""
        count = len(sequences)
        self._counts[slot] += count
        if not count:
            return
        slots = np.full(count, slot, dtype=np.uint16)
        part = Rows(sequences, slots, fingerprints)
        if self._memtable.count + count < MEMTABLE_DOCUMENTS:
            self._memtable.append(part)
            return
        whole = joined([self._memtable.rows(), part]).live(self._live)
        self._memtable.clear()
        for first in range(0, len(whole), SEGMENT_DOCUMENTS_LIMIT):
            self._seal(whole.rows(slice(first, first + SEGMENT_DOCUMENTS_LIMIT)))

    def pairs(self, fingerprints: NDArray[np.uint64]) -> Pairs:
        """Return which documents of the index share a block and are within the distance.

        ``fingerprints``: uint64 words (documents, bits / 64).
        """
        found = [*self._pairs_in_memtable(fingerprints)]
        if self._segments and len(fingerprints):
            keys = bucket_numbers(self._scheme, fingerprints)
            for segment in self._segments:
                found += self._pairs_in_segment(segment, keys, fingerprints)
        return self._sorted(found)

    def bucket_counts(self, fingerprint: NDArray[np.uint64]) -> BucketCounts:
        """Return how many documents share a bucket with one; ``fingerprint``: (1, bits / 64)."""
        keys = bucket_numbers(self._scheme, fingerprint)[0]
        sizes = np.zeros(len(keys), dtype=np.intp)
        for _, asked, rows in self._candidates(fingerprint):
            del rows
            sizes += np.bincount(asked, minlength=len(keys))
        return BucketCounts(int(sizes.sum()), int(sizes.max(initial=0)))

    def nearest(self, fingerprint: NDArray[np.uint64], limit: int) -> Pairs:
        """Return the ``limit`` nearest documents that share a block with one, however far."""
        found = []
        for part, _, met in self._candidates(fingerprint):
            rows = np.unique(met)
            distances = _distances(part.fingerprints[rows], fingerprint[:1])
            nearest = np.argsort(distances, kind="stable")[: 2 * limit]
            found.append(
                Pairs(
                    np.zeros(len(nearest), dtype=np.intp),
                    distances[nearest],
                    part.sequences[rows[nearest]],
                    part.slots[rows[nearest]],
                )
            )
        pairs = self._sorted(found)
        return Pairs(
            pairs.rows[:limit],
            pairs.distances[:limit],
            pairs.sequences[:limit],
            pairs.slots[:limit],
        )

    def _candidates(
        self, fingerprint: NDArray[np.uint64]
    ) -> Iterator[tuple[Segment | Rows, NDArray[np.intp], NDArray[np.intp]]]:
        """Yield what shares a bucket with one document: a part, indices of blocks, and its rows."""
        keys = bucket_numbers(self._scheme, fingerprint)[0]
        part = self._memtable.rows()
        if len(part):
            rows, blocks = np.nonzero(bucket_numbers(self._scheme, part.fingerprints) == keys)
            live = self._visible[part.slots[rows]]
            yield part, blocks[live], rows[live]
        for segment in self._segments:
            asked, met = segment.candidates(keys, *segment.ranges(keys))
            live = self._visible[segment.slots[met]]
            yield segment, asked[live], met[live].astype(np.intp)

    def _all_parts(self) -> list[Rows]:
        parts = [Rows(each.sequences, each.slots, each.fingerprints) for each in self._segments]
        return [self._memtable.rows(), *parts]

    def _forget_dropped(self) -> None:
        """Rebuild what holds mostly rows of slots that were dropped."""
        memtable = self._memtable.rows()
        kept = memtable.live(self._live)
        if len(kept) < len(memtable):
            self._memtable.clear()
            self._memtable.append(kept)
        segments, self._segments = self._segments, []
        for segment in segments:
            live = int(np.count_nonzero(self._live[segment.slots]))
            if 2 * live > len(segment):
                self._segments.append(segment)
            elif live:
                part = Rows(segment.sequences, segment.slots, segment.fingerprints)
                self._segments.append(self._built(part.live(self._live)))

    def _seal(self, part: Rows) -> None:
        if not len(part):
            return
        self._segments.append(self._built(part))
        while (first := self._first_to_merge()) is not None:
            merged = self._segments[first:]
            parts = [Rows(each.sequences, each.slots, each.fingerprints) for each in merged]
            self._segments[first:] = [self._built(joined(parts).live(self._live))]

    def _first_to_merge(self) -> int | None:
        """Return from which segment on they are to become one; None: none are."""
        segments = self._segments
        size = _magnitude(len(segments[-1]))
        first = len(segments)
        while first and _magnitude(len(segments[first - 1])) <= size:
            first -= 1
        run = segments[first:]
        if len(run) < _MERGED_SEGMENTS or sum(map(len, run)) > SEGMENT_DOCUMENTS_LIMIT:
            return None
        return first

    def _built(self, part: Rows) -> Segment:
        return build_segment(self._scheme, part.sequences, part.slots, part.fingerprints)

    def _pairs_in_memtable(self, fingerprints: NDArray[np.uint64]) -> Iterator[Pairs]:
        part = self._memtable.rows()
        if not len(part):
            return
        for first in range(0, len(fingerprints), _COMPARED_ROWS):
            chunk = fingerprints[first : first + _COMPARED_ROWS]
            rows, others, distances = near_rows(self._scheme, chunk, part.fingerprints)
            live = self._visible[part.slots[others]]
            rows, others, distances = rows[live], others[live], distances[live]
            yield Pairs(rows + first, distances, part.sequences[others], part.slots[others])

    def _pairs_in_segment(
        self, segment: Segment, keys: NDArray[np.uint64], fingerprints: NDArray[np.uint64]
    ) -> Iterator[Pairs]:
        documents, blocks = keys.shape
        flat = keys.reshape(-1)
        starts, lengths = segment.ranges(flat)
        ends = np.cumsum(lengths.reshape(documents, blocks).sum(axis=1))
        first = 0
        while first < documents:
            before = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, before + _CANDIDATES_LIMIT, side="right"))
            last = max(last, first + 1)  # one document may exceed the limit by itself
            chunk = slice(first * blocks, last * blocks)
            asked, met = segment.candidates(flat[chunk], starts[chunk], lengths[chunk])
            self.candidates_met += len(met)
            rows = asked // blocks + first
            yield self._within(segment, rows, met, fingerprints)
            first = last

    def _within(
        self,
        segment: Segment,
        rows: NDArray[np.intp],
        met: NDArray[np.uint32],
        fingerprints: NDArray[np.uint64],
    ) -> Pairs:
        """Keep the candidates within the distance: word by word, so that most go early."""
        limit = self._scheme.distance
        distances = np.zeros(len(rows), dtype=np.uint16)
        for word in range(self._words):
            differing = segment.fingerprints[met, word] ^ fingerprints[rows, word]
            distances += np.bitwise_count(differing)
            kept = np.flatnonzero(distances <= limit)
            if len(kept) < len(rows):
                rows, met, distances = rows[kept], met[kept], distances[kept]
        live = self._visible[segment.slots[met]]
        rows, met, distances = rows[live], met[live], distances[live]
        return Pairs(rows, distances, segment.sequences[met], segment.slots[met])

    def _sorted(self, found: list[Pairs]) -> Pairs:
        """Join pairs, sort them, and keep each once: a document may share several blocks."""
        if not found:
            empty = np.empty(0, dtype=np.intp)
            return Pairs(
                empty, empty.astype(np.uint16), empty.astype(np.uint64), empty.astype(np.uint16)
            )
        rows, distances, sequences, slots = map(np.concatenate, zip(*found, strict=True))
        if len(rows) > 1:
            order = np.lexsort((sequences, distances, rows))
            rows, distances = rows[order], distances[order]
            sequences, slots = sequences[order], slots[order]
            first = np.ones(len(rows), dtype=np.bool_)
            first[1:] = (rows[1:] != rows[:-1]) | (sequences[1:] != sequences[:-1])
            rows, distances = rows[first], distances[first]
            sequences, slots = sequences[first], slots[first]
        return Pairs(rows, distances, sequences, slots)


def _distances(
    fingerprints: NDArray[np.uint64], fingerprint: NDArray[np.uint64]
) -> NDArray[np.uint16]:
    summed: NDArray[np.uint16] = np.bitwise_count(fingerprints ^ fingerprint).sum(
        axis=1, dtype=np.uint16
    )
    return summed


def _magnitude(documents: int) -> int:
    """Return how often memtables have been merged, about, to make a segment of this size."""
    magnitude = 0
    while documents >= MEMTABLE_DOCUMENTS * _MERGED_SEGMENTS:
        documents //= _MERGED_SEGMENTS
        magnitude += 1
    return magnitude
