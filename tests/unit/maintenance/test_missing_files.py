"""Copies of a store that lacks a file are refused: RocksDB's views do not say what is missing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from streams.files.output_files import new_output
from streams.maintenance.checkpoints import make_checkpoint
from streams.maintenance.exporting import export_entries
from streams.store.row_store import StoreCorruptError
from streams.store.shard_directory import LocalShard
from tests.unit.store.samples import ENTRIES_PER_COMMIT, open_store, write

COMMITS = 3


def export(shard: LocalShard, directory: Path) -> int:
    with new_output(str(directory / "export.jsonl")) as output:
        return export_entries("tests", [shard], output, lambda *_: None)


def checkpoint(shard: LocalShard, directory: Path) -> int:
    return make_checkpoint(shard, directory / "copy", lambda *_: None).documents


@pytest.mark.parametrize("copy", [export, checkpoint])
def test_a_copy_has_all_entries_or_is_refused(
    tmp_path: Path, copy: Callable[[LocalShard, Path], int]
) -> None:
    path = tmp_path / "tests" / "shard-3"
    shard = LocalShard(3, path)
    with closing(open_store(path)) as store:
        for commit in range(COMMITS):
            write(store, commit)
    with closing(open_store(path)) as store:  # in use, so that a checkpoint copies rows
        write(store, COMMITS)
        whole = tmp_path / "whole"
        whole.mkdir()
        assert copy(shard, whole) == len(store) <= ENTRIES_PER_COMMIT * (COMMITS + 1)
        entries = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
        entries.unlink()
        with pytest.raises(StoreCorruptError, match="entries can be read, but its counter is"):
            copy(shard, tmp_path)
    assert not (tmp_path / "export.jsonl").exists()
    assert not (tmp_path / "copy" / "shard-3").exists()
