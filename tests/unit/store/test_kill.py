"""kill -9 in the middle of commits: the store has those that returned, each whole or not at all."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from streams.store.shard_store import ShardStore
from tests.repository.source_tree import ROOT
from tests.unit.store.crashing_writer import (
    ENTRIES_PER_COMMIT,
    commits_in,
    entries_of,
    progress_of,
)
from tests.unit.store.samples import expected, fingerprints_in, open_store

KILLS: Final = 6
COMMITS_BEFORE_MAX: Final = 120


def killed_after(path: Path, what: str, commits: int, delay_seconds: float) -> int:
    """Let a process write until it has told of ``commits`` commits, and a little longer; kill it.

    Return the number of the last commit that it told of.
    """
    command = [sys.executable, "-m", "tests.unit.store.crashing_writer", str(path), what]
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


def check_holds_exactly(store: ShardStore, commits: int) -> None:
    wanted = expected([each for number in range(commits) for each in entries_of(number)])
    assert store.progress() == progress_of(commits - 1)
    assert len(store) == commits * ENTRIES_PER_COMMIT
    assert dict(store.all_entries()) == wanted
    assert fingerprints_in(store) == {k: e.fingerprint for k, e in wanted.items() if e.fingerprint}
    for sequence, entry in wanted.items():
        of_content = [] if entry.fingerprint else [sequence]
        assert store.by_content(entry.content_digest) == of_content


@pytest.mark.parametrize("what", ["write", "load"])
def test_store_has_each_commit_that_returned_before_a_kill(tmp_path: Path, what: str) -> None:
    rng = random.Random(20_250_118)
    path = tmp_path / "store"
    for _ in range(KILLS):
        told = killed_after(path, what, rng.randrange(1, COMMITS_BEFORE_MAX), rng.random() * 0.02)
        store = open_store(path, must_exist=True)
        held = commits_in(store)
        # Those under way may have been written, and the process killed before it told.
        assert held in (told + 1, told + 2)
        check_holds_exactly(store, held)
        store.close()
