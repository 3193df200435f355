"""If a writer has no more room, each commit is complete or missing."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from streams.store.row_store import StoreFullError
from tests.repository.source_tree import ROOT
from tests.unit.store.samples import check_holds, open_store

WRITER: Final = "tests.unit.store.crashing_writer"


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
