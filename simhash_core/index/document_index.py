"""Documents by the buckets that they are in: a small table of new ones, and sorted segments.

A new document goes into the memtable, which is compared whole: with a few hundred documents that
costs less than buckets would. A full memtable becomes a segment; four segments of about one size
become one. So each document is sorted a few times in all, and a look-up visits few segments.
Segments that come from files (``attach``) are never merged with others here.

One index serves all shards of a worker, so that a look-up costs the same for one shard and for
many. Each row says by its *slot* which opening of a shard it belongs to; a shard that leaves is
dropped by its slot, and its rows go when their segment is merged. So do rows that were removed or
have expired; until then a mask hides them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.kept_segment import KeptSegment
from simhash_core.index.memtable import Memtable, Rows, joined
from simhash_core.index.pairs import Pairs, sorted_pairs
from simhash_core.index.prints import Prints
from simhash_core.index.searches import (
    BucketCounts,
    Seen,
    bucket_counts,
    nearest,
    pairs_in_memtable,
    pairs_of,
)
from simhash_core.index.segment import Segment, build_segment, question

MEMTABLE_DOCUMENTS: Final = 512
SEGMENT_DOCUMENTS_LIMIT: Final = 1 << 20
"""A merge takes some seconds at most, and 300 MB of memory."""
SLOTS_LIMIT: Final = 1 << 16

_MERGED_SEGMENTS: Final = 4


class DocumentIndex:
    """Documents by bucket; a look-up sees all that were added."""

    def __init__(self, scheme: BlockScheme, window_ms: int | None = None) -> None:
        """Begin empty. ``window_ms``: only documents whose times are within it are pairs."""
        self.scheme = scheme
        self._window_ms = window_ms
        self._segments: list[KeptSegment] = []
        self._memtable = Memtable(scheme, MEMTABLE_DOCUMENTS)
        self._live = np.zeros(SLOTS_LIMIT, dtype=np.bool_)
        self._visible = np.zeros(SLOTS_LIMIT, dtype=np.bool_)
        self._counts: dict[int, int] = {}
        self._removed: dict[int, list[NDArray[np.uint64]]] = {}
        self.candidates_seen = 0
        self.dropped_before = 0

    def __len__(self) -> int:
        """Return the number of documents of all open slots."""
        return sum(self._counts.values())

    def documents(self, slot: int) -> int:
        """Return the number of documents of one slot."""
        return self._counts.get(slot, 0)

    @property
    def segments(self) -> list[Segment]:
        """The segments, the earliest first."""
        return [each.segment for each in self._segments]

    # ---- shards

    def open_slot(self, *, visible: bool = True) -> int:
        """Return a slot that no row has. Raises ``UsageError`` where all are taken.

        Look-ups do not see the documents of a slot that is not visible, until ``show_slot``.
        """
        self._forget_dropped()
        used = set(np.unique(self._memtable.rows().slots).tolist())
        for each in self._segments:
            used |= each.slots()
        slot = next((s for s in range(SLOTS_LIMIT) if s not in used and s not in self._counts), -1)
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
        self._removed.pop(slot, None)

    # ---- documents come and go

    def add(self, slot: int, sequences: NDArray[np.uint64], prints: Prints) -> None:
        """Add documents of an open slot."""
        count = len(sequences)
        self._counts[slot] += count
        if not count:
            return
        part = Rows(sequences, np.full(count, slot, dtype=np.uint16), prints)
        if self._memtable.count + count < MEMTABLE_DOCUMENTS:
            self._memtable.append(part)
            return
        whole = joined([self._memtable.rows(), part]).live(self._live)
        self._memtable.clear()
        for first in range(0, whole.documents, SEGMENT_DOCUMENTS_LIMIT):
            self._seal(whole.take(slice(first, first + SEGMENT_DOCUMENTS_LIMIT)))

    def remove(self, slot: int, sequences: NDArray[np.uint64]) -> None:
        """Remove documents of an open slot by their sequence numbers; unknown ones are ignored."""
        if slot in self._removed:
            self._removed[slot].append(sequences)
        memtable = self._memtable.rows()
        gone = (memtable.slots == slot) & np.isin(memtable.sequences, sequences)
        if gone.any():
            self._memtable.clear()
            self._memtable.append(memtable.take(~gone))
        removed = int(np.count_nonzero(gone))
        for each in self._segments:
            if each.slot not in (None, slot):
                continue
            rows = each.segment.sequences.rows_of(sequences)
            removed += each.hide(rows[each.segment.slots[rows] == slot])
        self._counts[slot] -= removed

    def drop_before(self, sequence: int) -> int:
        """Remove all documents with lower sequence numbers; return how many were removed.

        Whole segments go at once; what is left of others when they are merged.
        """
        self.dropped_before = max(self.dropped_before, sequence)
        memtable = self._memtable.rows()
        kept = memtable.sequences >= np.uint64(sequence)
        dropped = [memtable.slots[~kept]]
        if not kept.all():
            self._memtable.clear()
            self._memtable.append(memtable.take(kept))
        for each in self._segments:
            rows = np.arange(each.segment.sequences.count_below(sequence))
            rows = rows[each.shown(rows)]
            each.hide(rows)
            dropped.append(each.segment.slots[rows])
        slots, counts = np.unique(np.concatenate(dropped), return_counts=True)
        removed = 0
        for slot, count in zip(slots.tolist(), counts.tolist(), strict=True):
            if slot in self._counts:
                self._counts[slot] -= count
                removed += count
        self._forget_dropped()
        return removed

    def extract(self, slot: int, first: int, last: int, limit: int) -> Rows:
        """Return the documents of an open slot from ``first`` to ``last``, for ``attach``.

        Sorted, ``limit`` at most, the earliest; those of segments from files are left out. What is
        removed from now on is kept in mind until the segment comes.
        """
        self._removed[slot] = []
        parts = [self._memtable.rows(), *self._parts_in_memory(slot)]
        extracted = joined([_between(each, slot, first, last) for each in parts])
        return extracted.take(np.argsort(extracted.sequences, kind="stable")[:limit])

    def attach(self, slot: int, segment: Segment, first: int, last: int) -> None:
        """Take in a segment of one open slot, instead of its rows from ``first`` to ``last``.

        ``first``, ``last``: sequence numbers; the segment has all documents of the slot between
        them, but for those that were removed meanwhile, which are hidden.
        """
        low, high = np.uint64(first), np.uint64(last)
        for each in self._segments:
            if each.slot not in (None, slot):
                continue
            start, stop = (each.segment.sequences.count_below(at) for at in (first, last + 1))
            rows = np.arange(start, stop)
            self._counts[slot] -= each.hide(rows[each.segment.slots[start:stop] == slot])
        memtable = self._memtable.rows()
        covered = (memtable.sequences >= low) & (memtable.sequences <= high)
        covered &= memtable.slots == slot
        if covered.any():
            self._counts[slot] -= int(np.count_nonzero(covered))
            self._memtable.clear()
            self._memtable.append(memtable.take(~covered))
        kept = KeptSegment(segment, slot)
        self._counts[slot] += len(segment)
        removed = [segment.sequences.rows_of(each) for each in self._removed.pop(slot, [])]
        removed.append(np.arange(segment.sequences.count_below(self.dropped_before)))
        self._counts[slot] -= kept.hide(np.concatenate(removed))
        self._segments.insert(0, kept)
        self._forget_dropped()

    def documents_in_memory(self, slot: int) -> int:
        """Return the number of documents of a slot that are in no attached segment."""
        attached = sum(each.left for each in self._segments if each.slot == slot)
        return self.documents(slot) - attached

    def live_rows(self, slot: int, first: int, last: int) -> Iterator[Rows]:
        """Return what is left of attached segments, for one to take their place (``attach``).

        ``first``, ``last``: sequence numbers between which the segments are. What is yielded is as
        of now, whenever it is asked for, and from any thread.
        """
        self._removed[slot] = []
        kept = [
            (each.segment, None if each.hidden is None else ~each.hidden)
            for each in self._segments
            if each.slot == slot and each.segment.sequences.is_between(first, last)
        ]
        return (
            segment.rows() if shown is None else segment.rows().take(shown)
            for segment, shown in kept
        )

    def _parts_in_memory(self, slot: int) -> Iterator[Rows]:
        for each in self._segments:
            if each.slot is None and slot in each.slots():
                yield self._live_part(each)

    # ---- look-ups

    def pairs(self, prints: Prints) -> Pairs:
        """Return which documents of the index share a bucket and are within the distance."""
        seen = self._seen()
        pairs = [*pairs_in_memtable(seen, prints)]
        if self._segments and prints.documents:
            looked_up = question(self.scheme, prints)
            for kept in self._segments:
                for candidates in kept.segment.candidates(looked_up, within=True):
                    self.candidates_seen += len(candidates.rows)
                    pairs.append(pairs_of(seen, kept, candidates, prints))
        return sorted_pairs(pairs)

    def bucket_counts(self, prints: Prints) -> BucketCounts:
        """Return how many documents share a bucket with one, the only one of ``prints``."""
        return bucket_counts(self._seen(), prints)

    def nearest(self, prints: Prints, limit: int) -> Pairs:
        """Return the ``limit`` nearest documents that share a bucket with one, however far."""
        return nearest(self._seen(), prints, limit)

    def _seen(self) -> Seen:
        return Seen(
            self.scheme, self._window_ms, self._visible, self._memtable.rows(), self._segments
        )

    # ---- segments

    def _forget_dropped(self) -> None:
        """Rebuild what holds mostly rows that nobody is to see any more."""
        memtable = self._memtable.rows()
        kept = memtable.live(self._live)
        if kept.documents < memtable.documents:
            self._memtable.clear()
            self._memtable.append(kept)
        segments, self._segments = self._segments, []
        for each in segments:
            if each.slot is not None:
                if self._live[each.slot] and each.left:
                    self._segments.append(each)
                continue
            live = int(np.count_nonzero(self._live_rows(each)))
            if 2 * live > len(each.segment):
                self._segments.append(each)
            elif live:
                self._segments.append(
                    KeptSegment(build_segment(self.scheme, self._live_part(each)))
                )

    def _live_rows(self, kept: KeptSegment) -> NDArray[np.bool_]:
        live: NDArray[np.bool_] = self._live[kept.segment.slots]
        return live if kept.hidden is None else live & ~kept.hidden

    def _live_part(self, kept: KeptSegment) -> Rows:
        return kept.segment.rows().take(self._live_rows(kept))

    def _seal(self, part: Rows) -> None:
        if not part.documents:
            return
        self._segments.append(KeptSegment(build_segment(self.scheme, part)))
        while (first := self._first_to_merge()) is not None:
            merged = self._segments[first:]
            whole = joined([self._live_part(each) for each in merged])
            self._segments[first:] = (
                [KeptSegment(build_segment(self.scheme, whole))] if whole.documents else []
            )

    def _first_to_merge(self) -> int | None:
        """Return from which segment on they are to become one; None: none are."""
        segments = self._segments
        if not segments:
            return None
        size = _magnitude(len(segments[-1].segment))
        first = len(segments)
        while (
            first
            and segments[first - 1].slot is None
            and _magnitude(len(segments[first - 1].segment)) <= size
        ):
            first -= 1
        run = segments[first:]
        documents = sum(len(each.segment) for each in run)
        if len(run) < _MERGED_SEGMENTS or documents > SEGMENT_DOCUMENTS_LIMIT:
            return None
        return first


def _between(part: Rows, slot: int, first: int, last: int) -> Rows:
    """Return the documents of one slot from one sequence number to another."""
    sequences = part.sequences
    own = (sequences >= np.uint64(first)) & (sequences <= np.uint64(last))
    return part.take(own & (part.slots == slot))


def _magnitude(documents: int) -> int:
    """Return how often memtables have been merged, about, to make a segment of this size."""
    magnitude = 0
    while documents >= MEMTABLE_DOCUMENTS * _MERGED_SEGMENTS:
        documents //= _MERGED_SEGMENTS
        magnitude += 1
    return magnitude
