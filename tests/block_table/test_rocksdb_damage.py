"""Damaged files: a store that lost something says so, and never looks like one that is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from rocksdict import WriteBatch

from simhash_core.documents import SourcePosition
from simhash_core.entries import PutPending
from streams.rocksdb_options import MIB, StoreSettings, block_cache, store_options, write_options
from streams.rocksdb_store import DAMAGE_MARK, RocksStore
from streams.rocksdb_table import RocksBlockTable
from streams.segment_list import LEAST_DOCUMENTS
from streams.shard_directory import discard_store
from streams.state_codec import (
    COUNT_KEY,
    PROGRESS_KEY,
    entry_key,
    parked_key,
    pending_key,
    segment_key,
)
from streams.store.store_errors import StoreCorruptError
from tests.block_table.crashing_writer import changes_of
from tests.block_table.samples import (
    ALL_BUCKETS,
    SCHEME,
    all_met,
    entry_of,
    fingerprint_of,
    open_store,
    put,
)

COMMITS: Final = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store of many commits, all of them in sorted files."""
    path = tmp_path / "shard-0"
    for first in (0, COMMITS // 2):
        # Closed in between, so that there is more than one file.
        with closing(open_store(path)) as table:
            for commit in range(first, first + COMMITS // 2):
                table.commit(changes_of(commit))
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A closed store of so many entries that all are in a file of buckets."""
    path = tmp_path / "large"
    with closing(open_store(path)) as table:
        table.commit([put(order, order % 16, order // 16 % 16) for order in range(LEAST_DOCUMENTS)])
        table.candidates(SCHEME.buckets(fingerprint_of(0)))
        table.commit([])
    return path


@contextmanager
def opened(path: Path) -> Iterator[RocksBlockTable]:
    """The store, open until the end of the block."""
    with closing(open_store(path)) as table:
        yield table


def files(path: Path, pattern: str) -> list[Path]:
    """Files of a store, smallest first; there is one at least."""
    found = sorted(path.glob(pattern), key=lambda file: file.stat().st_size)
    assert found, f"no {pattern} in {path}"
    return found


def overwrite(file: Path, start: float, length: int) -> None:
    """Turn over every bit of ``length`` bytes from a share ``start`` of the file on."""
    content = bytearray(file.read_bytes())
    at = int(len(content) * start)
    content[at : at + length] = bytes(byte ^ 0xFF for byte in content[at : at + length])
    file.write_bytes(content)


def cut(file: Path, share: float) -> None:
    """Keep the first ``share`` of a file."""
    os.truncate(file, int(file.stat().st_size * share))


DAMAGES: Final[dict[str, Callable[[Path], object]]] = {
    "CURRENT is empty": lambda path: cut(path / "CURRENT", 0),
    "CURRENT is garbage": lambda path: (path / "CURRENT").write_bytes(b"\x00" * 16),
    "CURRENT names another file": lambda path: (path / "CURRENT").write_text("MANIFEST-999999\n"),
    "CURRENT is gone": lambda path: (path / "CURRENT").unlink(),
    "manifest is gone": lambda path: files(path, "MANIFEST-*")[-1].unlink(),
    "manifest is empty": lambda path: cut(files(path, "MANIFEST-*")[-1], 0),
    "manifest begins with garbage": lambda path: overwrite(files(path, "MANIFEST-*")[-1], 0, 64),
    "a sorted file is gone": lambda path: files(path, "*.sst")[-1].unlink(),
    "a sorted file is cut": lambda path: cut(files(path, "*.sst")[-1], 0.5),
    "a sorted file is empty": lambda path: cut(files(path, "*.sst")[0], 0),
    "a sorted file ends in garbage": lambda path: overwrite(files(path, "*.sst")[-1], 0.995, 64),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_that_opening_finds(path: Path, damage: Callable[[Path], object]) -> None:
    """Given a store with a damaged file, when it is opened, then the error names the directory
    and says what to do; and after that has been done there is a new one.
    """
    damage(path)

    for _ in range(2):
        with pytest.raises(StoreCorruptError) as caught:
            open_store(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert "delete the directory and start again" in str(caught.value)

    discard_store(path)
    with opened(path) as table:
        assert len(table) == 0


def look_up_all(table: RocksBlockTable) -> None:
    """Read every row and every entry."""
    for bucket in ALL_BUCKETS:
        table.candidates([bucket])
    for order in range(len(table)):
        table.entry(order)
    table.in_flight()


@pytest.mark.parametrize("share", [0.02, 0.2, 0.4, 0.6])
def test_damage_that_reading_finds(path: Path, share: float) -> None:
    """Given damage inside a sorted file, which RocksDB does not see at opening, when what stands
    there is read, then an error is raised: rows that are lost never look like rows that are not
    there.
    From then on the store is known to be damaged, and its lock is free all the same.
    """
    overwrite(files(path, "*.sst")[-1], share, 9000)
    caught = None
    try:
        with opened(path) as table:
            look_up_all(table)
    except StoreCorruptError as error:
        # The error is kept, as a logger or a debugger would, and with it every frame.
        caught = error
    assert caught is not None
    assert str(caught).startswith(f"{path}: ")
    assert (path / DAMAGE_MARK).exists()

    with pytest.raises(StoreCorruptError, match="found damaged"):
        open_store(path)
    discard_store(path)
    with opened(path) as table:
        table.commit([put(0, 1, 2, 3, 4)])
        assert len(table) == 1


def test_entries_that_are_to_be_indexed_are_read_at_opening(path: Path) -> None:
    """Given files in which every block is damaged, and entries that are in no file of buckets,
    then the store is not opened: no look-up can give fewer rows than there were.
    """
    for file in files(path, "*.sst"):
        overwrite(file, 0, int(file.stat().st_size * 0.8))

    with pytest.raises(StoreCorruptError, match="checksum"):
        open_store(path)


def test_each_reading_of_an_entry_finds_its_damage(large: Path) -> None:
    """Given a file in which nearly every block is damaged, and a file of buckets that is whole,
    then look-ups give all that they gave, and reading the entry of a candidate raises.
    """
    with opened(large) as table:
        whole = all_met(table)
    largest = files(large, "*.sst")[-1]
    overwrite(largest, 0, int(largest.stat().st_size * 0.8))

    with opened(large) as table:
        assert all_met(table) == whole
        for order in range(0, LEAST_DOCUMENTS // 2, 1000):
            with pytest.raises(StoreCorruptError, match="checksum"):
                table.entry(order)


LOG_DAMAGES: Final[dict[str, Callable[[Path], object]]] = {
    "cut a little": lambda log: cut(log, 0.93),
    "cut in the middle": lambda log: cut(log, 0.5),
    "damaged in the middle": lambda log: overwrite(log, 0.5, 64),
    "cut near its beginning": lambda log: cut(log, 0.05),
}


@pytest.mark.parametrize("damage", LOG_DAMAGES.values(), ids=LOG_DAMAGES.keys())
def test_a_log_that_lost_something_is_an_earlier_state(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """Given a write-ahead log that lost its end, or something before it, as by a loss of power,
    then the store is as it was after some earlier commit, whole, with nothing of any after it;
    how far it goes is its progress.
    """
    path = tmp_path / "shard-0"
    left = tmp_path / "left"
    with opened(path) as table:
        for commit in range(COMMITS):
            table.commit(changes_of(commit))
        # Closing writes sorted files; what a loss of power leaves is what is there before.
        shutil.copytree(path, left)
    damage(files(left, "*.log")[-1])

    with opened(left) as table, opened(tmp_path / "expected") as expected:
        commits = table.in_flight().progress.offset
        for commit in range(commits):
            expected.commit(changes_of(commit))
        assert all_met(table) == all_met(expected)
        assert table.in_flight() == expected.in_flight()
        assert len(table) == len(expected)
    assert commits < COMMITS


@pytest.mark.parametrize(
    "key",
    [
        COUNT_KEY,
        PROGRESS_KEY,
        entry_key(0),
        pending_key(SourcePosition("t", 0, 0)),
        parked_key(0),
        b"p short",
        b"p\xff not UTF-8 ....",
        b"e not an order",
        b"S short",
        segment_key(0),
    ],
)
def test_values_that_nobody_wrote(tmp_path: Path, key: bytes) -> None:
    """Given a key or a value that is not in our format, then reading it says that the store is
    damaged, and shows the bytes.
    """
    path = tmp_path / "shard-0"
    with opened(path) as table:
        table.commit([put(0, 1), PutPending(SourcePosition("t", 0, 0), entry_of(1, b""))])
    options = store_options(StoreSettings(), block_cache(MIB), create=False)
    store = RocksStore(path, options, write_options(StoreSettings()))
    batch = WriteBatch(raw_mode=True)
    store.put(batch, key, b"\xc1\xc1")
    store.write(batch)
    store.close()

    with pytest.raises(StoreCorruptError, match=r"c1c1|70ff|7020|6520|5320"), opened(path) as table:
        look_up_all(table)


def test_a_mark_that_cannot_be_written_hides_nothing(large: Path) -> None:
    """Given a store whose directory is gone while it is open, when damage is met, then the error
    is that of the damage.
    """
    largest = files(large, "*.sst")[-1]
    overwrite(largest, 0, int(largest.stat().st_size * 0.8))
    table = open_store(large)
    large.rename(large.with_name("elsewhere"))

    with pytest.raises(StoreCorruptError, match="checksum"):
        table.entry(0)
    table.close()
