"""A disk that fails or loses power hurts files as it says, and a store survives both."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streams.settings.settings import Settings
from streams.store.row_store import StoreAccessError, StoreMissingError
from streams.store.shard_directory import make_state_directory
from tests.repository.source_tree import ROOT
from tests.torture.failing_disk import Disk, why_no_failing_disk
from tests.unit.store.samples import ENTRIES_PER_COMMIT, check_holds, open_store, write

WHY_NOT = why_no_failing_disk()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no disk that can fail: {WHY_NOT}"),
]
COMMITS = 400
FAILS = os.strerror(errno.EIO)
WRITER = f"""
import sys
from pathlib import Path
from tests.unit.store.samples import open_store, write
store = open_store(Path(sys.argv[1]))
for commit in range({COMMITS}):
    write(store, commit)
    print(commit, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with closing(Disk(tmp_path / "disk", tmp_path / "state")) as made:
        yield made


@pytest.fixture
def state(disk: Disk) -> Path:
    return disk.mount_point


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def names_and_sizes(state: Path) -> dict[str, int]:
    return {each.name: each.stat().st_size for each in state.iterdir() if each.suffix}


def test_only_what_was_not_synced_is_lost(disk: Disk, state: Path) -> None:
    (state / "kept.txt").write_bytes(b"synced")
    sync(state / "kept.txt")
    sync(state)
    lost = 0
    for seed in range(20):
        with (state / "kept.txt").open("ab") as file:
            file.write(b"not synced")
        (state / "new.txt").write_bytes(b"new")
        (state / "new.txt").rename(state / "renamed.txt")
        disk.lose_power(random.Random(seed))
        found = names_and_sizes(state)
        assert (state / "kept.txt").read_bytes().startswith(b"synced")
        assert found.keys() - {"kept.txt"} in ({"new.txt"}, {"renamed.txt"}, set())
        lost += found != {"kept.txt": len("syncednot synced"), "renamed.txt": 3}
        for other in found.keys() - {"kept.txt"}:
            (state / other).unlink()
        os.truncate(state / "kept.txt", len("synced"))
        sync(state / "kept.txt")
        sync(state)
    assert lost > 10


def test_a_replaced_or_removed_file_may_be_back_if_its_directory_was_not_synced(
    disk: Disk, state: Path
) -> None:
    before = {"replaced.txt": 3, "removed.txt": 3}
    found = []
    for seed in range(30):
        for name in before:
            (state / name).write_bytes(b"old")
            sync(state / name)
        (state / "next.txt").write_bytes(b"newer")
        sync(state / "next.txt")
        sync(state)
        (state / "removed.txt").unlink()
        (state / "next.txt").replace(state / "replaced.txt")
        disk.lose_power(random.Random(seed))
        found.append(names_and_sizes(state))
    # The latest changes are undone: none, the second, or both.
    after = {"replaced.txt": 5}
    between = {"replaced.txt": 3, "next.txt": 5}
    for each in (after, between, before | {"next.txt": 5}):
        assert each in found
    assert all(each in (after, between, before | {"next.txt": 5}) for each in found)


def test_reads_and_writes_fail_until_the_disk_works_again(disk: Disk, state: Path) -> None:
    (state / "a.txt").write_bytes(b"before")
    with disk.failing():
        with pytest.raises(OSError, match=FAILS):
            (state / "a.txt").read_bytes()
        with pytest.raises(OSError, match=FAILS):
            (state / "b.txt").write_bytes(b"new")
        with pytest.raises(OSError, match=FAILS):
            sync(state)
    assert (state / "a.txt").read_bytes() == b"before"


def test_store_has_a_whole_commit_after_a_power_loss(disk: Disk, state: Path) -> None:
    path = state / "shard-0"
    rng = random.Random(7)
    counts = []
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, cwd=ROOT, **pipes) as writer:  # type: ignore[call-overload]
            commits = rng.randrange(5, COMMITS)
            while int(writer.stdout.readline()) < commits:
                pass
            writer.kill()
        disk.lose_power(rng)
        try:
            store = open_store(path, must_exist=True)
        except StoreMissingError:  # not even its directory was synced: it is rebuilt
            continue
        with closing(store):
            stored = store.progress()
            if stored is not None:
                counts.append(stored.progress.next // ENTRIES_PER_COMMIT)
                check_holds(store, counts[-1])
        subprocess.run(["rm", "-r", str(path)], check=True)
    assert counts


def test_a_failing_disk_is_named_and_the_store_keeps_all_commits_before(
    disk: Disk, state: Path
) -> None:
    with closing(open_store(state / "shard-0")) as store:
        for commit in range(5):
            write(store, commit)
        with disk.failing(), pytest.raises(StoreAccessError, match=FAILS):
            write(store, 5)
    with disk.failing(), pytest.raises(StoreAccessError, match=FAILS):
        open_store(state / "shard-0")
    with disk.failing(), pytest.raises(StoreAccessError, match=FAILS):
        make_state_directory(Settings(state_dir=state, application_id="tests"))
    with closing(open_store(state / "shard-0", must_exist=True)) as store:
        check_holds(store, 5)
