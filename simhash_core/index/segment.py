"""A segment: documents in the order of the log and their sorted buckets. It never changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError
from simhash_core.fingerprints.bands import NO_BAND
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import (
    BucketColumns,
    BucketQuery,
    Steps,
    build_columns,
    fingerprint_tags,
    spread,
)
from simhash_core.index.hot_buckets import HotBuckets, find_hot
from simhash_core.index.prints import Prints, Rows, block_values, bucket_values

CANDIDATES_LIMIT: Final = 1 << 21  # in memory at once; full buckets make the batches smaller
_CHUNK: Final = 65_536  # fingerprints whose blocks are computed at once, to bound the memory
_INDEX_BITS: Final = np.uint64(16)
_INDEX_MASK: Final = np.uint64(0xFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class SequenceColumn:
    """Sequence numbers in rising order, in two bytes each; equal ones may be adjacent.

    The documents of one packet are adjacent, so its offset is kept once.
    """

    indexes: NDArray[np.uint16]  # (documents,), the last 16 bits of each
    firsts: NDArray[np.uint32]  # (packets,), the row of the first document of each
    packets: NDArray[np.uint64]  # (packets,), the bits before the last 16

    def __len__(self) -> int:
        return len(self.indexes)

    @classmethod
    def of(cls, sequences: NDArray[np.uint64]) -> SequenceColumn:
        """Pack sorted sequence numbers, uint64 (documents,)."""
        packets = sequences >> _INDEX_BITS
        is_first = np.ones(len(packets), dtype=np.bool_)
        np.not_equal(packets[1:], packets[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        indexes = (sequences & _INDEX_MASK).astype(np.uint16)
        return cls(indexes, firsts.astype(np.uint32), packets[firsts])

    def take(self, rows: NDArray[np.intp] | NDArray[np.uint32]) -> NDArray[np.uint64]:
        packet = np.searchsorted(self.firsts, rows.astype(np.uint32), side="right") - 1
        sequences: NDArray[np.uint64] = self.packets[packet] << _INDEX_BITS | self.indexes[rows]
        return sequences

    def all(self) -> NDArray[np.uint64]:
        ends = np.append(self.firsts[1:], np.uint32(len(self.indexes)))
        packets = np.repeat(self.packets, ends - self.firsts)
        whole: NDArray[np.uint64] = packets << _INDEX_BITS | self.indexes
        return whole

    def count_below(self, sequence: int) -> int:
        """Return how many sequence numbers are lower; this is the first row that is not lower."""
        packet = np.uint64(sequence >> 16)
        at = int(np.searchsorted(self.packets, packet))
        if at == len(self.packets):
            return len(self.indexes)
        start = int(self.firsts[at])
        if self.packets[at] != packet:
            return start
        stop = int(self.firsts[at + 1]) if at + 1 < len(self.firsts) else len(self.indexes)
        own = self.indexes[start:stop]
        return start + int(np.searchsorted(own, np.uint16(sequence & 0xFFFF)))

    def rows_of(self, sequences: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the rows that have one of some sequence numbers, in order."""
        wanted = np.unique(sequences)
        packets = wanted >> _INDEX_BITS
        first = np.searchsorted(self.packets, packets)
        last = np.searchsorted(self.packets, packets, side="right")
        bounds = np.append(self.firsts, np.uint32(len(self))).astype(np.intp)
        of, rows = spread(bounds[first], bounds[last] - bounds[first])
        matching: NDArray[np.intp] = rows[self.indexes[rows] == wanted[of] & _INDEX_MASK]
        return matching


class Question(NamedTuple):
    """A packet prepared for all segments; ``values`` and ``tags`` are those of ``BucketQuery``."""

    prints: Prints
    values: NDArray[np.uint32]
    tags: NDArray[np.uint16]


SLOT_NUMBERS: Final = 1 << 16
NO_SLOT: Final = SLOT_NUMBERS - 1
"""The slot of rows whose shard is not open here: no look-up returns them."""

_EVERY_SLOT: Final = np.arange(SLOT_NUMBERS, dtype=np.uint16)
_EVERY_SLOT.flags.writeable = False


class SlotColumn(NamedTuple):
    """The slot of each row: a row has the number of its shard, and ``slots`` maps it to a slot."""

    shards: NDArray[np.uint16]  # (documents,), numbers of shards of this segment
    slots: NDArray[np.uint16]  # of each shard; they change as shards of a file open and close

    @classmethod
    def of(cls, slots: NDArray[np.uint16]) -> SlotColumn:
        """Return the column of rows that keep their slots."""
        return cls(slots, _EVERY_SLOT)

    def take(self, rows: slice | NDArray[np.intp] | NDArray[np.uint32]) -> NDArray[np.uint16]:
        slots: NDArray[np.uint16] = self.slots[self.shards[rows]]
        return slots


