"""Segment files hold rows of several shards, which come and go: each finds its own, no others."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import prints_of
from simhash_core.log.records import Progress
from simhash_core.log.shard_stream import NewEntries
from streams.store import compaction, shard_segments
from streams.store.compaction import KeptShard, SegmentKeeper
from streams.store.recovery import fill_index, make_missing_files
from streams.store.rocksdb_store import MIB, block_cache
from streams.store.row_codec import StoredProgress, StoreIdentity
from streams.store.shard_directory import open_shard_store
from streams.store.shard_segments import ShardSegments, WorkerSegments, segment_paths
from streams.store.shard_store import ShardStore
from tests.unit.store.test_segment_files import (
    CHAIN,
    OWNER,
    PACKET,
    SCHEME,
    Found,
    commit,
    looked_up,
    packet_of,
    scanned,
)

SHARDS = 5


class Worker:
    """A worker with the index and the files of its shards; packet n belongs to shard n % 5."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.index = DocumentIndex(SCHEME)
        self.files = WorkerSegments(state / "segments", OWNER, SCHEME)
        self.keeper = SegmentKeeper(self.index)
        self.kept: dict[int, KeptShard] = {}

    def open(self, *partitions: int) -> Worker:
        for partition in partitions:
            store = store_of(self.state, partition)
            store.segments = ShardSegments(self.files, partition)
            make_missing_files(store, store.segments)
            slot = self.index.open_slot()
            for _ in fill_index(self.index, slot, store):
                pass
            self.kept[partition] = KeptShard(slot, store, store.segments)
        return self

    def close(self, *partitions: int) -> None:
        for partition in partitions or [*self.kept]:
            shard = self.kept.pop(partition)
            self.index.drop_slot(shard.slot)
            shard.store.close()

    def take_in(self, packets: range) -> None:
        for number in packets:
            shard = self.kept[number % SHARDS]
            commit(shard.store, range(number, number + 1))
            new = NewEntries(number, packet_of(number), np.arange(PACKET))
            rows = np.flatnonzero(new.packet.columns.undecidable == 0)
            prints = prints_of(SCHEME, new.packet.columns, rows)
            self.index.add(shard.slot, new.sequences[rows], prints)

    def remove(self, sequence: int) -> None:
        shard = self.kept[(sequence >> 16) % SHARDS]
        commit(shard.store, range(sequence >> 16, sequence >> 16), (sequence,))
        self.index.remove(shard.slot, np.array([sequence], dtype=np.uint64))

    def keep(self) -> None:
        while asyncio.run(self.keeper.step(lambda: [*self.kept.values()])):
            pass

    def check(self) -> None:
        assert looked_up(self.index) == expected(each.store for each in self.kept.values())

    @property
    def paths(self) -> list[Path]:
        return segment_paths(self.state / "segments")


def store_of(state: Path, partition: int) -> ShardStore:
    owner = StoreIdentity("an index", "tests", partition)
    return open_shard_store(state / f"shard-{partition}", owner, 128, block_cache(8 * MIB))


def expected(stores: Iterable[ShardStore]) -> Found:
    found = [each for store in stores for each in scanned(store)]
    return sorted(found, key=lambda each: (each[0], each[1], each[2]))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FILE_DOCUMENTS", 400)
    monkeypatch.setattr("simhash_core.index.document_index.MEMTABLE_DOCUMENTS", 32)
    monkeypatch.setattr(shard_segments, "KEPT_SECONDS", -1.0)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """A worker whose five shards have 4,900 documents, nearly all in a file or two."""
    worker = Worker(tmp_path).open(*range(SHARDS))
    for first in range(0, 100, 10):
        worker.take_in(range(first, first + 10))
        worker.keep()
    yield worker
    worker.close()


