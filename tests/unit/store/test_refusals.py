"""Stores that are not opened: each refusal names the directory and says what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from simhash_core.errors import FirstseenError, IndexMismatchError, UsageError
from streams.errors import SettingsError
from streams.settings.settings import Settings
from streams.store.rocksdb_store import MIB, block_cache
from streams.store.row_codec import (
    ENTRIES,
    FORMAT_VERSION,
    IDENTITY_KEY,
    StoreIdentity,
    encode_identity,
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
from streams.store.shard_directory import RocksDisk, make_state_directory, shard_directory
from tests.repository.source_tree import ROOT
from tests.unit.store.samples import (
    IDENTITY,
    new_entries,
    open_store,
    progress_at,
    raw_store,
    read_raw,
    sample,
    write_raw,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the directory of a store with one entry."""
    path = shard_directory(tmp_path, "tests", 3)
    with closing(open_store(path)) as store:
        store.commit([new_entries(0, [sample(0)])], progress_at(1))
    return path


def refused(
    path: Path, error_class: type[FirstseenError], identity: StoreIdentity = IDENTITY
) -> str:
    """Open a store that must be refused; return the message, which names the directory."""
    with pytest.raises(error_class) as caught:
        open_store(path, identity=identity)
    assert type(caught.value) is error_class
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0b"])
def test_application_id_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(name))):
        shard_directory(tmp_path, name, 0)


OTHER_INDEX = {"index_identity": "firstseen-index/1 of another day"}


@pytest.mark.parametrize(
    ("changed", "error_class", "said"),
    [
        (OTHER_INDEX, IndexMismatchError, [IDENTITY.index_identity, *OTHER_INDEX.values()]),
        ({"application_id": "other"}, StoreMismatchError, ["tests", "other"]),
        ({"partition": 1}, StoreMismatchError, ["3", "1"]),
        # If everything differs, the path is more likely wrong than the settings.
        ({**OTHER_INDEX, "application_id": "other", "partition": 1}, StoreMismatchError, []),
    ],
    ids=["index", "application", "partition", "all"],
)
def test_store_of_others_is_refused_with_both_values_and_kept(
    path: Path, changed: dict[str, object], error_class: type[FirstseenError], said: list[str]
) -> None:
    message = refused(path, error_class, msgspec.structs.replace(IDENTITY, **changed))
    after_path = message.removeprefix(str(path))
    assert [each for each in said if not re.search(rf"\b{re.escape(each)}\b", after_path)] == []
    assert error_class is IndexMismatchError or StoreMismatchError.fix in message
    with closing(open_store(path)) as reopened:
        assert len(reopened) == 1


def test_store_keeps_the_name_of_its_first_changelog(path: Path) -> None:
    this, that = (
        msgspec.structs.replace(IDENTITY, changelog_id=each)
        for each in ("this topic", "that topic")
    )
    for identity in (IDENTITY, this, IDENTITY, this):
        open_store(path, identity=identity).close()
    message = refused(path, OtherChangelogError, that)
    for said in ("this topic", "that topic", OtherChangelogError.fix):
        assert said in message


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


def test_only_an_empty_store_is_made_ours(tmp_path: Path) -> None:
    theirs = {ENTRIES.key(0): b"something"}
    write_raw(tmp_path / "theirs", theirs)
    refused(tmp_path / "theirs", StoreCorruptError)
    assert read_raw(tmp_path / "theirs") == theirs
    for path in (tmp_path / "not-there", tmp_path):
        with pytest.raises(StoreMissingError, match=re.escape(str(path))):
            open_store(path, must_exist=True)
    assert not (tmp_path / "not-there").exists()
    with raw_store(tmp_path / "empty"):
        pass
    with pytest.raises(StoreCorruptError):
        open_store(tmp_path / "empty", must_exist=True)
    open_store(tmp_path / "empty").close()
    open_store(tmp_path / "empty", must_exist=True).close()


def test_store_of_another_process_is_locked_until_that_is_gone(path: Path) -> None:
    command = [sys.executable, "-m", "tests.unit.store.crashing_writer", str(path), "hold"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            refused(path, StoreLockedError)
        finally:
            holder.kill()
    open_store(path).close()


def test_what_cannot_be_written_to_is_refused_and_kept(path: Path) -> None:
    file = path.with_name("shard-4")
    file.write_bytes(b"a file")
    refused(file, StoreAccessError)
    assert file.read_bytes() == b"a file"
    config = path / "rocksdict-config.json"
    config.unlink()
    config.mkdir()
    assert "Is a directory" in refused(path, StoreAccessError)
    said = refused(Path("/proc/firstseen/shard-3"), StoreAccessError)
    assert "No such file or directory" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed: root can become one")
def test_a_state_directory_of_another_user_is_refused_with_the_setting() -> None:
    """A command reports this error with exit code 78."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(state_dir=Path(directory))
        settings.state_path().mkdir()
        Path(directory).chmod(0o755)
        os.seteuid(65_534)
        try:
            with pytest.raises(SettingsError, match=r"Permission denied.*set state_dir") as refusal:
                make_state_directory(settings)
        finally:
            os.seteuid(0)
        (problem,) = refusal.value.problems
        assert problem.setting == "state_dir"
        make_state_directory(settings)
        assert list(settings.state_path().iterdir()) == []


def test_cache_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match=f"{MIB - 1} bytes"):
        block_cache(MIB - 1)


def test_discarded_store_is_gone_even_after_an_interruption(path: Path) -> None:
    aside = path.with_name(f"{path.name}.discarded")
    path.rename(aside)
    next(aside.glob("*.log")).unlink()
    with closing(open_store(path)) as store:
        assert len(store) == 0
    for _ in range(2):
        RocksDisk.discard(path)
        assert list(path.parent.iterdir()) == []


def test_every_error_but_the_callers_own_says_what_to_do(tmp_path: Path) -> None:
    for error_class in StoreError.__subclasses__():
        message = str(error_class(tmp_path, "what is wrong"))
        assert message.startswith(f"{tmp_path}: what is wrong.")
        assert bool(error_class.fix) is (error_class is not StoreClosedError)
