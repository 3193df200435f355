"""Damaged files: a store that lost data reports it, and never seems complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from streams.store.rocksdb_store import DAMAGE_MARK
from streams.store.row_codec import (
    COUNT_KEY,
    ENTRIES,
    PROGRESS_KEY,
    SOURCES,
    content_key,
)
from streams.store.row_store import MissingEntryError, StoreCorruptError, StoreFullError
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_store import ShardStore
from tests.repository.source_tree import ROOT
from tests.rigs.memory_rows import MemoryDisk
from tests.unit.store.samples import (
    BITS,
    IDENTITY,
    check_holds,
    fingerprints_in,
    new_entries,
    open_store,
    progress_at,
    raw_store,
    read_raw,
    sample,
    write,
    write_raw,
)

COMMITS: Final = 30


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "shard-3"
    for first in (0, COMMITS // 2):
        # Close it in between, so that there is more than one file.
        with closing(open_store(path)) as store:
            for commit in range(first, first + COMMITS // 2):
                write(store, commit)
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """Return the path of a closed store with many commits, all in sorted files."""
    return Path(shutil.copytree(whole, tmp_path / "shard-3"))


def files(path: Path, pattern: str) -> list[Path]:
    """Return files, the largest last."""
    return sorted(path.glob(pattern), key=lambda file: file.stat().st_size)


def overwrite(file: Path, start: float, length: int) -> None:
    """Flip each bit of ``length`` bytes; they begin at the share ``start`` of the file."""
    content = bytearray(file.read_bytes())
    at = int(len(content) * start)
    content[at : at + length] = bytes(byte ^ 0xFF for byte in content[at : at + length])
    file.write_bytes(content)


def cut(file: Path, share: float) -> None:
    os.truncate(file, int(file.stat().st_size * share))


DAMAGES: Final[dict[str, Callable[[Path], object]]] = {
    "CURRENT is empty": lambda path: cut(path / "CURRENT", 0),
    "CURRENT names another file": lambda path: (path / "CURRENT").write_text("MANIFEST-999999\n"),
    "CURRENT is gone": lambda path: (path / "CURRENT").unlink(),
    "manifest is gone": lambda path: files(path, "MANIFEST-*")[-1].unlink(),
    "manifest begins with garbage": lambda path: overwrite(files(path, "MANIFEST-*")[-1], 0, 64),
    "a sorted file is gone": lambda path: files(path, "*.sst")[-1].unlink(),
    "a sorted file is cut": lambda path: cut(files(path, "*.sst")[-1], 0.5),
    "a sorted file ends in garbage": lambda path: overwrite(files(path, "*.sst")[-1], 0.998, 64),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_opening_names_damaged_store_and_fix(path: Path, damage: Callable[[Path], object]) -> None:
    damage(path)
    for _ in range(2):
        with pytest.raises(StoreCorruptError) as caught:
            open_store(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert StoreCorruptError.fix in str(caught.value)
    RocksDisk.discard(path)
    with closing(open_store(path)) as store:
        assert len(store) == 0


def read_all(store: ShardStore) -> None:
    fingerprints_in(store)
    for sequence, entry in store.all_entries():
        store.entries([sequence])
        store.by_content(entry.content_digest)


@pytest.fixture
def worn(path: Path) -> Path:
    """Return the path of a closed store in which nearly every block is damaged."""
    with closing(open_store(path)) as store:
        write(store, COMMITS)  # so that the file of the last row, which opening reads, is whole
    for file in files(path, "*.sst")[-2:]:
        overwrite(file, 0, int(file.stat().st_size * 0.8))
    return path


@pytest.mark.parametrize(
    "read",
    [
        fingerprints_in,
        lambda store: list(store.all_entries()),
        lambda store: store.entries([1 << 16]),
    ],
    ids=["fingerprints", "all entries", "one entry"],
)
def test_each_way_of_reading_finds_damage_that_opening_misses(
    worn: Path, read: Callable[[ShardStore], object]
) -> None:
    """Lost rows never look like rows that do not exist."""
    # Keep the error with all its frames, as a logger or a debugger would.
    corrupt = pytest.raises(StoreCorruptError, match="checksum")
    with corrupt as caught, closing(open_store(worn)) as store:
        read(store)
    assert str(caught.value).startswith(f"{worn}: ")
    assert (worn / DAMAGE_MARK).exists()
    with pytest.raises(StoreCorruptError, match="damaged"):
        open_store(worn)
    RocksDisk.discard(worn)
    with closing(open_store(worn)) as store:
        store.commit([new_entries(0, [sample(0)])], progress_at(1))
        assert len(store) == 1


def test_damage_is_reported_where_the_mark_cannot_be_written(worn: Path) -> None:
    with closing(open_store(worn)) as store:
        worn.rename(worn.with_name("elsewhere"))
        with pytest.raises(StoreCorruptError, match="checksum"):
            fingerprints_in(store)


def unharmed(_log: Path) -> None:
    """Do nothing: after kill -9 the operating system has everything that was written."""


@pytest.mark.parametrize(
    "damage",
    [
        unharmed,
        lambda log: cut(log, 0.93),
        lambda log: cut(log, 0.5),
        lambda log: overwrite(log, 0.5, 64),
        lambda log: cut(log, 0.05),
    ],
    ids=[
        "unharmed",
        "cut a little",
        "cut in the middle",
        "damaged in the middle",
        "cut near its beginning",
    ],
)
def test_a_log_is_its_last_commit_or_an_earlier_one(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """After a loss of power, the store has the state of its last or an earlier commit."""
    left = tmp_path / "left"
    with closing(open_store(tmp_path / "shard-3")) as store:
        for commit in range(COMMITS):
            write(store, commit)
        # Closing writes sorted files; a loss of power leaves the files from before that.
        shutil.copytree(store.path, left)
    damage(files(left, "*.log")[-1])
    with closing(open_store(left)) as store:
        lasting = [COMMITS] if damage is unharmed else range(1, COMMITS)
        assert store.changelog_offset in lasting
        check_holds(store, store.changelog_offset)


@pytest.mark.parametrize("lost", [1, 2])
def test_only_the_loss_of_the_last_commits_is_no_damage(lost: int) -> None:
    disk, path = MemoryDisk(), Path("shard-3")
    with closing(open_shard(path, IDENTITY, BITS, disk)) as store:
        for commit in range(6):
            write(store, commit)
    before = disk.copy()
    disk.lose(path, lost)
    with closing(open_shard(path, IDENTITY, BITS, disk)) as store:
        check_holds(store, 6 - lost)
    disk.put_back(before)
    disk.lose(path, lost + 1, 1)
    with pytest.raises(StoreCorruptError, match=f"lacks commits after number {5 - lost}"):
        open_shard(path, IDENTITY, BITS, disk)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return the path of a closed store of two undecidable documents: rows by content and id."""
    with closing(open_store(tmp_path)) as store:
        packets = [new_entries(n, [sample(n, undecidable=True)]) for n in range(2)]
        store.commit(packets, progress_at(1))
        store.by_ids([])
    return tmp_path


