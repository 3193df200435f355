"""Segment files: look-ups say the same with and without them, and damage is made good."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index import document_index, hot_buckets
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import prints_of
from simhash_core.log.records import Chain, Packet, Progress, Sender
from simhash_core.log.shard_stream import NewEntries
from streams.store import compaction, recovery, shard_segments, shard_store
from streams.store.compaction import KeptShard, SegmentKeeper
from streams.store.recovery import fill_index, make_missing_files
from streams.store.rocksdb_store import MIB, block_cache
from streams.store.row_codec import StoredProgress, StoreIdentity
from streams.store.row_store import StoreClosedError
from streams.store.shard_directory import open_shard_store
from streams.store.shard_segments import (
    SegmentDamagedError,
    SegmentOwner,
    ShardSegments,
    WorkerSegments,
    check_columns,
    read_head,
    segment_paths,
    segments_directory,
)
from streams.store.shard_store import ShardStore

SCHEME: Final = BlockScheme(128, 4, 12, 16, bands=2)
CHAIN: Final = Chain("raw-documents", "", 3)
OWNER: Final = SegmentOwner("an index", "tests")
PARTITION: Final = 3
PACKET: Final = 50
WINDOW_MS: Final = 400

Found = list[tuple[int, int, int]]


def packet_of(number: int) -> Packet:
    """Fifty documents, copies of few, some without a sketch and one undecidable."""
    random = np.random.default_rng(number)
    drawn = np.random.default_rng(1)
    bases = drawn.integers(0, 2**64, (30, 2), dtype=np.uint64)
    flips = random.random((PACKET, 128)) < 0.05
    fingerprints = bases[random.integers(0, 30, PACKET)] ^ np.packbits(flips, axis=1).view("u8")
    undecidable = np.zeros(PACKET, dtype=np.uint8)
    undecidable[7] = 1
    keys = random.integers(1, 30, (PACKET, 2), dtype=np.uint32)
    columns = DocumentColumns(
        np.arange(number * PACKET, (number + 1) * PACKET, dtype=np.int64),
        1_000_000 + random.integers(0, 1_000, PACKET),
        BytesColumn.of([b"%d" % each for each in range(PACKET)]),
        random.integers(0, 256, (PACKET, 16), dtype=np.uint8),
        fingerprints,
        undecidable,
        BytesColumn.of(
            [b"" if row % 9 == 0 else b"x" + keys[row].tobytes() for row in range(PACKET)]
        ),
    )
    first = number * PACKET
    return Packet(CHAIN, Sender("a", number), first - 1, first + PACKET - 1, columns)


ASKED: Final = prints_of(SCHEME, packet_of(999).columns).take(np.arange(10))


def commit(store: ShardStore, packets: range, removed: tuple[int, ...] = ()) -> None:
    """Commit packets, each at the offset of the log that is its number, and deletions."""
    new = [NewEntries(each, packet_of(each), np.arange(PACKET)) for each in packets]
    progress = StoredProgress(Progress(CHAIN, packets.stop * PACKET, packets.stop, -1))
    store.write(store.change(new, removed), progress)


def looked_up(index: DocumentIndex) -> Found:
    """What a look-up of some documents meets."""
    rows, distances, sequences, _ = index.pairs(ASKED)
    return list(zip(rows.tolist(), distances.tolist(), sequences.tolist(), strict=True))


def scanned(store: ShardStore, window_ms: int | None = None) -> Found:
    """What it is to meet, from an index that has all in memory."""
    index = DocumentIndex(SCHEME, window_ms)
    slot = index.open_slot()
    for sequences, prints in store.prints(SCHEME.bands):
        index.add(slot, sequences, prints)
    return looked_up(index)


def files_in(
    store: ShardStore, owner: SegmentOwner = OWNER, window_ms: int | None = None
) -> WorkerSegments:
    with_times = window_ms is not None
    return WorkerSegments(segments_directory(store.path), owner, SCHEME, with_times=with_times)


class Opened:
    """An index that was filled from a store, as when its shard is opened."""

    def __init__(
        self, store: ShardStore, owner: SegmentOwner = OWNER, window_ms: int | None = None
    ) -> None:
        self.files = files_in(store, owner, window_ms)
        self.segments = ShardSegments(self.files, PARTITION)
        make_missing_files(store, self.segments)
        store.segments = self.segments
        self.index = DocumentIndex(SCHEME, window_ms)
        self.slot = self.index.open_slot()
        for _ in fill_index(self.index, self.slot, store):
            pass
        self.kept = KeptShard(self.slot, store, self.segments)
        self.keeper = SegmentKeeper(self.index)

    def put(self, packets: range) -> None:
        """Put packets into the index, as a worker does before they are committed."""
        for number in packets:
            new = NewEntries(number, packet_of(number), np.arange(PACKET))
            rows = np.flatnonzero(new.packet.columns.undecidable == 0)
            prints = prints_of(SCHEME, new.packet.columns, rows)
            self.index.add(self.slot, new.sequences[rows], prints)

    def remove(self, sequences: list[int]) -> None:
        self.index.remove(self.slot, np.array(sequences, dtype=np.uint64))

    def keep(self) -> bool:
        """Care for the files once; whether there was anything to do."""
        return asyncio.run(self.keeper.step(lambda: [self.kept]))


def check(index: DocumentIndex, store: ShardStore, window_ms: int | None = None) -> None:
    """Fail unless look-ups say the same as without files."""
    assert looked_up(index) == scanned(store, window_ms)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of few documents, and buckets that are soon overloaded."""
    for module in (recovery, compaction, shard_segments):
        monkeypatch.setattr(module, "FILE_DOCUMENTS", 200)
    for module in (recovery, compaction):
        monkeypatch.setattr(module, "documents_limit", lambda _scheme: 400)
    monkeypatch.setattr(shard_segments, "documents_limit", lambda _scheme: 2_000)
    monkeypatch.setattr(shard_store, "SCANNED_ROWS", 64)
    monkeypatch.setattr(shard_store, "_JOINED_SCANS", 1)
    monkeypatch.setattr(hot_buckets, "DOCUMENTS_MIN", 10)
    monkeypatch.setattr(document_index, "MEMTABLE_DOCUMENTS", 32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ShardStore]:
    owner = StoreIdentity("an index", "tests", 3)
    with closing(open_shard_store(tmp_path / "shard-3", owner, 128, block_cache(8 * MIB))) as found:
        yield found


