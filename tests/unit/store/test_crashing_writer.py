"""Writers that are killed or have no more room: each commit is whole or not there at all."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from streams.store.row_store import StoreFullError
from tests.repository.source_tree import ROOT
from tests.unit.store.samples import check_holds, open_store, progress_of

WRITER: Final = "tests.unit.store.crashing_writer"
KILLS: Final = 6
COMMITS_BEFORE_MAX: Final = 120


def killed_after(path: Path, what: str, commits: int, delay_seconds: float) -> int:
    """Let a process write until it has told of ``commits`` commits, and a little longer; kill it.

    Return the number of the last commit that it told of.
    """
    command = [sys.executable, "-m", WRITER, str(path), what]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            told = [process.stdout.readline() for _ in range(commits)]
            time.sleep(delay_seconds)
        finally:
            process.kill()
        told += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL, "the writer died by itself"
    return int([line for line in told if line.endswith("\n")][-1])


@pytest.mark.parametrize("what", ["write", "load"])
def test_store_has_each_commit_that_returned_before_a_kill(tmp_path: Path, what: str) -> None:
    rng = random.Random(20_250_118)
    path = tmp_path / "store"
    for _ in range(KILLS):
        told = killed_after(path, what, rng.randrange(1, COMMITS_BEFORE_MAX), rng.random() * 0.02)
        with closing(open_store(path, must_exist=True)) as store:
            held = store.changelog_offset
            # Those under way may have been written, and the process killed before it told.
            assert held in (told + 1, told + 2)
            check_holds(store, held)
            assert store.progress() == progress_of(held - 1)


def commits_until_full(command: list[str | Path]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    commits, _, message = done.stdout.partition(" ")
    assert int(commits) > 3
    assert StoreFullError.fix in message
    return int(commits), message


def test_commit_that_outgrows_a_file_size_limit_fails_whole(tmp_path: Path) -> None:
    path = tmp_path / "shard-3"
    commits, message = commits_until_full([sys.executable, "-m", WRITER, path, "limit"])
    assert str(path) in message
    with closing(open_store(path)) as store:
        check_holds(store, commits)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of its own: Linux")
def test_commit_on_a_full_disk_fails_whole(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace for this user")
    writer = (
        f"mount -t tmpfs -o size=8m tmpfs {disk} && "
        f"exec {sys.executable} -m {WRITER} {disk / 'shard-3'} disk"
    )
    _, message = commits_until_full(["unshare", "-rm", "bash", "-c", writer])
    assert "No space left on device" in message
