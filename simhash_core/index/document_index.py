"""Documents by bucket: a memtable of new ones, and sorted segments.

A full memtable becomes a segment, and four segments of about the same size are merged; of large
ones, two. So each document is sorted only a few times in all, and a look-up reads few segments. If
segments are kept in files, the caller writes and merges these files (``filing``, ``filed``).

One index serves all shards of a worker, so a look-up costs the same for one shard and for many. The
*slot* of a row stands for the shard that was opened. A mask hides rows that expired, were removed
or belong to a dropped slot, until their segment is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import Steps, completed
from simhash_core.index.hot_buckets import BYTE_WORDS
from simhash_core.index.pairs import Pairs, near_rows, sorted_pairs
from simhash_core.index.prints import Prints, Rows, bucket_values, joined_rows, shared
from simhash_core.index.segment import (
    SLOT_NUMBERS,
    Candidates,
    KeptSegment,
    Question,
    Segment,
    build_segment,
    question,
)

_COMPARED_ROWS: Final = 256  # documents compared with the memtable at once
_MANY_CANDIDATES: Final = 1024  # are worth a mask, of at most so many bytes:
_SEEN_LIMIT: Final = 1 << 25


class BucketCounts(NamedTuple):
    candidates: int  # documents that share a bucket
    fullest: int  # documents in the fullest bucket


MEMTABLE_DOCUMENTS: Final = 512
SEGMENT_DOCUMENTS_LIMIT: Final = 1 << 20  # merging them takes seconds and 300 MB of memory
SLOTS_LIMIT: Final = SLOT_NUMBERS - 1  # the last number is ``NO_SLOT``

_MERGED_SEGMENTS: Final = 4
_LARGE_MAGNITUDE: Final = 3  # from 32,768 documents on, two segments are merged


LiveRows = Sequence[NDArray[np.bool_]]


class SegmentMerge:
    """Segments to merge, in their present state; another thread may take the steps."""

    def __init__(
        self, scheme: BlockScheme, segments: Sequence[KeptSegment], live: Callable[[], LiveRows]
    ) -> None:
        """``live`` returns for each segment which rows to keep."""
        self.segments = segments
        self._scheme = scheme
        self._find_live = live
        slots = ((each.segment.slots.slots, each.is_filed) for each in segments)
        # The slots of a segment in a file change as shards open and close.
        self._slots = [each.copy() if is_filed else each for each, is_filed in slots]

    @property
    def most_documents(self) -> int:
        """The number of documents to merge if all are live."""
        return _documents(self.segments)

    @cached_property
    def _live(self) -> LiveRows:
        return self._find_live()

    def rows(self) -> Steps[Rows]:
        parts = []
        for each, slots, live in zip(self.segments, self._slots, self._live, strict=True):
            rows = yield from each.segment.rows()
            rows = rows._replace(slots=slots[each.segment.slots.shards])
            parts.append(rows if live.all() else rows.take(live))
            yield
        return joined_rows(parts)

    def build(self) -> Steps[Segment | None]:
        """Return the merged segment, or None if no row is live."""
        whole = yield from self.rows()
        if not whole.documents:
            return None
        return (yield from build_segment(self._scheme, whole))

    def hide_dropped(self, merged: KeptSegment) -> None:
        """Hide the rows that were hidden in the segments since this merge began."""
        for kept, of, live in zip(self.segments, self._slots, self._live, strict=True):
            if kept.hidden is None:
                continue
            gone = np.flatnonzero(kept.hidden & live)
            slots = of[kept.segment.slots.shards[gone]]
            sequences = kept.segment.sequences.take(gone)
            for slot in np.unique(slots):
                rows = merged.segment.sequences.rows_of(sequences[slots == slot])
                merged.hide(rows[merged.segment.slots.take(rows) == slot])


class Filing(SegmentMerge):
    """Rows to write as one segment into a file."""

    last: NDArray[np.uint64] | None = None
    """The last sequence number of each slot that is in the file; None where files are merged."""

    @cached_property
    def documents(self) -> dict[int, int]:
        """The number of rows of each slot."""
        counts = np.zeros(SLOT_NUMBERS, dtype=np.intp)
        for each, of, live in zip(self.segments, self._slots, self._live, strict=True):
            counts += np.bincount(of[each.segment.slots.shards[live]], minlength=SLOT_NUMBERS)
        return {slot: int(counts[slot]) for slot in np.flatnonzero(counts).tolist()}

    def leave(self) -> None:
        """Hide the rows in memory that are now in the file."""
        for kept, live in zip(self.segments, self._live, strict=True):
            if not kept.is_filed:
                kept.hide_all(live)


class DocumentIndex:
    def __init__(self, scheme: BlockScheme, window_ms: int | None = None) -> None:
        """Documents are pairs only if their times are at most ``window_ms`` apart.

        Segments of up to ``inline_documents`` are merged at once. The caller of ``next_merge``
        merges larger ones; by default there are none.
        """
        self.inline_documents = SEGMENT_DOCUMENTS_LIMIT
        self.scheme = scheme
        self._window_ms = window_ms
        self._segments: list[KeptSegment] = []
        self._memtable = self._no_rows = Rows(
            np.empty(0, dtype=np.uint64),
            np.empty(0, dtype=np.uint16),
            Prints(
                np.empty((0, scheme.words), dtype=np.uint64),
                np.empty((0, scheme.bands), dtype=np.uint32),
                np.empty(0, dtype=np.int64),
            ),
        )
        self._live = np.zeros(SLOT_NUMBERS, dtype=np.bool_)
        self._visible = np.zeros(SLOT_NUMBERS, dtype=np.bool_)
        self._counts: dict[int, int] = {}
        self._filing: Filing | None = None
        self._filing_slots: set[int] = set()
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
        """Return a slot that is not used; raises ``UsageError`` if all are used."""
        self._forget_dropped()
        used = set(np.unique(self._memtable.slots).tolist())
        for each in self._segments:
            used |= each.slots()
        if self._filing is not None:
            used |= self._filing_slots
        slot = next((s for s in range(SLOTS_LIMIT) if s not in used and s not in self._counts), -1)
        if slot < 0:
            raise UsageError(f"an index holds at most {SLOTS_LIMIT} shards at a time")
        self._live[slot] = True
        self._visible[slot] = visible
        self._counts[slot] = 0
        return slot

    def show_slot(self, slot: int) -> None:
        self._visible[slot] = True

    def drop_slot(self, slot: int) -> None:
        self._live[slot] = self._visible[slot] = False
        self._counts.pop(slot, None)
        for each in self._segments:
            if each.is_filed:
                each.release(slot)

    def add(self, slot: int, sequences: NDArray[np.uint64], prints: Prints) -> None:
        count = len(sequences)
        self._counts[slot] += count
        if not count:
            return
        part = Rows(sequences, np.full(count, slot, dtype=np.uint16), prints)
        whole = joined_rows([self._memtable, part])
        if whole.documents < MEMTABLE_DOCUMENTS:
            self._memtable = whole
            return
        whole = whole.live(self._live)
        self._memtable = self._no_rows
        for first in range(0, whole.documents, SEGMENT_DOCUMENTS_LIMIT):
            self._seal(whole.take(slice(first, first + SEGMENT_DOCUMENTS_LIMIT)))

    def remove(self, slot: int, sequences: NDArray[np.uint64]) -> None:
        memtable = self._memtable
        gone = (memtable.slots == slot) & np.isin(memtable.sequences, sequences)
        if gone.any():
            self._memtable = memtable.take(~gone)
        removed = int(np.count_nonzero(gone))
        for each in self._segments:
            rows = each.segment.sequences.rows_of(sequences)
            removed += each.hide(rows[each.segment.slots.take(rows) == slot])
        self._counts[slot] -= removed

    def drop_before(self, sequence: int) -> None:
        """Remove all documents with lower sequence numbers."""
        self.dropped_before = max(self.dropped_before, sequence)
        kept = self._memtable.sequences >= np.uint64(sequence)
        dropped = [self._memtable.slots[~kept]]
        if not kept.all():
            self._memtable = self._memtable.take(kept)
        for each in self._segments:
            rows = np.arange(each.segment.sequences.count_below(sequence))
            rows = rows[each.shown(rows)]
            each.hide(rows)
            dropped.append(each.segment.slots.take(rows))
        slots, counts = np.unique(np.concatenate(dropped), return_counts=True)
        for slot, count in zip(slots.tolist(), counts.tolist(), strict=True):
            if slot in self._counts:
                self._counts[slot] -= count
        self._forget_dropped()

    # ---- segments in files

    @property
    def documents_in_memory(self) -> int:
        """The number of documents that are in no file."""
        return len(self) - sum(each.left for each in self._segments if each.is_filed)

    def claim(
        self, segment: Segment, shard: int, slot: int, ranges: Iterable[tuple[int, int]]
    ) -> None:
        """Assign the rows of a shard in a file to a slot, which has no rows in these ranges.

        ``shard`` is the number in the file. Look-ups never return rows outside ``ranges``, or rows
        of a shard that was not claimed.
        """
        kept = self._kept_file(segment)
        if kept is None:
            kept = KeptSegment(segment, is_filed=True)
            self._segments.insert(0, kept)
        before = kept.left
        kept.claim(shard, slot, ranges)
        kept.hide(self._expired_in(kept, slot))
        self._counts[slot] += kept.left - before

    def _expired_in(self, kept: KeptSegment, slot: int) -> NDArray[np.intp]:
        rows = np.arange(kept.segment.sequences.count_below(self.dropped_before))
        expired: NDArray[np.intp] = rows[kept.segment.slots.take(rows) == slot]
        return expired

    def _kept_file(self, segment: Segment) -> KeptSegment | None:
        return next((each for each in self._segments if each.segment is segment), None)

    def claimed(self, segment: Segment) -> tuple[int, set[int]]:
        """Return how many documents of a file are in the index, and in which slots."""
        kept = self._kept_file(segment)
        return (0, set()) if kept is None else (kept.left, kept.slots())

    def filing(
        self, ranges: Mapping[int, tuple[int, int]], least: int, limit: int
    ) -> Filing | None:
        """Return the rows in memory of some ranges of slots, if there are enough for a file.

        These are at most the ``limit`` earliest documents, complete up to some point in each slot.
        Rows of the memtable wait for a later file. ``end_filing`` must follow; there is one filing
        at a time.
        """
        first = np.full(SLOT_NUMBERS, np.iinfo(np.uint64).max, dtype=np.uint64)
        last = np.zeros(SLOT_NUMBERS, dtype=np.uint64)
        for slot, (start, end) in ranges.items():
            if start <= end:
                first[slot], last[slot] = start, end
        memtable = self._memtable
        np.minimum.at(last, memtable.slots, np.maximum(memtable.sequences, np.uint64(1)) - 1)
        parts = [each for each in self._segments if not each.is_filed]
        live = []
        for each in parts:
            sequences, slots = each.segment.sequences.all(), each.segment.slots.take(slice(None))
            live.append(self._live_rows(each))
            live[-1] &= (sequences >= first[slots]) & (sequences <= last[slots])
        documents = sum(int(np.count_nonzero(each)) for each in live)
        if documents < least:
            return None
        if documents > limit:
            taken = [
                part.segment.sequences.take(np.flatnonzero(rows))
                for part, rows in zip(parts, live, strict=True)
            ]
            end = np.partition(np.concatenate(taken), limit - 1)[limit - 1]
            np.minimum(last, end, out=last)
            for part, rows in zip(parts, live, strict=True):
                rows[part.segment.sequences.count_below(int(end) + 1) :] = False
        filing = self._begin_filing(parts, lambda: live)
        filing.last = last
        return filing

    def file_merge(self, segments: Iterable[Segment]) -> Filing:
        """Return files to merge into one; ``end_filing`` must follow."""
        parts = [kept for each in segments if (kept := self._kept_file(each)) is not None]
        as_now = [
            (each.segment.slots, None if each.hidden is None else each.hidden.copy())
            for each in parts
        ]
        live = [self._live[each.slots] for each, _ in as_now]  # by number of the shard

        def rows() -> LiveRows:  # perhaps in another thread: there may be millions
            found = zip(as_now, live, strict=True)
            return [
                own[slots.shards] if hidden is None else own[slots.shards] & ~hidden
                for (slots, hidden), own in found
            ]

        return self._begin_filing(parts, rows)

    def _begin_filing(self, parts: Sequence[KeptSegment], live: Callable[[], LiveRows]) -> Filing:
        if self._filing is not None:
            raise UsageError("only one segment file can be written at a time")
        for each in parts:
            each.is_in_use = True
        self._filing = Filing(self.scheme, parts, live)
        self._filing_slots = set().union(*(each.slots() for each in parts))
        return self._filing

    def filed(self, segment: Segment, shards: Mapping[int, int]) -> None:
        """Replace the rows of the filing by its file, whose numbers ``shards`` maps to slots.

        No other slot may have claimed rows of the merged files since the filing began.
        """
        filing = self._filing
        assert filing is not None
        kept = KeptSegment(segment, is_filed=True)
        for slot, shard in shards.items():
            if self._live[slot]:
                kept.give(shard, slot, filing.documents.get(slot, 0))
        filing.hide_dropped(kept)
        filing.leave()
        merged = [each for each in filing.segments if each.is_filed]
        self._segments = [kept, *(each for each in self._segments if each not in merged)]
        self.end_filing()

    def end_filing(self) -> None:
        """End the filing, if there is one; rows that are in no file stay in memory."""
        if self._filing is None:
            return
        for each in self._filing.segments:
            each.is_in_use = False
        self._filing = None
        self._forget_dropped()

    # ---- look-ups

    def pairs(self, prints: Prints, kept: Callable[[Pairs], Pairs] | None = None) -> Pairs:
        """Return the near pairs; ``kept`` may leave some of a part out before they are sorted."""
        pairs = [*self._pairs_in_memtable(prints)]
        if self._segments and prints.documents:
            looked_up = question(self.scheme, prints)
            for each in self._segments:
                pairs += [
                    self._pairs_in_segment(each, candidates, prints)
                    for candidates in self._candidates_within(each.segment, looked_up)
                    if len(candidates.rows)
                ]
        return sorted_pairs(pairs if kept is None else [*map(kept, pairs)])

    def _candidates_within(self, segment: Segment, looked_up: Question) -> Iterator[Candidates]:
        """Yield candidates; of those in several overloaded buckets, most are left out."""
        seen: NDArray[np.bool_] | None = None
        compared = looked_up.prints.documents * len(segment)
        for each in segment.candidates(looked_up, within=True):
            self.candidates_seen += len(each.rows)
            if len(each.rows) < _MANY_CANDIDATES or compared > _SEEN_LIMIT:
                yield each
                continue
            if seen is None:
                seen = np.zeros(compared, dtype=np.bool_)
            at = each.documents * len(segment) + each.rows
            new = np.flatnonzero(~seen[at])
            seen[at] = True
            yield Candidates(each.documents[new], each.columns[new], each.rows[new])

    def _pairs_in_memtable(self, prints: Prints) -> Iterator[Pairs]:
        """Yield pairs with the documents in the memtable, which is compared whole."""
        part = self._memtable
        if not part.documents:
            return
        for first in range(0, prints.documents, _COMPARED_ROWS):
            chunk = prints.take(slice(first, first + _COMPARED_ROWS))
            rows, others, distances = near_rows(self.scheme, chunk, part.prints)
            live = self._visible[part.slots[others]]
            live &= self._in_window(chunk.times_ms[rows], part.prints.times_ms, others)
            rows, others, distances = rows[live], others[live], distances[live]
            yield Pairs(rows + first, distances, part.sequences[others], part.slots[others])

    def _pairs_in_segment(self, kept: KeptSegment, candidates: Candidates, prints: Prints) -> Pairs:
        segment = kept.segment
        documents, rows = candidates.documents, candidates.rows
        differing = segment.fingerprints.take(rows, axis=0)
        differing ^= prints.fingerprints.take(documents, axis=0)
        ones = np.bitwise_count(differing)
        of_some = ones[:, 0].copy()
        for word in range(1, min(ones.shape[1], BYTE_WORDS)):
            of_some += ones[:, word]
        near = np.flatnonzero(of_some <= self.scheme.distance)
        distances = ones[near].sum(axis=1, dtype=np.uint16)
        within = distances <= self.scheme.distance
        near, distances = near[within], distances[within]
        documents, rows = documents[near], rows[near]
        slots = segment.slots.take(rows)
        live = self._visible[slots] & kept.shown(rows)
        live &= self._in_window(prints.times_ms[documents], segment.times_ms, rows)
        documents, rows = documents[live], rows[live]
        return Pairs(documents, distances[live], segment.sequences.take(rows), slots[live])

    def _in_window(
        self,
        times_ms: NDArray[np.int64],
        others_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | NDArray[np.uint32],
    ) -> NDArray[np.bool_] | np.bool_:
        """Return which documents are within the window; ``rows`` selects from ``others_ms``."""
        if self._window_ms is None:
            return np.True_
        within: NDArray[np.bool_] = np.abs(times_ms - others_ms[rows]) <= self._window_ms
        return within

    def bucket_counts(self, prints: Prints) -> BucketCounts:
        """Return the bucket counts of the one document in ``prints``."""
        sizes = np.zeros(self.scheme.all_buckets, dtype=np.intp)
        for _, columns, _ in self._candidates(prints):
            sizes += np.bincount(columns, minlength=len(sizes))
        return BucketCounts(int(sizes.sum()), int(sizes.max(initial=0)))

    def nearest(self, prints: Prints, limit: int) -> Pairs:
        """Return the nearest documents that share a bucket with one, at any distance."""
        parts = []
        for part, _, candidates in self._candidates(prints):
            rows = np.unique(candidates)
            fingerprints = part.prints.fingerprints if isinstance(part, Rows) else part.fingerprints
            differing = fingerprints[rows] ^ prints.fingerprints[:1]
            distances = np.bitwise_count(differing).sum(axis=1, dtype=np.uint16)
            nearest = np.argsort(distances, kind="stable")[: 2 * limit]
            rows, zeros = rows[nearest], np.zeros(len(nearest), dtype=np.intp)
            sequences, slots = part.sequences.take(rows), part.slots.take(rows)
            parts.append(Pairs(zeros, distances[nearest], sequences, slots))
        return sorted_pairs(parts).take(slice(limit))

    def _candidates(
        self, prints: Prints
    ) -> Iterator[tuple[Segment | Rows, NDArray[np.intp], NDArray[np.intp]]]:
        """Yield documents that share a bucket with one: a part, its bucket columns, its rows."""
        looked_up = question(self.scheme, prints)
        part = self._memtable
        if part.documents:
            theirs = bucket_values(self.scheme, part.prints)
            rows, columns = np.nonzero(shared(self.scheme, looked_up.values, theirs))
            live = self._visible[part.slots[rows]]
            yield part, columns[live], rows[live]
        for kept in self._segments:
            for candidates in kept.segment.candidates(looked_up, within=False):
                slots = kept.segment.slots.take(candidates.rows)
                live = self._visible[slots] & kept.shown(candidates.rows)
                yield kept.segment, candidates.columns[live], candidates.rows[live].astype(np.intp)

    # ---- segments

    def _forget_dropped(self) -> None:
        """Rebuild segments that mostly have hidden rows."""
        self._memtable = self._memtable.live(self._live)
        self._segments = [each for each in self._segments if self._has_live_rows(each)]
        for each in list(self._segments):
            if self._is_mostly_hidden(each) and len(each.segment) <= self.inline_documents:
                self._merge_now([each])

    def _has_live_rows(self, kept: KeptSegment) -> bool:
        if kept.is_in_use:
            return True
        return kept.left > 0 if kept.is_filed else bool(self._live_rows(kept).any())

    def _is_mostly_hidden(self, kept: KeptSegment) -> bool:
        documents = len(kept.segment)
        if kept.is_filed or kept.is_in_use:
            return False
        if 2 * kept.left > documents and all(self._live[slot] for slot in kept.slots()):
            return False  # the usual case, found without counting rows
        return 2 * int(np.count_nonzero(self._live_rows(kept))) <= documents

    def _live_rows(self, kept: KeptSegment) -> NDArray[np.bool_]:
        live: NDArray[np.bool_] = self._live[kept.segment.slots.take(slice(None))]
        return live if kept.hidden is None else live & ~kept.hidden

    def _seal(self, part: Rows) -> None:
        if not part.documents:
            return
        self._segments.append(KeptSegment(completed(build_segment(self.scheme, part))))
        while (run := self._run_to_merge(len(self._segments))) and (
            _documents(run) <= self.inline_documents
        ):
            self._merge_now(run)

    def next_merge(self) -> SegmentMerge | None:
        """Return segments to merge, or None; ``merged`` takes the result."""
        for each in self._segments:
            if self._is_mostly_hidden(each):
                return self._merge_of([each])
        for end in range(len(self._segments), 0, -1):
            if run := self._run_to_merge(end):
                return self._merge_of(run)
        return None

    def merged(self, merge: SegmentMerge, segment: Segment | None) -> None:
        """Replace the segments of a merge, unless one of them no longer exists."""
        if any(each not in self._segments for each in merge.segments):
            return
        first = self._segments.index(merge.segments[0])
        kept = [] if segment is None else [KeptSegment(segment)]
        for each in kept:
            merge.hide_dropped(each)
        self._segments[first : first + len(merge.segments)] = kept

    def _merge_of(self, segments: Sequence[KeptSegment]) -> SegmentMerge:
        live = [self._live_rows(each) for each in segments]
        return SegmentMerge(self.scheme, segments, lambda: live)

    def _merge_now(self, segments: Sequence[KeptSegment]) -> None:
        merge = self._merge_of(segments)
        self.merged(merge, completed(merge.build()))

    def _run_to_merge(self, end: int) -> Sequence[KeptSegment]:
        """Return the segments before ``end`` to merge into one, or none."""
        if not end:
            return []
        segments = self._segments
        size = _magnitude(len(segments[end - 1].segment))
        first = end
        while (
            first
            and not (segments[first - 1].is_filed or segments[first - 1].is_in_use)
            and _magnitude(len(segments[first - 1].segment)) <= size
        ):
            first -= 1
        run = segments[first:end]
        least = _MERGED_SEGMENTS if size < _LARGE_MAGNITUDE else 2
        is_one = len(run) >= least and _documents(run) <= SEGMENT_DOCUMENTS_LIMIT
        return run if is_one else []


def _documents(segments: Sequence[KeptSegment]) -> int:
    return sum(len(each.segment) for each in segments)


def _magnitude(documents: int) -> int:
    """Return about how often memtables were merged to make a segment of this size."""
    magnitude = 0
    while documents >= MEMTABLE_DOCUMENTS * _MERGED_SEGMENTS:
        documents //= _MERGED_SEGMENTS
        magnitude += 1
    return magnitude