def files_of(store: ShardStore) -> list[Path]:
    return segment_paths(segments_directory(store.path))


@pytest.mark.parametrize(("window_ms", "other_ms"), [(None, WINDOW_MS), (WINDOW_MS, None)])
def test_shard_is_opened_from_its_files(
    store: ShardStore, window_ms: int | None, other_ms: int | None
) -> None:
    """The files are not made again, except for an index that needs times in them or does not."""
    commit(store, range(19))
    shard = Opened(store, window_ms=window_ms)
    made = {each: each.stat().st_mtime_ns for each in files_of(store)}
    check(shard.index, store, window_ms)
    assert len(made) == len(shard.segments.claims) == 2
    in_memory = shard.index.documents_in_memory
    assert 0 < in_memory < shard.index.documents(shard.slot) == 19 * (PACKET - 1)
    check(Opened(store, window_ms=window_ms).index, store, window_ms)
    assert {each: each.stat().st_mtime_ns for each in files_of(store)} == made
    check(Opened(store, window_ms=other_ms).index, store, other_ms)


@pytest.mark.parametrize("at", [0, 3, 10, 40, 0.02, 0.3, 0.6, 0.9, 0.999])
def test_damaged_file_is_noticed_and_made_again(store: ShardStore, at: float) -> None:
    commit(store, range(23))
    Opened(store)
    first = files_of(store)[0]
    whole = first.read_bytes()
    place = at if isinstance(at, int) else int(at * len(whole))
    columns = read_head(first).columns
    sizes = [int(np.prod(each.shape)) * np.dtype(each.dtype).itemsize for each in columns]
    starts = [(each.start, each.start + size) for each, size in zip(columns, sizes, strict=True)]
    head_end = 20 + int.from_bytes(whole[8:12], "little")
    in_gap = place >= head_end and not any(start <= place < stop for start, stop in starts)
    flipped = bytearray(whole)
    flipped[place] ^= 0x10
    for damaged in (bytes(flipped), whole[: int(len(whole) * 0.7)]):
        first.write_bytes(damaged)
        if len(damaged) < len(whole) or not in_gap:
            with pytest.raises(SegmentDamagedError):
                check_columns(first, read_head(first))
        check(Opened(store).index, store)
    check_columns(first, read_head(first))


def test_files_of_others_are_not_used(store: ShardStore) -> None:
    """Of another index, half written, or with more than the store has, as after a restoration."""
    commit(store, range(23))
    Opened(store, SegmentOwner("another index", "tests"))
    shard = Opened(store)
    assert {read_head(each).owner for each in files_of(store)} == {OWNER}
    check(shard.index, store)

    filed = store.filed()
    left = segments_directory(store.path) / "left.writing"
    left.write_bytes(b"half")
    store.set_filed([*filed[:-1], filed[-1]._replace(last=2**40)])
    check(Opened(store).index, store)
    assert len(store.filed()) == len(filed)
    assert store.filed()[-1].last < 2**40
    assert not left.exists()