def test_files_grow_with_the_entries_and_not_with_the_shards(worker: Worker) -> None:
    """Each opening takes the rows of its shard from there, and few from the store."""
    worker.check()
    assert len(worker.paths) <= 4
    assert all(len(each.head.shards) == SHARDS for each in worker.files.files.values())
    files = {each: each.stat().st_mtime_ns for each in worker.paths}
    documents, in_memory = len(worker.index), worker.index.documents_in_memory
    worker.close()
    again = Worker(worker.state).open(*reversed(range(SHARDS)))
    again.check()
    assert (len(again.index), documents) == (4_900, 4_900)
    assert again.index.documents_in_memory == in_memory < 500
    assert {each: each.stat().st_mtime_ns for each in again.paths} == files
    again.close()


def test_reading_files_stops_with_its_shard_and_goes_on_with_another(worker: Worker) -> None:
    worker.close()
    files = WorkerSegments(worker.state / "segments", OWNER, SCHEME)
    interrupted = threading.Event()
    interrupted.set()
    with pytest.raises(InterruptedError):
        files.find(0, interrupted)
    assert not files.files
    assert len(files.find(1)) == len(worker.paths) > 0


def test_rows_of_a_shard_that_left_go_with_the_next_merge(worker: Worker) -> None:
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
    worker.close(1, 3, 4)
    again = Worker(worker.state).open(4, 3, 2)
    again.check()
    again.close()


def test_rows_of_a_shard_that_may_come_back_are_kept(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
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
    """Return an entry that look-ups meet, and that a file has."""
    return min(sequence for _, _, sequence in scanned(store))


def _removed_elsewhere(worker: Worker) -> None:
    with closing(store_of(worker.state, 2)) as store:
        commit(store, range(102, 102), (met(store),))


def _made_again(worker: Worker) -> None:
    """As from the changelog, where an entry was deleted."""
    with closing(store_of(worker.state, 2)) as store:
        gone = met(store)
    shutil.rmtree(worker.state / "shard-2")
    with closing(store_of(worker.state, 2)) as store:
        for number in range(2, 100, SHARDS):
            left = [each for each in range(PACKET) if number << 16 | each != gone]
            entries = NewEntries(number, packet_of(number), np.array(left))
            progress = Progress(CHAIN, (number + 1) * PACKET, number + 1, -1)
            store.write(store.change([entries]), StoredProgress(progress))


def _opened_by_an_earlier_version(worker: Worker) -> None:
    """It knows nothing of these files, and forgets what they still have."""
    with closing(store_of(worker.state, 2)) as store:
        commit(store, range(102, 102), (met(store),))
        store.set_filed(store.filed(), store.gone())
    (worker.state / "shard-2" / "segments").mkdir()


def _without_files(worker: Worker) -> None:
    for path in worker.paths:
        path.unlink()


def _one_damaged(worker: Worker) -> None:
    path = worker.paths[0]
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)


@pytest.mark.parametrize(
    "happening",
    [
        _removed_elsewhere,
        _made_again,
        _without_files,
        _one_damaged,
        _opened_by_an_earlier_version,
    ],
)
def test_what_a_store_does_not_say_is_not_met(
    worker: Worker, happening: Callable[[Worker], None]
) -> None:
    worker.close()
    happening(worker)
    again = Worker(worker.state).open(*range(SHARDS))
    again.check()
    again.close()
    last = Worker(worker.state).open(*range(SHARDS))
    last.check()
    last.close()


def test_an_older_file_that_was_put_back_is_not_used(worker: Worker) -> None:
    """It has an entry that was deleted since, and nothing else remembers that it has."""
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
    again = Worker(worker.state).open(*range(SHARDS))
    again.check()
    again.keep()
    assert {each.name for each in before}.isdisjoint({each.name for each in again.paths} - now)
    again.close()


@pytest.mark.parametrize("written", range(SHARDS + 1))
def test_crash_leaves_stores_that_name_old_or_new_files(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """The worker ends after so many stores name the new file, and before old ones are deleted."""
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
    worker.close()
    again = Worker(worker.state).open(*range(SHARDS))
    again.check()
    again.keep()
    again.check()
    again.close()


def test_files_that_another_process_has_are_left_alone(worker: Worker) -> None:
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
    assert "another process has it" in other.stderr.splitlines()[-1]
    assert worker.paths == paths
