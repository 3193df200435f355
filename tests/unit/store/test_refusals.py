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

from simhash_core.errors import FirstseenError, IndexMismatchError, UsageError
from streams.store.rocksdb_store import MIB, StoreSettings, block_cache
from streams.store.row_codec import (
    FORMAT_VERSION,
    IDENTITY_KEY,
    StoreIdentity,
    encode_identity,
    entry_key,
)
from streams.store.row_store import (
    OtherChangelogError,
    StoreAccessError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
    StoreMissingError,
    StoreVersionError,
)
from streams.store.shard_directory import discard_store, shard_directory
from streams.store.shard_store import ShardStore
from tests.repository.source_tree import ROOT
from tests.unit.store.raw_store import raw_store, read_raw, write_raw
from tests.unit.store.samples import (
    IDENTITY,
    fingerprints_in,
    new_entries,
    open_store,
    progress_at,
    sample,
)

SECONDS_MAX = 120


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The directory of a store with one entry."""
    path = shard_directory(tmp_path, "tests", 3)
    with closing(open_store(path)) as store:
        store.commit([new_entries(0, [sample(0)])], progress_at(1))
    return path


def refused(
    path: Path, error_class: type[FirstseenError], identity: StoreIdentity = IDENTITY
) -> str:
    """Open a store that must be refused; give the message, which names the directory."""
    with pytest.raises(error_class) as caught:
        open_store(path, identity=identity)
    assert type(caught.value) is error_class
    assert str(path) in str(caught.value)
    return str(caught.value)


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
    with closing(open_store(path)) as reopened:
        assert len(reopened) == 1


@pytest.mark.parametrize(
    ("changed", "values"),
    [({"application_id": "other"}, ("tests", "other")), ({"partition": 1}, ("3", "1"))],
)
def test_another_shard(path: Path, changed: dict[str, object], values: tuple[str, str]) -> None:
    """Given the store of another application or partition, then both values are in the message,
    and what to do.
    """
    message = refused(path, StoreMismatchError, msgspec.structs.replace(IDENTITY, **changed))

    said = message.removeprefix(str(path))
    assert [value for value in values if not re.search(rf"\b{value}\b", said)] == []
    assert StoreMismatchError.fix in message


def test_another_changelog(tmp_path: Path) -> None:
    """Given a store that names no changelog, then it takes the name of the first one that opens it;
    from then on another one, as of another cluster, is refused, and no name changes nothing.
    """
    path = tmp_path / "shard-3"
    named = msgspec.structs.replace(IDENTITY, changelog_id="this topic")
    for identity in (IDENTITY, named, IDENTITY, named):
        open_store(path, identity=identity).close()

    other = msgspec.structs.replace(IDENTITY, changelog_id="that topic")
    message = refused(path, OtherChangelogError, other)

    assert "this topic" in message
    assert "that topic" in message
    assert OtherChangelogError.fix in message


def test_a_mismatch_of_the_shard_is_said_before_that_of_the_index(path: Path) -> None:
    """Given a store in which all differs, then the path is more likely wrong than the settings."""
    refused(path, StoreMismatchError, StoreIdentity("other", "other", 1))


@pytest.mark.parametrize("version", [1, FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_another_format(path: Path, version: int) -> None:
    """Given a store of an earlier or a later format, then both versions are in the message, in one
    line, and the store is not taken for damaged.
    """
    write_raw(path, {IDENTITY_KEY: version.to_bytes(2, "big") + b"\xc1 who knows"})

    message = refused(path, StoreVersionError)

    assert re.search(rf"\b{version}\b.*\b{FORMAT_VERSION}\b", message.removeprefix(str(path)))
    assert "\n" not in message


@pytest.mark.parametrize("value", [b"", b"\x00", encode_identity(IDENTITY)[:-1], b"\x00\x04\xc0"])
def test_an_identity_that_cannot_be_read(path: Path, value: bytes) -> None:
    """Given a store whose identity is cut or is something else, then it is damaged."""
    write_raw(path, {IDENTITY_KEY: value})

    refused(path, StoreCorruptError)


def test_a_database_of_something_else(tmp_path: Path) -> None:
    """Given a database without an identity but with keys, then it is not made ours."""
    write_raw(tmp_path / "theirs", {entry_key(0): b"something"})

    refused(tmp_path / "theirs", StoreCorruptError)

    assert read_raw(tmp_path / "theirs") == {entry_key(0): b"something"}


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
    write_raw(path, {b"one": b""})
    with raw_store(path) as store:
        batch = store.batch()
        batch.delete(b"one")
        batch.write()

    with pytest.raises(StoreCorruptError):
        open_store(path, must_exist=True)
    open_store(path).close()
    open_store(path, must_exist=True).close()


def test_a_store_that_must_exist_and_does(path: Path) -> None:
    """Given a store where there must be one, then it is opened."""
    with closing(open_store(path, must_exist=True)) as store:
        assert len(store) == 1


def test_two_openings_in_one_process(path: Path) -> None:
    """Given an open store, then it cannot be opened twice, and after closing it can."""
    store = open_store(path)
    refused(path, StoreLockedError)

    store.close()
    open_store(path).close()


def test_an_iterator_in_use_does_not_outlive_the_store(path: Path) -> None:
    """Given a store that is being read, when it is closed, then its lock is free once the reading
    is given up.
    """
    store = open_store(path)
    parts = store.prints()
    next(parts)
    del parts
    store.close()

    open_store(path).close()


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store open; it is gone at the end of the test."""
    command = [sys.executable, "-m", "tests.unit.store.crashing_writer", str(path), "hold"]
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
    refused(path, StoreLockedError)

    holder.kill()
    holder.wait(SECONDS_MAX)
    open_store(path).close()


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    """Given a file where the directory must be, then it is refused and not touched."""
    path = tmp_path / "shard-3"
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
    path = Path("/proc/firstseen/shard-3")

    assert "No such file or directory" in refused(path, StoreAccessError)


@pytest.mark.parametrize(
    "ask",
    [
        fingerprints_in,
        lambda store: list(store.all_entries()),
        lambda store: store.entries([0]),
        lambda store: store.by_content(bytes(16)),
        lambda store: store.commit([], progress_at(2)),
        lambda store: store.number("rocksdb.total-sst-files-size"),
    ],
)
def test_a_closed_store(path: Path, ask: Callable[[ShardStore], object]) -> None:
    """Given a closed store, when it is asked for anything, then it says that it is closed."""
    store = open_store(path)
    store.close()

    with pytest.raises(StoreClosedError, match=re.escape(str(path))):
        ask(store)


@pytest.mark.parametrize("size", [0, MIB - 1, 1024 * MIB + 1])
def test_a_write_buffer_out_of_range(size: int) -> None:
    """Given a write buffer that cannot be, then the message names its size and the range."""
    with pytest.raises(UsageError, match=f"write_buffer_bytes is {size}: .*{MIB}"):
        StoreSettings(write_buffer_bytes=size)


def test_a_cache_that_is_too_small() -> None:
    """Given less than a MiB for a cache, then it is refused."""
    with pytest.raises(UsageError, match=f"{MIB - 1} bytes"):
        block_cache(MIB - 1)


def test_a_discarded_store_is_gone(path: Path) -> None:
    """Given a store, when it is discarded, then a new one is empty; once more changes nothing."""
    discard_store(path)
    assert list(path.parent.iterdir()) == []
    discard_store(path)

    with closing(open_store(path)) as store:
        assert len(store) == 0


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