class Candidates(NamedTuple):
    documents: NDArray[np.intp]  # that were looked up
    columns: NDArray[np.intp]  # of the shared bucket
    rows: NDArray[np.uint32]


def _runs(lengths: NDArray[np.intp], a_document: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of documents whose candidates are few enough to be in memory at once.

    ``lengths`` has ``a_document`` ranges for each document. A single document may have more
    candidates.
    """
    candidates, documents = int(lengths.sum()), len(lengths) // a_document
    if candidates <= CANDIDATES_LIMIT:
        if candidates:
            yield 0, documents
        return
    ends = lengths.reshape(-1, a_document).sum(axis=1).cumsum()
    document = 0
    while document < documents:
        before = int(ends[document - 1]) if document else 0
        last = int(ends.searchsorted(before + CANDIDATES_LIMIT, side="right"))
        last = max(last, document + 1)
        yield document, last
        document = last


def question(scheme: BlockScheme, prints: Prints) -> Question:
    values = bucket_values(scheme, prints)
    return Question(prints, values, fingerprint_tags(scheme, prints.fingerprints))


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    scheme: BlockScheme
    sequences: SequenceColumn
    slots: SlotColumn
    fingerprints: NDArray[np.uint64]  # words (documents, bits / 64)
    times_ms: NDArray[np.int64]  # event times
    blocks: BucketColumns
    bands: BucketColumns
    hot: HotBuckets

    def __len__(self) -> int:
        return len(self.fingerprints)

    def rows(self) -> Steps[Rows]:
        bands = yield from self.bands.values(len(self))
        prints = Prints(np.asarray(self.fingerprints), bands, np.asarray(self.times_ms))
        return Rows(self.sequences.all(), self.slots.take(slice(None)), prints)

    def candidates(self, question: Question, *, within: bool) -> Iterator[Candidates]:
        """Yield candidates once per shared bucket; ``within`` may leave out those not near."""
        blocks = self.scheme.all_blocks
        yield from self._candidates(self.blocks, 0, question, slice(0, blocks), within=within)
        yield from self._candidates(
            self.bands, blocks, question, slice(blocks, None), within=within
        )

    def _candidates(
        self, buckets: BucketColumns, first: int, question: Question, own: slice, *, within: bool
    ) -> Iterator[Candidates]:
        columns = buckets.columns
        if not columns:
            return
        values = question.values[:, own]
        query, starts, lengths = buckets.search(BucketQuery(values, question.tags), within=within)
        if buckets is self.bands:
            lengths[query.values == NO_BAND] = 0
        ranges = len(lengths) // values.size if values.size else 1
        if within and len(self.hot):
            yield from self._hot(first, columns, question, values.reshape(-1), lengths)
        for document, last in _runs(lengths, columns * ranges):
            part = slice(document * columns * ranges, last * columns * ranges)
            of, rows = buckets.candidates(
                BucketQuery(query.values[part], query.tags[part]),
                starts[part],
                lengths[part],
                within=within,
            )
            if len(rows):
                of //= ranges
                yield Candidates(of // columns + document, of % columns + first, rows)

    def _hot(
        self,
        first: int,
        columns: int,
        question: Question,
        values: NDArray[np.uint32],
        lengths: NDArray[np.intp],
    ) -> Iterator[Candidates]:
        """Yield the candidates in overloaded buckets, and set the lengths of their ranges to 0."""
        ranges = lengths.reshape(len(values), -1)
        overloaded = int(np.diff(self.hot.bounds).min()) if ranges.shape[1] == 1 else 0
        indexes = np.flatnonzero(ranges[:, 0] >= overloaded)
        numbers = self.hot.numbers(indexes % columns + first, values[indexes])
        indexes, numbers = indexes[numbers >= 0], numbers[numbers >= 0]
        if not len(indexes):
            return
        # Where a range has several buckets, only the overloaded one is needed.
        ranges[indexes] = 0
        documents, of_columns = indexes // columns, indexes % columns + first
        fingerprints = question.prints.fingerprints[documents]
        for of, rows in self.hot.candidates(self.scheme, of_columns, numbers, fingerprints):
            yield Candidates(documents[of], of_columns[of], rows)


def build_segment(scheme: BlockScheme, part: Rows) -> Steps[Segment]:
    if np.any(part.sequences[1:] < part.sequences[:-1]):
        part = part.take(np.argsort(part.sequences, kind="stable"))
    prints = part.prints
    fingerprints = np.ascontiguousarray(prints.fingerprints)
    documents = part.documents
    values, tags = _values_by_block(scheme, fingerprints)
    blocks = yield from build_columns(
        scheme, scheme.block_bits, zip(values, tags, strict=True), scheme.all_blocks, documents
    )
    no_tags = np.empty(0, dtype=np.uint16)
    key_bits = scheme.sketch_bands.key_bits
    bands = yield from build_columns(
        scheme,
        key_bits,
        ((np.ascontiguousarray(keys), no_tags) for keys in prints.bands.T),
        scheme.bands,
        documents,
        sparse=True,
    )
    hot = find_hot(
        scheme,
        fingerprints,
        [(0, scheme.block_bits, blocks), (scheme.all_blocks, key_bits, bands)],
    )
    return Segment(
        scheme,
        SequenceColumn.of(part.sequences),
        SlotColumn.of(part.slots),
        fingerprints,
        prints.times_ms,
        blocks,
        bands,
        hot,
    )


def _values_by_block(
    scheme: BlockScheme, fingerprints: NDArray[np.uint64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Return block values and tags, both (blocks, documents)."""
    blocks, documents = scheme.all_blocks, len(fingerprints)
    values = np.empty((blocks, documents), dtype=np.uint32)
    as_bytes = fingerprints.view(np.uint8)
    for first in range(0, documents, _CHUNK):
        chunk = slice(first, first + _CHUNK)
        values[:, chunk] = block_values(scheme, as_bytes[chunk]).T
    tags = fingerprint_tags(scheme, fingerprints).T
    return values, tags if len(tags) else np.empty((blocks, 0), dtype=np.uint16)


Column = NDArray[np.unsignedinteger] | NDArray[np.int64]

# The columns of a stored segment, and the attributes that hold them.
_COLUMNS: Final[Mapping[str, str]] = {
    "sequence_indexes": "sequences.indexes",
    "sequence_firsts": "sequences.firsts",
    "sequence_packets": "sequences.packets",
    "shards": "slots.shards",
    "fingerprints": "fingerprints",
    "times_ms": "times_ms",
    "block_rows": "blocks.rows",
    "block_directory": "blocks.directory",
    "block_tags": "blocks.tags",
    "band_rows": "bands.rows",
    "band_directory": "bands.directory",
    "band_tags": "bands.tags",
    "hot_buckets": "hot.buckets",
    "hot_bounds": "hot.bounds",
    "hot_rows": "hot.rows",
    "hot_slices": "hot.slice_keys",
    "hot_next_slices": "hot.next_slices",
    "hot_words": "hot.words",
}
COLUMNS: Final = tuple(_COLUMNS)


class Layout(NamedTuple):
    """Numbers that the columns do not contain: rows, and the values of ``BucketColumns``."""

    shards: int
    documents: int
    block_shift: int
    band_shift: int
    tag_distance: int
    range_tag_bits: int


def columns_of(
    segment: Segment, *, with_times: bool, shards: int = 1
) -> tuple[Layout, dict[str, Column]]:
    """Return a segment as columns; its slots are the numbers of its ``shards``, from 0 on.

    Times are included only if there is a window, and shard numbers only if there are several
    shards.
    """
    columns: dict[str, Column] = {
        name: attrgetter(attribute)(segment) for name, attribute in _COLUMNS.items()
    }
    if not with_times:
        columns["times_ms"] = np.empty(0, dtype=np.int64)
    if shards == 1:
        columns["shards"] = segment.slots.shards[:0]
    blocks, bands = segment.blocks, segment.bands
    layout = Layout(
        shards, len(segment), blocks.shift, bands.shift, blocks.distance, blocks.range_tag_bits
    )
    return layout, columns


def segment_of(scheme: BlockScheme, layout: Layout, columns: Mapping[str, Column]) -> Segment:
    """Return a segment whose shards have no slot yet.

    Raises ``UsageError`` for columns of another scheme.
    """
    if set(columns) != set(COLUMNS):
        raise UsageError(f"a segment has the columns {', '.join(COLUMNS)}")
    documents = layout.documents
    all_columns: dict[str, NDArray] = dict(columns)  # type: ignore[type-arg]
    if all_columns["fingerprints"].shape != (documents, scheme.words):
        raise UsageError(
            f"fingerprints of {documents} documents: {all_columns['fingerprints'].shape}"
        )
    for kind, buckets in (("block", scheme.all_blocks), ("band", scheme.bands)):
        if len(all_columns[f"{kind}_rows"]) != buckets * documents:
            raise UsageError(f"{kind}_rows: {documents} documents in {buckets} columns")
    times, shards = all_columns["times_ms"], all_columns["shards"]
    if layout.shards == 1:
        shards = np.broadcast_to(np.uint16(0), (documents,))
    if len(shards) != documents or shards.max(initial=0) >= layout.shards:
        raise UsageError(f"shards: {documents} documents of {layout.shards} shards")
    sequences, blocks, bands, hot = (
        [all_columns[name] for name in COLUMNS if name.startswith(part)]
        for part in ("sequence_", "block_", "band_", "hot_")
    )
    tags = layout.tag_distance, layout.range_tag_bits
    return Segment(
        scheme,
        SequenceColumn(*sequences),
        SlotColumn(shards, np.full(layout.shards, NO_SLOT, dtype=np.uint16)),
        all_columns["fingerprints"],
        times if len(times) else np.broadcast_to(np.int64(0), (documents,)),
        BucketColumns(layout.block_shift, scheme.all_blocks, *tags, *blocks),
        BucketColumns(layout.band_shift, scheme.bands, -1, 0, *bands),
        HotBuckets(*hot),
    )


class KeptSegment:
    """A segment in an index, and which of its rows are hidden.

    A segment from a file shows only the rows of shards that claimed it.
    """

    def __init__(self, segment: Segment, *, is_filed: bool = False) -> None:
        self.segment = segment
        self.is_filed = is_filed
        self.is_in_use = False  # a file is being written from it
        self.hidden: NDArray[np.bool_] | None = None
        self._left = len(segment)
        self._claimed: dict[int, int] = {}  # visible rows, by number of the shard
        self._slots: set[int] | None = None
        if is_filed:
            segment.slots.slots[:] = NO_SLOT

    @property
    def left(self) -> int:
        """The number of visible rows; of a file, those of its shards that are open."""
        return sum(self._claimed.values()) if self.is_filed else self._left

    def slots(self) -> set[int]:
        if self.is_filed:
            return set(self.segment.slots.slots[[*self._claimed]].tolist())
        if self._slots is None:
            self._slots = set(np.unique(self.segment.slots.shards).tolist())
        return self._slots

    def claim(self, shard: int, slot: int, ranges: Iterable[tuple[int, int]]) -> None:
        """Show a shard's rows in some ranges of sequence numbers."""
        own = self.segment.slots.shards == shard
        shown = np.zeros(len(own), dtype=np.bool_)
        for first, last in ranges:
            rows = slice(*(self.segment.sequences.count_below(at) for at in (first, last + 1)))
            shown[rows] = own[rows]
        own &= ~shown
        if self.hidden is not None:
            self.hidden[shown] = False
            self.hidden[own] = True
        elif own.any():
            self.hidden = own
        self.give(shard, slot, int(np.count_nonzero(shown)))

    def give(self, shard: int, slot: int, documents: int) -> None:
        """Give a slot to a shard of the file; all its rows but ``documents`` are hidden."""
        self._claimed[shard] = documents
        self.segment.slots.slots[shard] = slot

    def release(self, slot: int) -> None:
        slots = self.segment.slots.slots
        for shard in [each for each in self._claimed if slots[each] == slot]:
            slots[shard] = NO_SLOT
            del self._claimed[shard]

    def hide(self, rows: NDArray[np.intp]) -> int:
        """Hide rows; return how many were not hidden before."""
        if not len(rows):
            return 0
        if self.hidden is None:
            self.hidden = np.zeros(len(self.segment), dtype=np.bool_)
        fresh = np.unique(rows[~self.hidden[rows]])
        self.hidden[fresh] = True
        self._left -= len(fresh)
        if self.is_filed:
            shards, counts = np.unique(self.segment.slots.shards[fresh], return_counts=True)
            for shard, count in zip(shards.tolist(), counts.tolist(), strict=True):
                if shard in self._claimed:
                    self._claimed[shard] -= count
        return len(fresh)

    def hide_all(self, rows: NDArray[np.bool_]) -> None:
        """Hide the masked rows of a segment in memory."""
        hidden = rows if self.hidden is None else self.hidden | rows
        self._left = len(hidden) - int(np.count_nonzero(hidden))
        self.hidden = hidden

    def shown(self, rows: NDArray[np.intp] | NDArray[np.uint32]) -> NDArray[np.bool_]:
        if self.hidden is None:
            return np.ones(len(rows), dtype=np.bool_)
        shown: NDArray[np.bool_] = ~self.hidden[rows]
        return shown
