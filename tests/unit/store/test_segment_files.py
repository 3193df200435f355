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
from simhash_core.index.prints import Prints, prints_of
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
    check_columns,
    read_head,
)
from streams.store.shard_store import ShardStore

SCHEME: Final = BlockScheme(128, 4, 12, 16, bands=2)
CHAIN: Final = Chain("raw-documents", "", 3)
OWNER: Final = SegmentOwner("an index", "tests", 3)
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


def put(index: DocumentIndex, slot: int, packets: range) -> None:
    for number in packets:
        new = NewEntries(number, packet_of(number), np.arange(PACKET))
        rows = np.flatnonzero(new.packet.columns.undecidable == 0)
        index.add(slot, new.sequences[rows], prints_of(SCHEME, new.packet.columns, rows))


def looked_up(index: DocumentIndex, asked: Prints = ASKED) -> Found:
    rows, distances, sequences, _ = index.pairs(asked)
    return list(zip(rows.tolist(), distances.tolist(), sequences.tolist(), strict=True))


def scanned(store: ShardStore, window_ms: int | None = None) -> Found:
    """What it is to meet, from an index that has all in memory."""
    index = DocumentIndex(SCHEME, window_ms)
    slot = index.open_slot()
    for sequences, prints in store.prints(SCHEME.bands):
        index.add(slot, sequences, prints)
    return looked_up(index)


def opened(
    path: Path, store: ShardStore, owner: SegmentOwner = OWNER, window_ms: int | None = None
) -> tuple[DocumentIndex, int, ShardSegments]:
    """An index that was filled from a store, as when its shard is opened."""
    segments = ShardSegments(path, owner, SCHEME, with_times=window_ms is not None)
    make_missing_files(store, segments)
    store.segments = segments
    index = DocumentIndex(SCHEME, window_ms)
    slot = index.open_slot()
    for _ in fill_index(index, slot, store):
        pass
    return index, slot, segments


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
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
def path(tmp_path: Path) -> Path:
    return tmp_path / "shard-3"


@pytest.fixture
def store(path: Path) -> Iterator[ShardStore]:
    owner = StoreIdentity("an index", "tests", 3)
    with closing(open_shard_store(path, owner, 128, block_cache(8 * MIB))) as found:
        yield found


def files_in(path: Path) -> list[Path]:
    return sorted((path / "segments").iterdir()) if (path / "segments").exists() else []


@pytest.mark.parametrize("window_ms", [None, WINDOW_MS])
def test_a_shard_is_opened_from_its_files(
    path: Path, store: ShardStore, window_ms: int | None
) -> None:
    """Look-ups say what they say without files, and files are not made again."""
    commit(store, range(19))
    index, slot, segments = opened(path, store, window_ms=window_ms)
    made = {each: each.stat().st_mtime_ns for each in files_in(path)}
    assert looked_up(index) == scanned(store, window_ms)
    assert len(made) == len(segments.files) == 2
    assert 0 < index.documents_in_memory(slot) < index.documents(slot) == 19 * (PACKET - 1)
    again, _, _ = opened(path, store, window_ms=window_ms)
    assert looked_up(again) == looked_up(index)
    assert {each: each.stat().st_mtime_ns for each in files_in(path)} == made
    other, _, _ = opened(path, store, window_ms=None if window_ms else WINDOW_MS)
    assert looked_up(other) == scanned(store, None if window_ms else WINDOW_MS)


@pytest.mark.parametrize("at", [0, 3, 10, 40, 0.02, 0.3, 0.6, 0.9, 0.999])
def test_damaged_file_is_noticed_and_made_again(path: Path, store: ShardStore, at: float) -> None:
    commit(store, range(23))
    opened(path, store)
    first = files_in(path)[0]
    whole = first.read_bytes()
    head = read_head(first)
    place = at if isinstance(at, int) else int(at * len(whole))
    starts = [(each.start, each.start + 8 * int(np.prod(each.shape))) for each in head.columns]
    flipped = bytearray(whole)
    flipped[place] ^= 0x10
    first.write_bytes(flipped)
    in_gap = place > 40 and not any(start <= place < stop for start, stop in starts)

    if not in_gap:
        with pytest.raises(SegmentDamagedError):
            check_columns(first, read_head(first))
    index, _, _ = opened(path, store)
    assert looked_up(index) == scanned(store)
    first.write_bytes(whole[: int(len(whole) * 0.7)])
    index, _, _ = opened(path, store)
    assert looked_up(index) == scanned(store)
    check_columns(first, read_head(first))


def test_files_of_others_are_not_used(path: Path, store: ShardStore) -> None:
    """Of another index, or with more than the store has, as after the store was restored."""
    commit(store, range(23))
    opened(path, store, SegmentOwner("another index", "tests", 3))
    index, _, segments = opened(path, store)
    assert {each.head.owner for each in segments.files} == {OWNER}
    assert looked_up(index) == scanned(store)

    beyond = path / "segments" / f"{0:016x}-{2**40:016x}.segment"
    written = segments.write([], 0, 2**40)
    assert written is None
    rows = list(index.live_rows(0, 0, 2**60))
    assert segments.write(rows, 0, 2**40) is not None
    assert beyond.exists()
    (path / "segments" / "left.writing").write_bytes(b"half")
    again, _, _ = opened(path, store)
    assert not beyond.exists()
    assert looked_up(again) == scanned(store)
    assert all(each.suffix == ".segment" for each in files_in(path))


