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

from simhash_core.blocks import Bucket
from simhash_core.entries import PutParked
from streams.rocksdb_table import RocksBlockTable
from streams.segment_list import SEGMENT_DIRECTORY
from tests.architecture.source_tree import ROOT
from tests.block_table.crashing_writer import (
    ENTRIES_PER_COMMIT,
    changes_of,
    entries_of,
    source_of,
    with_small_segments,
)
from tests.block_table.samples import SCHEME, all_met, open_store

KILLS: Final = 6
COMMITS_BEFORE_MAX: Final = 120


def killed_after(path: Path, what: str, commits: int, delay_seconds: float) -> int:
    """Let a process write until it has told of ``commits`` commits, and a little longer; kill it.

    Return the number of the last commit that it told of.
    """
    command = [sys.executable, "-m", "tests.block_table.crashing_writer", str(path), what]
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


def check_holds_exactly(table: RocksBlockTable, commits: int) -> None:
    """Fail unless the table holds the first ``commits`` commits, each whole, and no more."""
    state = table.in_flight()
    last = commits - 1
    assert state.progress == changes_of(last)[-1]
    assert list(state.pending) == [source_of(last)]
    (parked,) = state.parked.values()
    assert isinstance(parked, PutParked)
    assert parked in changes_of(last)
    assert len(table) == commits * ENTRIES_PER_COMMIT
    expected: dict[Bucket, list[tuple[int, bytes]]] = {}
    for number in range(commits):
        for change in entries_of(number):
            assert table.entry(change.order) == change.entry
            for bucket in SCHEME.buckets(change.entry.fingerprint):
                expected.setdefault(bucket, []).append((change.order, change.entry.fingerprint))
    assert all_met(table) == expected


@pytest.mark.parametrize("what", ["write", "load"])
def test_a_store_survives_kills(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a writer that is killed again and again, each time going on where it was, then after
    each kill the store holds every commit that returned, perhaps the one under way, and nothing
    of any other; and so it is while files of buckets come and go.
    """
    rng = random.Random(20_250_118)
    path = tmp_path / "store"
    files_met = 0
    if what == "load":
        with_small_segments(monkeypatch.setattr)
    for _ in range(KILLS):
        told = killed_after(path, what, rng.randrange(1, COMMITS_BEFORE_MAX), rng.random() * 0.02)
        table = open_store(path, must_exist=True)
        held = table.in_flight().progress.offset
        # The one under way may have been written, and the process killed before it told.
        assert held in (told + 1, told + 2)
        check_holds_exactly(table, held)
        table.close()
        files_met += len(list((path / SEGMENT_DIRECTORY).glob("*.buckets")))
    assert (files_met > 0) == (what == "load")