def test_deleted_entries_of_files_stay_deleted(store: ShardStore) -> None:
    """Nothing is kept of deletes once a file is made without the entries."""
    commit(store, range(23))
    Opened(store)
    gone = (2 << 16 | 3, *(5 << 16 | row for row in range(PACKET)), 22 << 16 | 4)
    commit(store, range(23, 24), gone)
    shard = Opened(store)
    check(shard.index, store)
    assert store.gone() == sorted(gone)
    commit(store, range(24, 60))
    shard.put(range(24, 60))
    while shard.keep():
        check(shard.index, store)
    assert store.gone() == []
    check(Opened(store).index, store)


def test_files_are_made_and_merged_while_documents_come_and_go(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Look-ups say the same all the time; what is removed while a file is written is not met."""
    shard = Opened(store)
    write = WorkerSegments.write
    removed: list[int] = []

    def write_slowly(self: WorkerSegments, *arguments: object) -> object:
        removed.append(len(removed) << 16 | 11)
        shard.remove(removed[-1:])
        return write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerSegments, "write", write_slowly)
    most = 0
    for begin in range(0, 120, 5):
        commit(store, range(begin, begin + 5))
        shard.put(range(begin, begin + 7))
        shard.remove([at << 16 | row for at in (begin + 5, begin + 6) for row in range(PACKET)])
        before = looked_up(shard.index)
        shard.keep()
        assert looked_up(shard.index) == [each for each in before if each[2] not in removed]
        commit(store, range(begin + 5, begin + 5), tuple(removed))
        check(shard.index, store)
        most = max(most, len(shard.files.files))

    assert shard.index.documents_in_memory < 600
    assert 3 < most < 15
    check(Opened(store).index, store)


def test_store_that_is_closed_ends_the_work_on_its_files(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is left of it, and the index has all that it had."""
    commit(store, range(5))
    shard = Opened(store)
    commit(store, range(5, 60))
    shard.put(range(5, 60))
    documents, files = shard.index.documents(shard.slot), files_of(store)
    write = WorkerSegments.write

    def write_and_close(self: WorkerSegments, *arguments: object) -> object:
        store.close()
        return write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerSegments, "write", write_and_close)
    assert not shard.keep()
    assert store.closed
    assert files_of(store) == files
    assert not shard.keep()
    with pytest.raises(StoreClosedError):
        make_missing_files(store, shard.segments)
    assert shard.index.documents(shard.slot) == documents


def test_files_of_what_has_expired_are_deleted(store: ShardStore) -> None:
    commit(store, range(40))
    shard = Opened(store)
    files = files_of(store)
    before = 30 << 16
    shard.index.drop_before(before)
    progress = StoredProgress(Progress(CHAIN, 2_000, 40, -1))
    store.write(store.change([], (), before), progress)
    shard.keep()
    assert 0 < len(files_of(store)) < len(files)
    check(shard.index, store)
    again = Opened(store)
    again.index.drop_before(store.expired_before)
    check(again.index, store)
    assert again.index.documents(again.slot) == shard.index.documents(shard.slot)


def test_documents_stay_in_memory_where_no_file_can_be_written(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All documents are in memory then."""

    def refuse(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(WorkerSegments, "write", refuse)
    commit(store, range(23))
    shard = Opened(store)
    check(shard.index, store)
    assert shard.segments.claims == []
    assert not shard.keep()
    check(shard.index, store)


def test_files_of_a_standby_have_what_was_read_of_the_log(store: ShardStore) -> None:
    """The store of a standby is ahead of its index: a file covers no more than the index has."""
    shard = Opened(store)
    commit(store, range(60))
    shard.put(range(40))
    commit(store, range(60, 61), (7 << 16 | 2,))
    shard.kept = KeptShard(shard.slot, store, shard.segments, standby_before=40 << 16)
    while shard.keep():
        assert shard.segments.next <= 40 << 16
    assert shard.segments.next > 20 << 16
    assert store.gone() == [7 << 16 | 2]
    check(Opened(store).index, store)


def test_large_segments_are_merged_beside_the_event_loop(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_index, "MEMTABLE_DOCUMENTS", 2)
    monkeypatch.setattr(compaction, "INLINE_DOCUMENTS", 2)
    shard = Opened(store)
    keeper = SegmentKeeper(shard.index)
    shard.put(range(40))
    before = len(shard.index.segments)

    asyncio.run(keeper.step(list))

    assert len(shard.index.segments) < before / 2