def test_row_without_entry_is_damage(small: Path) -> None:
    with raw_store(small) as rows:
        batch = rows.batch()
        batch.delete(ENTRIES.key(0))
        batch.write()
    with closing(open_store(small)) as store:
        with pytest.raises(StoreCorruptError, match="entry 0 is missing"):
            store.entries(store.by_content(sample(0).digest))
        with pytest.raises(StoreCorruptError, match="refers to entry 0, which is missing"):
            store.by_ids([sample(0).document_id.encode()])
    with pytest.raises(StoreCorruptError, match="marked as damaged"):
        open_store(small)


def test_missing_entry_is_a_key_error_and_names_the_store_but_does_not_mark_it(path: Path) -> None:
    with closing(open_store(path)) as store, pytest.raises(KeyError) as caught:
        store.entries([1 << 40])
    assert isinstance(caught.value, MissingEntryError)
    assert isinstance(caught.value, StoreCorruptError)
    assert caught.value.sequence == 1 << 40
    assert str(caught.value).startswith(f"{path}: entry {1 << 40} is missing. ")
    open_store(path).close()


@pytest.mark.parametrize(
    "key",
    [
        *(COUNT_KEY, PROGRESS_KEY, b"w short"),
        *(ENTRIES.key(0), b"e not a sequence"),
        *(SOURCES.key(0), b"s short", content_key(sample(0).digest)),
    ],
)
def test_invalid_rows_are_damage_and_shown(small: Path, key: bytes) -> None:
    write_raw(small, {key: b"\xc1\xc1"})
    corrupt = pytest.raises(StoreCorruptError, match=r"c1c1|6520|7320|7720")
    with corrupt, closing(open_store(small)) as store:
        read_all(store)


