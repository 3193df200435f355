"""Segment files: look-ups give the same results with and without them, and damage is repaired.

A file has rows of several shards, which come and go: each finds its own rows, and no others.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, Self

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
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_segments import (
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
PACKET: Final = 50

Found = list[tuple[int, int, int]]


def packet_of(number: int) -> Packet:
    """Return fifty documents, copies of few, some without a sketch and one undecidable."""
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
    """Commit packets, each at the log offset equal to its number, and deletions."""
    new = [NewEntries(each, packet_of(each), np.arange(PACKET)) for each in packets]
    progress = StoredProgress(Progress(CHAIN, packets.stop * PACKET, packets.stop, -1))
    store.write(store.change(new, removed), progress)


def looked_up(index: DocumentIndex) -> Found:
    rows, distances, sequences, _ = index.pairs(ASKED)
    return list(zip(rows.tolist(), distances.tolist(), sequences.tolist(), strict=True))


def scanned(stores: Iterable[ShardStore], window_ms: int | None = None) -> Found:
    """Return the results of look-ups in an index that has all documents in memory."""
    index = DocumentIndex(SCHEME, window_ms)
    for store in stores:
        slot = index.open_slot()
        for sequences, prints in store.prints(SCHEME.sketch_bands):
            index.add(slot, sequences, prints)
    return looked_up(index)


def store_of(state: Path, partition: int) -> ShardStore:
    owner = StoreIdentity("an index", "tests", partition)
    return open_shard(state / f"shard-{partition}", owner, 128, RocksDisk(block_cache(8 * MIB)))


class Worker:
    """A worker with the index and the files of its shards."""

    def __init__(
        self, state: Path, owner: SegmentOwner = OWNER, window_ms: int | None = None
    ) -> None:
        self.state = state
        self.window_ms = window_ms
        self.index = DocumentIndex(SCHEME, window_ms)
        with_times = window_ms is not None
        self.files = WorkerSegments(state / "segments", owner, SCHEME, with_times=with_times)
        self.keeper = SegmentKeeper(self.index)
        self.kept: dict[int, KeptShard] = {}

    def open(self, *partitions: int) -> Self:
        for partition in partitions:
            self.attach(partition, store_of(self.state, partition))
        return self

    def attach(self, partition: int, store: ShardStore) -> KeptShard:
        """Fill the index from an open store."""
        store.segments = ShardSegments(self.files, partition)
        make_missing_files(store, store.segments)
        slot = self.index.open_slot()
        for _ in fill_index(self.index, slot, store):
            pass
        self.kept[partition] = KeptShard(slot, store, store.segments)
        return self.kept[partition]

    def close(self, *partitions: int) -> None:
        for partition in partitions or [*self.kept]:
            shard = self.kept.pop(partition)
            self.index.drop_slot(shard.slot)
            shard.store.close()

    def put(self, partition: int, packets: range) -> None:
        """Add packets to the index, as a worker does before it commits them."""
        for number in packets:
            new = NewEntries(number, packet_of(number), np.arange(PACKET))
            rows = np.flatnonzero(new.packet.columns.undecidable == 0)
            prints = prints_of(SCHEME, new.packet.columns, rows)
            self.index.add(self.kept[partition].slot, new.sequences[rows], prints)

    def step(self) -> bool:
        return asyncio.run(self.keeper.step(lambda: [*self.kept.values()]))

    def check(self) -> None:
        """Fail unless look-ups give the same results as without files."""
        stores = [each.store for each in self.kept.values()]
        assert looked_up(self.index) == scanned(stores, self.window_ms)

    @property
    def paths(self) -> list[Path]:
        return segment_paths(self.state / "segments")


# ---- One shard.

WINDOW_MS: Final = 400


class Opened(Worker):
    """A worker with one shard, whose index is filled from an open store."""

    def __init__(
        self, store: ShardStore, owner: SegmentOwner = OWNER, window_ms: int | None = None
    ) -> None:
        super().__init__(store.path.parent, owner, window_ms)
        self.shard = self.attach(3, store)

    @property
    def segments(self) -> ShardSegments:
        return self.shard.segments

    @property
    def documents(self) -> int:
        return self.index.documents(self.shard.slot)

    def remove(self, sequences: list[int]) -> None:
        self.index.remove(self.shard.slot, np.array(sequences, dtype=np.uint64))


def opened_with_more(store: ShardStore) -> Opened:
    """Return a worker that has committed enough in memory for files."""
    commit(store, range(5))
    shard = Opened(store)
    commit(store, range(5, 60))
    shard.put(3, range(5, 60))
    return shard


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardStore]:
    """Open the store of one shard, with small files and a low limit of buckets."""
    for module in (recovery, compaction, shard_segments):
        monkeypatch.setattr(module, "FILE_DOCUMENTS", 200)
    for module in (recovery, compaction):
        monkeypatch.setattr(module, "documents_limit", lambda _scheme: 400)
    monkeypatch.setattr(shard_segments, "documents_limit", lambda _scheme: 2_000)
    monkeypatch.setattr(shard_store, "SCANNED_ROWS", 64)
    monkeypatch.setattr(shard_store, "_JOINED_SCANS", 1)
    monkeypatch.setattr(hot_buckets, "DOCUMENTS_MIN", 10)
    monkeypatch.setattr(document_index, "MEMTABLE_DOCUMENTS", 32)
    monkeypatch.setattr(compaction, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(compaction, "_DOCUMENTS_A_TURN", 1000)
    with closing(store_of(tmp_path, 3)) as opened:
        yield opened


def files_of(store: ShardStore) -> list[Path]:
    return segment_paths(segments_directory(store.path))


@pytest.mark.parametrize(("window_ms", "other_ms"), [(None, WINDOW_MS), (WINDOW_MS, None)])
def test_shard_is_opened_from_its_files(
    store: ShardStore, window_ms: int | None, other_ms: int | None
) -> None:
    """Files are made again only for an index that needs times they lack, or no longer does."""
    commit(store, range(19))
    shard = Opened(store, window_ms=window_ms)
    made = {each: each.stat().st_mtime_ns for each in files_of(store)}
    shard.check()
    assert len(made) == len(shard.segments.claims) == 2
    in_memory = shard.index.documents_in_memory
    assert 0 < in_memory < shard.documents == 19 * (PACKET - 1)
    Opened(store, window_ms=window_ms).check()
    assert {each: each.stat().st_mtime_ns for each in files_of(store)} == made
    Opened(store, window_ms=other_ms).check()


@pytest.mark.parametrize("at", [0, 10, 40, 0.02, 0.6, 0.999])
def test_damaged_file_is_noticed_and_made_again(store: ShardStore, at: float) -> None:
    commit(store, range(23))
    Opened(store)
    first = files_of(store)[0]
    whole = first.read_bytes()
    place = at if isinstance(at, int) else int(at * len(whole))
    flipped = bytearray(whole)
    flipped[place] ^= 0x10
    for damaged in (bytes(flipped), whole[: int(len(whole) * 0.7)]):
        first.write_bytes(damaged)
        Opened(store).check()
        check_columns(first, read_head(first))


def test_files_of_others_are_not_used(store: ShardStore) -> None:
    """Such files are of another index, incomplete, or newer than a restored store."""
    commit(store, range(23))
    Opened(store, SegmentOwner("another index", "tests"))
    shard = Opened(store)
    assert {read_head(each).owner for each in files_of(store)} == {OWNER}
    shard.check()

    filed = store.filed()
    left = segments_directory(store.path) / "left.writing"
    left.write_bytes(b"half")
    store.set_filed([*filed[:-1], filed[-1]._replace(last=2**40)])
    Opened(store).check()
    assert len(store.filed()) == len(filed)
    assert store.filed()[-1].last < 2**40
    assert not left.exists()


def test_deleted_entries_of_files_stay_deleted(store: ShardStore) -> None:
    """Once a file without the deleted entries is made, nothing is kept of the deletes."""
    commit(store, range(23))
    Opened(store)
    gone = (2 << 16 | 3, *(5 << 16 | row for row in range(PACKET)), 22 << 16 | 4)
    commit(store, range(23, 24), gone)
    shard = Opened(store)
    shard.check()
    assert store.gone() == sorted(gone)
    commit(store, range(24, 60))
    shard.put(3, range(24, 60))
    while shard.step():
        shard.check()
    assert store.gone() == []
    Opened(store).check()


def test_no_file_lacks_entries_whose_removal_is_not_committed(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If brokers lose the part of the log with the removal, the entries are there again."""
    monkeypatch.setattr(compaction, "_COMMIT_PAUSE_SECONDS", 0)
    shard = opened_with_more(store)
    removed = [7 << 16 | row for row in range(PACKET)]
    shard.remove(removed)
    shard.kept[3] = shard.shard._replace(removed=removed)
    files = files_of(store)
    assert not shard.step()
    assert not shard.step()
    assert files_of(store) == files
    again = Opened(store)
    again.check()

    commit(store, range(60, 60), tuple(removed))
    assert shard.step()
    shard.check()
    Opened(store).check()


