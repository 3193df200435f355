"""Documents by bucket: a memtable of new ones, and sorted segments.

A new document goes into the memtable, which is compared whole: for a few hundred documents that is
cheaper than buckets. A full memtable becomes a segment; four segments of about one size become one.
So each document is sorted a few times in all, and a look-up visits few segments. Segments from
files (``attach``) are never merged here.

One index serves all shards of a worker, so a look-up costs the same for one shard and for many. The
*slot* of a row names the shard that was opened. A mask hides rows that expired, were removed or
belong to a dropped slot, until their segment is merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.hot_buckets import BYTE_WORDS
from simhash_core.index.memtable import Memtable, Rows, joined
from simhash_core.index.pairs import Pairs, near_rows, sorted_pairs
from simhash_core.index.prints import Prints, bucket_values, shared
from simhash_core.index.segment import Candidates, KeptSegment, Segment, build_segment, question

# ---- Look-ups in the memtable and the segments of one moment.


_COMPARED_ROWS: Final = 256  # documents compared with the memtable at once


class Seen(NamedTuple):
    scheme: BlockScheme
    window_ms: int | None
    visible: NDArray[np.bool_]  # (slots,)
    memtable: Rows
    segments: Sequence[KeptSegment]


class BucketCounts(NamedTuple):
    candidates: int  # documents that share a bucket
    fullest: int  # documents in the fullest bucket


def pairs_in_memtable(seen: Seen, prints: Prints) -> Iterator[Pairs]:
    """Yield pairs with the documents in the memtable, which is compared whole."""
    part = seen.memtable
    if not part.documents:
        return
    for first in range(0, prints.documents, _COMPARED_ROWS):
        chunk = prints.take(slice(first, first + _COMPARED_ROWS))
        rows, others, distances = near_rows(seen.scheme, chunk, part.prints)
        live = seen.visible[part.slots[others]]
        live &= _in_window(seen.window_ms, chunk.times_ms[rows], part.prints.times_ms, others)
        rows, others, distances = rows[live], others[live], distances[live]
        yield Pairs(rows + first, distances, part.sequences[others], part.slots[others])


def pairs_of(seen: Seen, kept: KeptSegment, candidates: Candidates, prints: Prints) -> Pairs:
    segment = kept.segment
    differing = segment.fingerprints.take(candidates.rows, axis=0)
    differing ^= prints.fingerprints.take(candidates.documents, axis=0)
    ones = np.bitwise_count(differing)
    of_some = ones[:, 0].copy()
    for word in range(1, min(ones.shape[1], BYTE_WORDS)):
        of_some += ones[:, word]
    near = np.flatnonzero(of_some <= seen.scheme.distance)
    distances = ones[near].sum(axis=1, dtype=np.uint16)
    within = distances <= seen.scheme.distance
    near, distances = near[within], distances[within]
    documents, rows = candidates.documents[near], candidates.rows[near]
    slots = segment.slots[rows]
    live = seen.visible[slots] & kept.shown(rows)
    live &= _in_window(seen.window_ms, prints.times_ms[documents], segment.times_ms, rows)
    documents, rows = documents[live], rows[live]
    return Pairs(documents, distances[live], segment.sequences.take(rows), slots[live])


def bucket_counts(seen: Seen, prints: Prints) -> BucketCounts:
    """``prints`` has one document."""
    sizes = np.zeros(seen.scheme.all_buckets, dtype=np.intp)
    for _, columns, _ in _candidates(seen, prints):
        sizes += np.bincount(columns, minlength=len(sizes))
    return BucketCounts(int(sizes.sum()), int(sizes.max(initial=0)))


def nearest(seen: Seen, prints: Prints, limit: int) -> Pairs:
    """Return the nearest documents that share a bucket with one, at any distance."""
    parts = []
    for part, _, candidates in _candidates(seen, prints):
        rows = np.unique(candidates)
        fingerprints = part.prints.fingerprints if isinstance(part, Rows) else part.fingerprints
        distances = np.bitwise_count(fingerprints[rows] ^ prints.fingerprints[:1]).sum(
            axis=1, dtype=np.uint16
        )
        nearest = np.argsort(distances, kind="stable")[: 2 * limit]
        kept = rows[nearest]
        sequences = part.sequences[kept] if isinstance(part, Rows) else part.sequences.take(kept)
        zeros = np.zeros(len(nearest), dtype=np.intp)
        parts.append(Pairs(zeros, distances[nearest], sequences, part.slots[kept]))
    return sorted_pairs(parts).take(slice(limit))


def _candidates(
    seen: Seen, prints: Prints
) -> Iterator[tuple[Segment | Rows, NDArray[np.intp], NDArray[np.intp]]]:
    """Yield what shares a bucket with one document: a part, its bucket columns, its rows."""
    looked_up = question(seen.scheme, prints)
    part = seen.memtable
    if part.documents:
        theirs = bucket_values(seen.scheme, part.prints)
        rows, columns = np.nonzero(shared(seen.scheme, looked_up.values, theirs))
        live = seen.visible[part.slots[rows]]
        yield part, columns[live], rows[live]
    for kept in seen.segments:
        for candidates in kept.segment.candidates(looked_up, within=False):
            live = seen.visible[kept.segment.slots[candidates.rows]] & kept.shown(candidates.rows)
            yield kept.segment, candidates.columns[live], candidates.rows[live].astype(np.intp)


def _in_window(
    window_ms: int | None,
    times_ms: NDArray[np.int64],
    others_ms: NDArray[np.int64],
    rows: NDArray[np.intp] | NDArray[np.uint32],
) -> NDArray[np.bool_] | np.bool_:
    """Return which documents are near in time; ``rows`` are those of ``others_ms``."""
    if window_ms is None:
        return np.True_
    within: NDArray[np.bool_] = np.abs(times_ms - others_ms[rows]) <= window_ms
    return within


MEMTABLE_DOCUMENTS: Final = 512
SEGMENT_DOCUMENTS_LIMIT: Final = 1 << 20  # merging them takes seconds and 300 MB of memory
SLOTS_LIMIT: Final = 1 << 16

_MERGED_SEGMENTS: Final = 4


class SegmentMerge:
    """Segments that should become one, as they are now; ``build`` may run in another thread."""

    def __init__(
        self,
        scheme: BlockScheme,
        segments: Sequence[KeptSegment],
        live: Sequence[NDArray[np.bool_]],
    ) -> None:
        """``live`` says for each segment which rows are to stay."""
        self.segments = segments
        self._scheme = scheme
        self._live = live

    def build(self) -> Segment | None:
        """Return the merged segment, or None if no row is live."""
        rows = zip((each.segment.rows() for each in self.segments), self._live, strict=True)
        whole = joined([part.take(live) for part, live in rows])
        return build_segment(self._scheme, whole) if whole.documents else None

    def hide_what_is_gone(self, merged: KeptSegment) -> None:
        """Hide the rows that were hidden in the segments after this merge began."""
        for kept, live in zip(self.segments, self._live, strict=True):
            if kept.hidden is None:
                continue
            gone = np.flatnonzero(kept.hidden & live)
            slots = kept.segment.slots[gone]
            sequences = kept.segment.sequences.take(gone)
            for slot in np.unique(slots):
                rows = merged.segment.sequences.rows_of(sequences[slots == slot])
                merged.hide(rows[merged.segment.slots[rows] == slot])


class DocumentIndex:
    def __init__(self, scheme: BlockScheme, window_ms: int | None = None) -> None:
        """Documents are pairs only if their times are at most ``window_ms`` apart.

        Segments of up to ``inline_documents`` are merged at once, larger ones by whoever asks for
        ``next_merge``: by default none are larger.
        """
        self.inline_documents = SEGMENT_DOCUMENTS_LIMIT
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
        return sum(self._counts.values())

    def documents(self, slot: int) -> int:
        return self._counts.get(slot, 0)

    @property
    def segments(self) -> list[Segment]:
        return [each.segment for each in self._segments]

    def open_slot(self, *, visible: bool = True) -> int:
        """Return a slot that no row has; raises ``UsageError`` if all are taken."""
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
        self._visible[slot] = True

    def drop_slot(self, slot: int) -> None:
        self._live[slot] = self._visible[slot] = False
        self._counts.pop(slot, None)
        self._removed.pop(slot, None)

    def add(self, slot: int, sequences: NDArray[np.uint64], prints: Prints) -> None:
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
        """Remove all documents with lower sequence numbers; return how many were removed."""
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
        """Return the ``limit`` earliest documents of a slot from ``first`` to ``last``, sorted.

        They are to be written and attached. Attached segments are left out. Removals from now on
        are remembered until ``attach``.
        """
        self._removed[slot] = []
        parts = [self._memtable.rows(), *self._parts_in_memory(slot)]
        extracted = joined([_between(each, slot, first, last) for each in parts])
        return extracted.take(np.argsort(extracted.sequences, kind="stable")[:limit])

    def attach(self, slot: int, segment: Segment, first: int, last: int) -> None:
        """Replace the rows of a slot from sequence number ``first`` to ``last`` by a segment.

        It has all of these documents; those that were removed meanwhile are hidden.
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
        """Return the rows of attached segments from ``first`` to ``last``, to be merged into one.

        The rows are those of now, whenever and in whichever thread they are read.
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
        seen = self._seen()
        pairs = [*pairs_in_memtable(seen, prints)]
        if self._segments and prints.documents:
            looked_up = question(self.scheme, prints)
            for kept in self._segments:
                for candidates in kept.segment.candidates(looked_up, within=True):
                    self.candidates_seen += len(candidates.rows)
                    if len(candidates.rows):
                        pairs.append(pairs_of(seen, kept, candidates, prints))
        return sorted_pairs(pairs)

    def bucket_counts(self, prints: Prints) -> BucketCounts:
        return bucket_counts(self._seen(), prints)

    def nearest(self, prints: Prints, limit: int) -> Pairs:
        return nearest(self._seen(), prints, limit)

    def _seen(self) -> Seen:
        return Seen(
            self.scheme, self._window_ms, self._visible, self._memtable.rows(), self._segments
        )

    # ---- segments

    def _forget_dropped(self) -> None:
        """Rebuild segments that mostly have hidden rows."""
        memtable = self._memtable.rows()
        kept = memtable.live(self._live)
        if kept.documents < memtable.documents:
            self._memtable.clear()
            self._memtable.append(kept)
        self._segments = [each for each in self._segments if self._has_live_rows(each)]
        for each in list(self._segments):
            if self._is_mostly_hidden(each) and len(each.segment) <= self.inline_documents:
                self._merge_now([each])

    def _has_live_rows(self, kept: KeptSegment) -> bool:
        if kept.slot is not None:
            return bool(self._live[kept.slot]) and kept.left > 0
        return bool(self._live_rows(kept).any())

    def _is_mostly_hidden(self, kept: KeptSegment) -> bool:
        documents = len(kept.segment)
        if kept.slot is not None:
            return False
        if 2 * kept.left > documents and all(self._live[slot] for slot in kept.slots()):
            return False  # the usual case, without counting rows
        return 2 * int(np.count_nonzero(self._live_rows(kept))) <= documents

    def _live_rows(self, kept: KeptSegment) -> NDArray[np.bool_]:
        live: NDArray[np.bool_] = self._live[kept.segment.slots]
        return live if kept.hidden is None else live & ~kept.hidden

    def _live_part(self, kept: KeptSegment) -> Rows:
        return kept.segment.rows().take(self._live_rows(kept))

    def _seal(self, part: Rows) -> None:
        if not part.documents:
            return
        self._segments.append(KeptSegment(build_segment(self.scheme, part)))
        while (run := self._run_to_merge(len(self._segments))) and (
            _documents(run) <= self.inline_documents
        ):
            self._merge_now(run)

    def next_merge(self) -> SegmentMerge | None:
        """Return segments to be merged, if there are any; ``merged`` takes the result."""
        for each in self._segments:
            if self._is_mostly_hidden(each):
                return self._merge_of([each])
        for end in range(len(self._segments), 0, -1):
            if run := self._run_to_merge(end):
                return self._merge_of(run)
        return None

    def merged(self, merge: SegmentMerge, segment: Segment | None) -> None:
        """Replace the segments of a merge, unless one of them is gone by now."""
        if any(each not in self._segments for each in merge.segments):
            return
        first = self._segments.index(merge.segments[0])
        kept = [] if segment is None else [KeptSegment(segment)]
        for each in kept:
            merge.hide_what_is_gone(each)
        self._segments[first : first + len(merge.segments)] = kept

    def _merge_of(self, segments: Sequence[KeptSegment]) -> SegmentMerge:
        return SegmentMerge(self.scheme, segments, [self._live_rows(each) for each in segments])

    def _merge_now(self, segments: Sequence[KeptSegment]) -> None:
        merge = self._merge_of(segments)
        self.merged(merge, merge.build())

    def _run_to_merge(self, end: int) -> Sequence[KeptSegment]:
        """Return the segments before ``end`` that should become one, or none."""
        if not end:
            return []
        segments = self._segments
        size = _magnitude(len(segments[end - 1].segment))
        first = end
        while (
            first
            and segments[first - 1].slot is None
            and _magnitude(len(segments[first - 1].segment)) <= size
        ):
            first -= 1
        run = segments[first:end]
        is_one = len(run) >= _MERGED_SEGMENTS and _documents(run) <= SEGMENT_DOCUMENTS_LIMIT
        return run if is_one else []


def _documents(segments: Sequence[KeptSegment]) -> int:
    return sum(len(each.segment) for each in segments)


def _between(part: Rows, slot: int, first: int, last: int) -> Rows:
    sequences = part.sequences
    own = (sequences >= np.uint64(first)) & (sequences <= np.uint64(last))
    return part.take(own & (part.slots == slot))


def _magnitude(documents: int) -> int:
    """Return about how often memtables were merged to make a segment of this size."""
    magnitude = 0
    while documents >= MEMTABLE_DOCUMENTS * _MERGED_SEGMENTS:
        documents //= _MERGED_SEGMENTS
        magnitude += 1
    return magnitude
