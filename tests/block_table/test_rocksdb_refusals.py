"""Stores that are not opened: each refusal names the directory and says what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from rocksdict import WriteBatch

from simhash_core.entries import PutEntry
from simhash_core.errors import FirstseenError, IndexMismatchError, UsageError
from simhash_core.placement import Placement
from streams.rocksdb_options import MIB, StoreSettings, block_cache, store_options, write_options
from streams.rocksdb_store import RocksStore
from streams.rocksdb_table import RocksBlockTable
from streams.shard_directory import discard_store, shard_directory
from streams.state_codec import (
    FORMAT_VERSION,
    IDENTITY_KEY,
    StoreIdentity,
    encode_identity,
    entry_key,
)
from streams.store.store_errors import (
    StoreAccessError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
    StoreMissingError,
    StoreVersionError,
)
from tests.architecture.source_tree import ROOT
from tests.block_table.samples import IDENTITY, PLACEMENT, SCHEME, open_store, put

SECONDS_MAX = 120


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The directory of a store with one entry."""
    path = shard_directory(tmp_path, "tests", 0)
    table = open_store(path)
    table.commit([put(0, 1, 2, 3, 4)])
    table.close()
    return path


def refused(
    path: Path, error_class: type[FirstseenError], identity: StoreIdentity = IDENTITY
) -> str:
    """Open a store that must be refused; give the message, which names the directory."""
    placement = Placement(SCHEME, identity.partitions)
    with pytest.raises(error_class) as caught:
        open_store(path, identity=identity, placement=placement)
    assert type(caught.value) is error_class
    assert str(path) in str(caught.value)
    return str(caught.value)


def write_raw(path: Path, key: bytes, value: bytes) -> None:
    """Put one key into a store, behind the table's back."""
    options = store_options(StoreSettings(), block_cache(MIB), create=True)
    path.mkdir(parents=True, exist_ok=True)
    store = RocksStore(path, options, write_options(StoreSettings()))
    batch = WriteBatch(raw_mode=True)
    batch.put(key, value)
    store.write(batch)
    store.close()


def test_a_store_has_its_own_directory(tmp_path: Path) -> None:
    """Given a state directory, then a shard's store is under the application, by its partition."""
    assert shard_directory(tmp_path, "news", 12) == tmp_path / "news" / "shard-12"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0b"])
def test_application_id_is_a_name_of_a_directory(tmp_path: Path, name: str) -> None:
    """Given an application id that would lead elsewhere, then it is refused by name."""
    with pytest.raises(UsageError, match=re.escape(repr(name))):
        shard_directory(tmp_path, name, 0)


def test_another_index_identity(path: Path) -> None:
    """Given a store of another index, then both are in the message, and it stays as it is."""
    theirs = "firstseen-index/1 of another day"
    message = refused(
        path, IndexMismatchError, msgspec.structs.replace(IDENTITY, index_identity=theirs)
    )

    assert theirs in message
    assert IDENTITY.index_identity in message
    reopened = open_store(path)
    assert len(reopened) == 1
    reopened.close()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"application_id": "other"}, "application id tests, and here it is other"),
        ({"partition": 1, "partitions": 2}, "partition 0, and here it is 1"),
        ({"partitions": 2}, "partitions 1, and here it is 2"),
    ],
)
def test_another_shard(path: Path, changed: dict[str, object], said: str) -> None:
    """Given the store of another application, partition or number of partitions, then both values
    are in the message, and what to do.
    """
    message = refused(path, StoreMismatchError, msgspec.structs.replace(IDENTITY, **changed))

    assert said in message
    assert "new application id" in message


def test_a_mismatch_of_the_shard_is_said_before_that_of_the_index(path: Path) -> None:
    """Given a store in which all differs, then the path is more likely wrong than the settings."""
    refused(path, StoreMismatchError, StoreIdentity("other", "other", 1, 2))


def test_a_newer_format(path: Path) -> None:
    """Given a store of a later version, then both versions are in the message."""
    write_raw(path, IDENTITY_KEY, (FORMAT_VERSION + 1).to_bytes(2, "big") + b"\xc1 who knows")

    message = refused(path, StoreVersionError)

    assert f"format {FORMAT_VERSION + 1}" in message
    assert f"reads {FORMAT_VERSION}" in message


@pytest.mark.parametrize("value", [b"", b"\x00", encode_identity(IDENTITY)[:-1], b"\x00\x02\xc0"])
def test_an_identity_that_cannot_be_read(path: Path, value: bytes) -> None:
    """Given a store whose identity is cut or is something else, then it is damaged."""
    write_raw(path, IDENTITY_KEY, value)

    refused(path, StoreCorruptError)


def test_a_database_of_something_else(tmp_path: Path) -> None:
    """Given a database without an identity but with keys, then it is not made ours."""
    write_raw(tmp_path / "theirs", entry_key(0), b"something")

    assert "does not say whose" in refused(tmp_path / "theirs", StoreCorruptError)


