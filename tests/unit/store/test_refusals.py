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
    assert shard_directory(tmp_path, "news", 12) == tmp_path / "news" / "shard-12"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0b"])
def test_application_id_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(name))):
        shard_directory(tmp_path, name, 0)


def test_store_of_another_index_is_refused_and_kept(path: Path) -> None:
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
def test_store_of_another_shard_is_refused_with_both_values(
    path: Path, changed: dict[str, object], values: tuple[str, str]
) -> None:
    message = refused(path, StoreMismatchError, msgspec.structs.replace(IDENTITY, **changed))
    said = message.removeprefix(str(path))
    assert [value for value in values if not re.search(rf"\b{value}\b", said)] == []
    assert StoreMismatchError.fix in message


def test_store_keeps_the_name_of_its_first_changelog(tmp_path: Path) -> None:
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
    """The path is more likely wrong than the settings."""
    refused(path, StoreMismatchError, StoreIdentity("other", "other", 1))


@pytest.mark.parametrize("version", [1, FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_another_format_is_refused_with_both_versions(path: Path, version: int) -> None:
    write_raw(path, {IDENTITY_KEY: version.to_bytes(2, "big") + b"\xc1 who knows"})
    message = refused(path, StoreVersionError)
    assert re.search(rf"\b{version}\b.*\b{FORMAT_VERSION}\b", message.removeprefix(str(path)))
    assert "\n" not in message


@pytest.mark.parametrize("value", [b"", b"\x00", encode_identity(IDENTITY)[:-1], b"\x00\x04\xc0"])
def test_identity_that_cannot_be_read_is_damage(path: Path, value: bytes) -> None:
    write_raw(path, {IDENTITY_KEY: value})
    refused(path, StoreCorruptError)


def test_database_of_something_else_is_not_made_ours(tmp_path: Path) -> None:
    write_raw(tmp_path / "theirs", {entry_key(0): b"something"})
    refused(tmp_path / "theirs", StoreCorruptError)
    assert read_raw(tmp_path / "theirs") == {entry_key(0): b"something"}


def test_store_that_must_exist_is_not_made(tmp_path: Path) -> None:
    for path in (tmp_path / "not-there", tmp_path):
        with pytest.raises(StoreMissingError, match=re.escape(str(path))):
            open_store(path, must_exist=True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_must_exist_and_lost_all(tmp_path: Path) -> None:
    """It has lost even its identity."""
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
    with closing(open_store(path, must_exist=True)) as store:
        assert len(store) == 1


def test_open_store_is_locked_until_it_is_closed(path: Path) -> None:
    store = open_store(path)
    refused(path, StoreLockedError)
    store.close()
    open_store(path).close()


def test_lock_is_free_after_a_reading_that_was_given_up(path: Path) -> None:
    store = open_store(path)
    parts = store.prints()
    next(parts)
    del parts
    store.close()
    open_store(path).close()


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
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


def test_store_of_another_process_is_locked_until_that_is_gone(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    refused(path, StoreLockedError)
    holder.kill()
    holder.wait(SECONDS_MAX)
    open_store(path).close()


def test_file_in_place_of_the_directory_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "shard-3"
    path.write_bytes(b"a file")
    refused(path, StoreAccessError)
    assert path.read_bytes() == b"a file"


def test_directory_that_cannot_be_written_to_is_refused(path: Path) -> None:
    config = path / "rocksdict-config.json"
    config.unlink()
    config.mkdir()
    assert "Is a directory" in refused(path, StoreAccessError)


def test_directory_that_cannot_be_made_is_refused() -> None:
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
def test_closed_store_says_so_whatever_it_is_asked(
    path: Path, ask: Callable[[ShardStore], object]
) -> None:
    store = open_store(path)
    store.close()
    with pytest.raises(StoreClosedError, match=re.escape(str(path))):
        ask(store)


@pytest.mark.parametrize("size", [0, MIB - 1, 1024 * MIB + 1])
def test_write_buffer_out_of_range_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match=f"write_buffer_bytes is {size}: .*{MIB}"):
        StoreSettings(write_buffer_bytes=size)


def test_cache_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match=f"{MIB - 1} bytes"):
        block_cache(MIB - 1)


def test_a_discarded_store_is_gone(path: Path) -> None:
    discard_store(path)
    assert list(path.parent.iterdir()) == []
    discard_store(path)
    with closing(open_store(path)) as store:
        assert len(store) == 0


def test_next_discard_clears_away_what_an_interrupted_one_left(path: Path) -> None:
    aside = path.with_name(f"{path.name}.discarded")
    path.rename(aside)
    next(aside.glob("*.log")).unlink()
    open_store(path).close()
    discard_store(path)
    assert list(path.parent.iterdir()) == []


def test_every_error_but_the_callers_own_says_what_to_do(tmp_path: Path) -> None:
    for error_class in StoreError.__subclasses__():
        message = str(error_class(tmp_path, "what is wrong"))
        assert message.startswith(f"{tmp_path}: what is wrong.")
        assert bool(error_class.fix) is (error_class is not StoreClosedError)
