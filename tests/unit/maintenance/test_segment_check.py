"""``verify`` and segment files: a flipped bit is found, and its file is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import completed
from simhash_core.index.prints import Rows
from simhash_core.index.segment import build_segment
from streams.maintenance.verification import check_segments
from streams.store.shard_segments import (
    FiledShard,
    SegmentOwner,
    WorkerSegments,
    segment_paths,
)
from tests.unit.core.index.made_prints import bare_prints

SCHEME = BlockScheme(64, 4, 3)
OWNER = SegmentOwner("the index identity", "news")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Write two segment files of a worker."""
    segments = WorkerSegments(tmp_path, OWNER, SCHEME)
    random = np.random.default_rng(1)
    for first in (0, 100):
        prints = bare_prints(random.integers(0, 2**64, (100, 1), dtype=np.uint64))
        numbers = np.arange(first, first + 100, dtype=np.uint64)
        rows = Rows(numbers, np.zeros(100, dtype=np.uint16), prints)
        segment = completed(build_segment(SCHEME, rows))
        segments.write(segment, [FiledShard(3, [(first, first + 99)])])
    return tmp_path


def findings(directory: Path, owner: SegmentOwner = OWNER) -> list[str]:
    return [str(each) for each in check_segments(directory, owner, lambda *_: None)]


def test_flipped_bit_is_found_wherever_it_is(directory: Path) -> None:
    path = segment_paths(directory)[1]
    whole = path.read_bytes()
    padding = {at for at in range(len(whole)) if not whole[at]}
    for place in (3, 15, 40, *range(700, len(whole), 97)):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        found = findings(directory)
        if found or place not in padding:  # padding between columns has no data
            assert [str(path) in each and each.startswith("disk: ") for each in found] == [True]
    path.write_bytes(whole)
    assert findings(directory) == []


def test_file_that_is_cut_or_of_another_index_is_found(directory: Path) -> None:
    path = segment_paths(directory)[0]
    path.write_bytes(path.read_bytes()[:-8])
    assert [str(path) in each for each in findings(directory)] == [True]
    assert len(findings(directory, SegmentOwner("the index identity", "other news"))) == 2


def test_file_deleted_meanwhile_is_no_damage(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = segment_paths(directory)
    monkeypatch.setattr("streams.maintenance.verification.segment_paths", lambda _directory: paths)
    paths[0].unlink()
    assert findings(directory) == []