def test_deleted_entries_of_files_stay_deleted(path: Path, store: ShardStore) -> None:
    commit(store, range(23))
    opened(path, store)
    gone = (2 << 16 | 3, *(5 << 16 | row for row in range(PACKET)), 22 << 16 | 4)
    commit(store, range(23, 24), gone)

    index, slot, segments = opened(path, store)
    assert looked_up(index) == scanned(store)
    assert store.gone() == sorted(gone)
    shards = [KeptShard(slot, store, segments)]
    keeper = SegmentKeeper(index)
    commit(store, range(24, 60))
    put(index, slot, range(24, 60))
    while asyncio.run(keeper.step(lambda: shards)):
        assert looked_up(index) == scanned(store)
    assert store.gone() == []
    again, _, _ = opened(path, store)
    assert looked_up(again) == scanned(store)


def test_files_are_made_and_merged_while_documents_come_and_go(
    path: Path, store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Look-ups say the same all the time; what is removed while a file is written is not met."""
    index, slot, segments = opened(path, store)
    shards = [KeptShard(slot, store, segments)]
    keeper = SegmentKeeper(index)
    write = ShardSegments.write
    removed: list[int] = []

    def write_slowly(self: ShardSegments, *arguments: object) -> object:
        removed.append(len(removed) << 16 | 11)
        index.remove(slot, np.array(removed[-1:], dtype=np.uint64))
        return write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ShardSegments, "write", write_slowly)
    most = 0
    for begin in range(0, 120, 5):
        commit(store, range(begin, begin + 5))
        put(index, slot, range(begin, begin + 7))
        last_two = [
            packet << 16 | row for packet in (begin + 5, begin + 6) for row in range(PACKET)
        ]
        index.remove(slot, np.array(last_two, dtype=np.uint64))
        before = looked_up(index)
        asyncio.run(keeper.step(lambda: shards))
        assert looked_up(index) == [each for each in before if each[2] not in removed]
        commit(store, range(begin + 5, begin + 5), tuple(removed))
        assert looked_up(index) == scanned(store)
        most = max(most, len(segments.files))

    assert index.documents_in_memory(slot) < 600
    assert 3 < most < 15
    again, _, _ = opened(path, store)
    assert looked_up(again) == scanned(store)


def test_store_that_is_closed_ends_the_work_on_its_files(
    path: Path, store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(store, range(5))
    index, slot, segments = opened(path, store)
    commit(store, range(5, 60))
    put(index, slot, range(5, 60))
    documents, files = index.documents(slot), files_in(path)
    write = ShardSegments.write

    def write_and_close(self: ShardSegments, *arguments: object) -> object:
        store.close()
        return write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ShardSegments, "write", write_and_close)
    shards = [KeptShard(slot, store, segments)]
    keeper = SegmentKeeper(index)

    assert not asyncio.run(keeper.step(lambda: shards))
    assert store.closed
    assert files_in(path) == files
    assert not asyncio.run(keeper.step(lambda: shards))
    with pytest.raises(StoreClosedError):
        make_missing_files(store, segments)
    assert index.documents(slot) == documents


def test_files_of_what_has_expired_are_deleted(path: Path, store: ShardStore) -> None:
    commit(store, range(40))
    index, slot, segments = opened(path, store)
    files = files_in(path)
    before = 30 << 16
    index.drop_before(before)
    progress = StoredProgress(Progress(CHAIN, 2_000, 40, -1))
    store.write(store.change([], (), before), progress)

    asyncio.run(SegmentKeeper(index).step(lambda: [KeptShard(slot, store, segments)]))

    assert 0 < len(files_in(path)) < len(files)
    assert looked_up(index) == scanned(store)
    again, other, _ = opened(path, store)
    again.drop_before(store.expired_before)
    assert looked_up(again) == scanned(store)
    assert again.documents(other) == index.documents(slot)


def test_a_directory_that_cannot_be_written_is_done_without(
    path: Path, store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All documents are in memory then."""

    def refuse(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ShardSegments, "write", refuse)
    commit(store, range(23))
    index, slot, segments = opened(path, store)
    assert looked_up(index) == scanned(store)
    assert segments.files == []
    assert not asyncio.run(SegmentKeeper(index).step(lambda: [KeptShard(slot, store, segments)]))
    assert looked_up(index) == scanned(store)


def test_files_of_a_standby_have_what_was_read_of_the_log(path: Path, store: ShardStore) -> None:
    """The store of a standby is ahead of its index: a file covers no more than the index has."""
    index, slot, segments = opened(path, store)
    commit(store, range(60))
    put(index, slot, range(40))
    commit(store, range(60, 61), (7 << 16 | 2,))
    keeper = SegmentKeeper(index)
    shards = [KeptShard(slot, store, segments, standby_before=40 << 16)]

    while asyncio.run(keeper.step(lambda: shards)):
        assert segments.next <= 40 << 16
    assert segments.next > 20 << 16
    assert store.gone() == [7 << 16 | 2]

    again, _, _ = opened(path, store)
    assert looked_up(again) == scanned(store)