def test_a_store_that_must_exist(tmp_path: Path) -> None:
    """Given no store, or an empty directory, where there must be one, then none is made."""
    for path in (tmp_path / "not-there", tmp_path):
        with pytest.raises(StoreMissingError, match=re.escape(str(path))):
            open_store(path, must_exist=True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_must_exist_and_lost_all(tmp_path: Path) -> None:
    """Given a database without any key, where there must be a store, then it is damaged, as it
    has lost even its identity; where there need not be one, it is made new.
    """
    path = tmp_path / "s"
    write_raw(path, b"one", b"")
    options = store_options(StoreSettings(), block_cache(MIB), create=False)
    with closing(RocksStore(path, options, write_options(StoreSettings()))) as store:
        batch = WriteBatch(raw_mode=True)
        batch.delete(b"one")
        store.write(batch)

    with pytest.raises(StoreCorruptError, match="does not say whose"):
        open_store(path, must_exist=True)
    open_store(path).close()
    open_store(path, must_exist=True).close()


def test_a_store_that_must_exist_and_does(path: Path) -> None:
    """Given a store where there must be one, then it is opened."""
    table = open_store(path, must_exist=True)
    assert len(table) == 1
    table.close()


def test_two_openings_in_one_process(path: Path) -> None:
    """Given an open store, then it cannot be opened twice, and after closing it can."""
    table = open_store(path)
    refused(path, StoreLockedError)

    table.close()
    open_store(path).close()


def test_an_iterator_in_use_does_not_outlive_the_table(path: Path) -> None:
    """Given a table that has answered look-ups, when it is closed, then its lock is free."""
    table = open_store(path)
    table.candidates(SCHEME.buckets(bytes(8)))
    table.close()

    open_store(path).close()


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open; it is gone at the end of the test."""
    command = [sys.executable, "-m", "tests.block_table.crashing_writer", str(path), "hold"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def test_a_store_that_another_process_has(path: Path, holder: subprocess.Popen[str]) -> None:
    """Given a store that another process has open, then it is refused until that one is gone."""
    assert "One process at a time" in refused(path, StoreLockedError)

    holder.kill()
    holder.wait(SECONDS_MAX)
    open_store(path).close()


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    """Given a file where the directory must be, then it is refused and not touched."""
    path = tmp_path / "shard-0"
    path.write_bytes(b"a file")

    refused(path, StoreAccessError)

    assert path.read_bytes() == b"a file"


def test_a_directory_that_cannot_be_written_to(path: Path) -> None:
    """Given a directory in which a file that is written at each opening cannot be, then the
    message says what the system said.
    """
    config = path / "rocksdict-config.json"
    config.unlink()
    config.mkdir()

    assert "Is a directory" in refused(path, StoreAccessError)


def test_a_directory_that_cannot_be_made() -> None:
    """Given a place where no directory can be made, then the message says what the system said."""
    path = Path("/proc/firstseen/shard-0")

    assert "No such file or directory" in refused(path, StoreAccessError)


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.candidates(SCHEME.buckets(bytes(8))),
        lambda table: table.entry(0),
        lambda table: table.commit([put(1, 1)]),
        lambda table: table.in_flight(),
    ],
)
def test_a_closed_table(path: Path, ask: Callable[[RocksBlockTable], object]) -> None:
    """Given a closed table, when it is asked for anything, then it says that it is closed."""
    table = open_store(path)
    table.candidates(SCHEME.buckets(bytes(8)))
    table.close()

    with pytest.raises(StoreClosedError, match=re.escape(str(path))):
        ask(table)


def test_an_identity_that_does_not_fit_the_placement(tmp_path: Path) -> None:
    """Given an identity of other partitions than the placement, then nothing is opened."""
    with pytest.raises(UsageError, match=r"over 1 partitions.*says 2"):
        open_store(tmp_path / "s", identity=StoreIdentity("i", "a", 0, 2), placement=PLACEMENT)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("size", [0, MIB - 1, 1024 * MIB + 1])
def test_a_write_buffer_out_of_range(size: int) -> None:
    """Given a write buffer that cannot be, then the message names its size and the range."""
    with pytest.raises(UsageError, match=f"write_buffer_bytes is {size}: .*{MIB}"):
        StoreSettings(write_buffer_bytes=size)


def test_a_cache_that_is_too_small() -> None:
    """Given less than a MiB for a cache, then it is refused."""
    with pytest.raises(UsageError, match=f"{MIB - 1} bytes"):
        block_cache(MIB - 1)


def test_a_staged_entry_may_not_be_forgotten(path: Path) -> None:
    """Given a staged entry, when a commit leaves it out, then nothing is written, and a commit
    that has it still can be.
    """
    table = open_store(path)
    table.stage(put(1, 1, 1, 1, 1))
    with pytest.raises(UsageError, match="order 1 was staged"):
        table.commit([put(2, 2, 2, 2, 2)])

    table.commit([put(1, 1, 1, 1, 1)])
    assert len(table) == 2
    with pytest.raises(KeyError):
        table.entry(2)
    table.close()


@pytest.mark.parametrize("order", [-1, 2**64])
def test_an_order_that_cannot_be_stored(path: Path, order: int) -> None:
    """Given an order outside 64 bits, then it is refused when it is staged, not at the commit."""
    table = open_store(path)
    with pytest.raises(UsageError, match=str(order)):
        table.stage(PutEntry(order, put(0, 1).entry))
    assert len(table) == 1
    table.close()


def test_a_discarded_store_is_gone(path: Path) -> None:
    """Given a store, when it is discarded, then a new one is empty; once more changes nothing."""
    discard_store(path)
    assert list(path.parent.iterdir()) == []
    discard_store(path)

    table = open_store(path)
    assert len(table) == 0
    table.close()


def test_a_discard_that_was_interrupted(path: Path) -> None:
    """Given what a crash in the middle of a discard leaves, then the next one clears it away."""
    aside = path.with_name(f"{path.name}.discarded")
    path.rename(aside)
    next(aside.glob("*.log")).unlink()
    open_store(path).close()

    discard_store(path)

    assert list(path.parent.iterdir()) == []


def test_every_error_says_what_to_do(tmp_path: Path) -> None:
    """Given the classes of store errors, then each but the caller's own mistake ends with a fix."""
    for error_class in StoreError.__subclasses__():
        message = str(error_class(tmp_path, "what is wrong"))
        assert message.startswith(f"{tmp_path}: what is wrong.")
        assert bool(error_class.fix) is (error_class is not StoreClosedError)