@pytest.mark.parametrize("loop_documents", [0, 1 << 19])
def test_files_are_made_and_merged_while_documents_come_and_go(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch, loop_documents: int
) -> None:
    """Look-ups always give the same results, without entries removed while a file is written."""
    monkeypatch.setattr(compaction, "_LOOP_DOCUMENTS", loop_documents)
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
        shard.put(3, range(begin, begin + 7))
        shard.remove([at << 16 | row for at in (begin + 5, begin + 6) for row in range(PACKET)])
        before = looked_up(shard.index)
        shard.step()
        assert looked_up(shard.index) == [each for each in before if each[2] not in removed]
        commit(store, range(begin + 5, begin + 5), tuple(removed))
        shard.check()
        most = max(most, len(shard.files.files))

    assert shard.index.documents_in_memory < 600
    assert 3 < most < 15
    Opened(store).check()


def test_store_that_is_closed_ends_the_work_on_its_files(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work leaves no file, and the index keeps all its documents."""
    shard = opened_with_more(store)
    documents, files = shard.documents, files_of(store)
    write = WorkerSegments.write

    def write_and_close(self: WorkerSegments, *arguments: object) -> object:
        store.close()
        return write(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerSegments, "write", write_and_close)
    assert not shard.step()
    assert store.closed
    assert files_of(store) == files
    assert not shard.step()
    with pytest.raises(StoreClosedError):
        make_missing_files(store, shard.segments)
    assert shard.documents == documents


def test_files_of_what_has_expired_are_deleted(store: ShardStore) -> None:
    commit(store, range(40))
    shard = Opened(store)
    files = files_of(store)
    before = 30 << 16
    shard.index.drop_before(before)
    progress = StoredProgress(Progress(CHAIN, 2_000, 40, -1))
    store.write(store.change([], (), before), progress)
    shard.step()
    assert 0 < len(files_of(store)) < len(files)
    shard.check()
    again = Opened(store)
    again.index.drop_before(store.expired_before)
    again.check()
    assert again.documents == shard.documents


def test_documents_stay_in_memory_where_no_file_can_be_written(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(WorkerSegments, "write", refuse)
    commit(store, range(23))
    shard = Opened(store)
    shard.check()
    assert shard.segments.claims == []
    assert not shard.step()
    shard.check()


def test_files_of_a_standby_have_what_was_read_of_the_log(store: ShardStore) -> None:
    """A standby's store is ahead of its index; a file has no more than the index has."""
    shard = Opened(store)
    commit(store, range(60))
    shard.put(3, range(40))
    commit(store, range(60, 61), (7 << 16 | 2,))
    shard.kept[3] = shard.shard._replace(standby_before=40 << 16)
    while shard.step():
        assert shard.segments.next <= 40 << 16
    assert shard.segments.next > 20 << 16
    assert store.gone() == [7 << 16 | 2]
    Opened(store).check()


@pytest.mark.parametrize("loop_documents", [0, 1 << 19])
def test_large_segments_are_merged_in_steps_or_in_a_thread(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch, loop_documents: int
) -> None:
    monkeypatch.setattr(compaction, "_LOOP_DOCUMENTS", loop_documents)
    monkeypatch.setattr(document_index, "MEMTABLE_DOCUMENTS", 2)
    monkeypatch.setattr(compaction, "INLINE_DOCUMENTS", 2)
    shard = Opened(store)
    keeper = SegmentKeeper(shard.index)
    shard.put(3, range(40))
    before = len(shard.index.segments)
    asyncio.run(keeper.step(list))
    assert len(shard.index.segments) < before / 2


# ---- Several shards.

SHARDS = 5


class SharedFiles(Worker):
    """A worker with five shards; packet n belongs to shard n % 5."""

    def take_in(self, packets: range) -> None:
        for number in packets:
            shard = self.kept[number % SHARDS]
            commit(shard.store, range(number, number + 1))
            self.put(number % SHARDS, range(number, number + 1))

    def remove(self, sequence: int) -> None:
        shard = self.kept[(sequence >> 16) % SHARDS]
        commit(shard.store, range(sequence >> 16, sequence >> 16), (sequence,))
        self.index.remove(shard.slot, np.array([sequence], dtype=np.uint64))

    def keep(self) -> None:
        while self.step():
            pass

    def reopened(self, *partitions: int) -> SharedFiles:
        """Close the shards, and open and check them, all or some, in another worker."""
        self.close()
        again = SharedFiles(self.state).open(*(partitions or range(SHARDS)))
        again.check()
        return again


@pytest.fixture(scope="module")
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compaction, "FILE_DOCUMENTS", 400)
        patched.setattr(document_index, "MEMTABLE_DOCUMENTS", 32)
        patched.setattr(shard_segments, "KEPT_SECONDS", -1.0)
        yield