@pytest.mark.parametrize("damage", ["cut", "scope", "version", "source", "id", "width"])
def test_invalid_entry_row_is_damage(tmp_path: Path, damage: str) -> None:
    with closing(open_store(tmp_path)) as store:
        store.commit([new_entries(0, [sample(0)])], progress_at(1))
    value = read_raw(tmp_path)[ENTRIES.key(0)]
    wrong = {
        "cut": value[:-1],
        "scope": value[:2] + b"\x80" + value[3:],
        "version": b"\x02" + value[1:],
        "source": value[:27] + b"\x09" + value[28:],
        "id": value[: -len(sample(0).document_id.encode())] + b"\xff" * 5,
        "width": value[:1] + b"\x02" + value[2:] + bytes(40),
    }[damage]
    assert wrong != value
    write_raw(tmp_path, {ENTRIES.key(0): wrong})
    with pytest.raises(StoreCorruptError), closing(open_store(tmp_path)) as store:
        read_all(store)


def test_a_store_with_a_cut_manifest_is_whole_or_damaged(tmp_path: Path) -> None:
    """Without the record of the column family of entries, RocksDB would create an empty one."""
    path, copy, outcomes = tmp_path / "shard-3", tmp_path / "copy", set()
    store = open_store(path)
    write(store, 0)
    entries = dict(store.all_entries())
    shutil.copytree(path, copy)
    store.close()
    (manifest,) = copy.glob("MANIFEST-*")
    for size in range(manifest.stat().st_size, 0, -8):
        shutil.rmtree(path)
        shutil.copytree(copy, path)
        os.truncate(path / manifest.name, size)
        try:
            with closing(open_store(path)) as opened:
                whole = dict(opened.all_entries()) == entries
                outcomes.add("whole" if whole and opened.progress() else "lost")
        except StoreCorruptError:
            outcomes.add("damaged")
    assert outcomes == {"whole", "damaged"}


@pytest.mark.parametrize("mode", ["limit", "disk"])
def test_commit_without_room_fails_whole(tmp_path: Path, mode: str) -> None:
    """A file reaches the limit of its size, or the disk is full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    path = str(disk / "shard-3")
    command = [sys.executable, "-m", "tests.unit.store.crashing_writer", path, mode]
    if mode == "disk":
        mounted = ["unshare", "-rm", "bash", "-c"]
        if (
            not shutil.which("unshare")
            or subprocess.run([*mounted, "true"], check=False).returncode
        ):
            pytest.skip("no mount namespace for this user")
        command = [*mounted, f'mount -t tmpfs -o size=8m tmpfs {disk} && "$@"', "bash", *command]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    commits, _, message = done.stdout.partition(" ")
    assert int(commits) > 3
    assert message.startswith(f"{path}: ")
    assert StoreFullError.fix in message
    assert mode == "limit" or "No space left on device" in message
