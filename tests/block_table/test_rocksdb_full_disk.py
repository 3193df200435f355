"""No room to write: the commit fails whole, the error says so, and nothing before it is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.source_tree import ROOT
from tests.block_table.crashing_writer import SETTINGS, changes_of, entries_of
from tests.block_table.samples import all_met, open_store

SECONDS_MAX: Final = 120
WRITE_UNTIL_FULL: Final = "tests.block_table.writer_until_full"


def commits_until_full(command: list[str | Path]) -> tuple[int, str]:
    """Run a writer until it has no more room; give its number of commits and the error."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr
    commits, _, message = done.stdout.partition(" ")
    return int(commits), message


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """Given a limit that the log outgrows, when a commit fails, then it says that there is no
    room, what is staged is still met, and reopened without the limit, in the same process or
    another, the store holds exactly the commits before.
    """
    path = tmp_path / "shard-0"

    commits, message = commits_until_full([sys.executable, "-m", WRITE_UNTIL_FULL, path, "limit"])

    assert "Make room on the disk" in message
    assert str(path) in message
    assert commits > 3
    check_holds(path, tmp_path / "expected", commits)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system of its own: Linux")
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Given a file system of three megabytes, when it is full, then the same."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace for this user")
    writer = (
        f"mount -t tmpfs -o size=3m tmpfs {disk} && "
        f"exec {sys.executable} -m {WRITE_UNTIL_FULL} {disk / 'shard-0'} disk"
    )

    commits, message = commits_until_full(["unshare", "-rm", "bash", "-c", writer])

    assert "No space left on device" in message
    assert "Make room on the disk" in message
    assert commits > 3


def check_holds(path: Path, beside: Path, commits: int) -> None:
    """Fail unless the store at ``path`` holds the first commits, as one ``beside`` it does."""
    table, expected = open_store(path), open_store(beside, settings=SETTINGS)
    for commit in range(commits):
        expected.commit(changes_of(commit))
    assert all_met(table) == all_met(expected)
    assert table.in_flight() == expected.in_flight()
    assert len(table) == len(expected) == commits * len(entries_of(0))
    table.close()
    expected.close()