@pytest.fixture(scope="module")
def closed(small_limits: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    del small_limits
    state = tmp_path_factory.mktemp("state")
    worker = SharedFiles(state).open(*range(SHARDS))
    for first in range(0, 100, 10):
        worker.take_in(range(first, first + 10))
        worker.keep()
    worker.close()
    return state


@pytest.fixture
def worker(closed: Path, tmp_path: Path) -> Iterator[SharedFiles]:
    """Return a worker whose five shards have 4,900 documents, nearly all in one or two files."""
    state = Path(shutil.copytree(closed, tmp_path / "state"))
    worker = SharedFiles(state).open(*range(SHARDS))
    yield worker
    worker.close()


def test_files_grow_with_the_entries_and_not_with_the_shards(worker: SharedFiles) -> None:
    """Each opening reads most rows of its shard from the files, and few from the store."""
    worker.check()
    assert len(worker.paths) <= 4
    assert all(len(each.head.shards) == SHARDS for each in worker.files.files.values())
    files = {each: each.stat().st_mtime_ns for each in worker.paths}
    documents, in_memory = len(worker.index), worker.index.documents_in_memory
    again = worker.reopened(*reversed(range(SHARDS)))
    assert (len(again.index), documents) == (4_900, 4_900)
    assert again.index.documents_in_memory == in_memory < 500
    assert {each: each.stat().st_mtime_ns for each in again.paths} == files
    again.close()


def test_reading_files_stops_with_its_shard_and_goes_on_with_another(worker: SharedFiles) -> None:
    worker.close()
    files = WorkerSegments(worker.state / "segments", OWNER, SCHEME)
    interrupted = threading.Event()
    interrupted.set()
    with pytest.raises(InterruptedError):
        files.find(0, interrupted)
    assert not files.files
    assert len(files.find(1)) == len(worker.paths) > 0


def test_rows_of_a_shard_that_left_go_with_the_next_merge(worker: SharedFiles) -> None:
    sizes = sum(each.stat().st_size for each in worker.paths)
    worker.close(0, 1, 2)
    worker.check()
    worker.keep()
    worker.check()
    heads = [each.head for each in worker.files.files.values()]
    assert {each.partition for head in heads for each in head.shards} == {3, 4}
    assert sum(each.stat().st_size for each in worker.paths) < sizes / 2
    worker.open(1)
    worker.check()
    worker.reopened(4, 3, 2).close()


def test_rows_of_a_shard_that_may_come_back_are_kept(
    worker: SharedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_segments, "KEPT_SECONDS", 60.0)
    paths = worker.paths
    worker.close(0, 1, 2)
    worker.keep()
    assert worker.paths == paths
    filed = sum(len(each.segment) for each in worker.files.files.values())
    worker.open(2, 1, 0)
    worker.check()
    assert worker.index.documents_in_memory == 4_900 - filed


def met(store: ShardStore) -> int:
    """Return an entry that look-ups find, and that a file has."""
    return min(sequence for _, _, sequence in scanned([store]))


def _removed_elsewhere(worker: SharedFiles) -> None:
    with closing(store_of(worker.state, 2)) as store:
        commit(store, range(102, 102), (met(store),))


def _made_again(worker: SharedFiles) -> None:
    """Make a store again, as from a changelog in which an entry was deleted."""
    with closing(store_of(worker.state, 2)) as store:
        gone = met(store)
    shutil.rmtree(worker.state / "shard-2")
    with closing(store_of(worker.state, 2)) as store:
        for number in range(2, 100, SHARDS):
            left = [each for each in range(PACKET) if number << 16 | each != gone]
            entries = NewEntries(number, packet_of(number), np.array(left))
            progress = Progress(CHAIN, (number + 1) * PACKET, number + 1, -1)
            store.write(store.change([entries]), StoredProgress(progress))


def _without_files(worker: SharedFiles) -> None:
    for path in worker.paths:
        path.unlink()


@pytest.mark.parametrize("happening", [_removed_elsewhere, _made_again, _without_files])
def test_what_a_store_does_not_say_is_not_met(
    worker: SharedFiles, happening: Callable[[SharedFiles], None]
) -> None:
    worker.close()
    happening(worker)
    for _ in range(2):
        worker.reopened().close()


def test_an_older_file_that_was_put_back_is_not_used(worker: SharedFiles) -> None:
    """It has an entry that was deleted later, and nothing else says so."""
    before = {each: each.read_bytes() for each in worker.paths}
    gone = [number << 16 | row for number in range(95) for row in range(20, 50)]
    for sequence in gone:
        worker.remove(sequence)
    worker.keep()
    assert sum(len(each.store.gone()) for each in worker.kept.values()) < len(gone)
    worker.close()
    now = {each.name for each in worker.paths}
    for path, content in before.items():
        path.write_bytes(content)
    assert now != {each.name for each in before}
    again = worker.reopened()
    again.keep()
    assert {each.name for each in before}.isdisjoint({each.name for each in again.paths} - now)
    again.close()


@pytest.mark.parametrize("written", [0, 3, SHARDS])
def test_crash_leaves_stores_that_name_old_or_new_files(
    worker: SharedFiles, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """The worker ends after ``written`` stores name the new file, before old ones are deleted."""
    set_filed, calls = ShardStore.set_filed, [0]

    def crashing(self: ShardStore, *arguments: object) -> None:
        if calls[0] == written:
            raise KeyboardInterrupt
        calls[0] += 1
        set_filed(self, *arguments)  # type: ignore[arg-type]

    def crashing_delete(*_: object) -> None:
        raise KeyboardInterrupt

    def until_it_crashes() -> None:
        for first in range(100, 300, 10):
            worker.take_in(range(first, first + 10))
            worker.keep()

    with monkeypatch.context() as patched:
        patched.setattr(ShardStore, "set_filed", crashing)
        patched.setattr(WorkerSegments, "delete", crashing_delete)
        patched.setattr(compaction, "FILE_DOCUMENTS", 100)
        patched.setattr(shard_segments, "_MERGED_FILES", 2)
        with pytest.raises(KeyboardInterrupt):
            until_it_crashes()
    again = worker.reopened()
    again.keep()
    again.check()
    again.close()


def test_files_that_another_process_has_are_left_alone(worker: SharedFiles) -> None:
    program = (
        "import sys; from pathlib import Path; from streams.store.shard_segments import *; "
        "from simhash_core.fingerprints.blocks import BlockScheme; "
        "owner = SegmentOwner('another index', 'tests'); "
        "files = WorkerSegments(Path(sys.argv[1]), owner, BlockScheme(64, 4, 3)); "
        "print(len(files.find(0))); files.write(None, [])"
    )
    paths = worker.paths
    command = [sys.executable, "-c", program, str(worker.state / "segments")]
    other = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (other.returncode, other.stdout) == (1, "0\n")
    assert "another process uses it" in other.stderr.splitlines()[-1]
    assert worker.paths == paths
