"""``verify`` and segment files: a flipped bit is found, and its file is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.memtable import Rows
from simhash_core.index.prints import bare_prints
from streams.maintenance.verification import check_segments
from streams.store.shard_segments import SegmentOwner, ShardSegments, segment_paths

SCHEME = BlockScheme(64, 4, 3)
OWNER = SegmentOwner("the index identity", "news", 3)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The directory of a store with two segment files, one behind the other."""
    segments = ShardSegments(tmp_path, OWNER, SCHEME)
    random = np.random.default_rng(1)
    for first in (0, 100):
        prints = bare_prints(random.integers(0, 2**64, (100, 1), dtype=np.uint64))
        numbers = np.arange(first, first + 100, dtype=np.uint64)
        rows = Rows(numbers, np.zeros(100, dtype=np.uint16), prints)
        assert segments.write([rows], first, first + 99) is not None
    return tmp_path


def findings(store: Path, owner: SegmentOwner = OWNER) -> list[str]:
    return [str(each) for each in check_segments(store, owner, lambda *_: None)]


def test_flipped_bit_is_found_wherever_it_is(store: Path) -> None:
    path = segment_paths(store)[1]
    whole = path.read_bytes()
    padding = {at for at in range(len(whole)) if not whole[at]}
    for place in (3, 15, 40, *range(700, len(whole), 97)):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        found = findings(store)
        if found or place not in padding:  # zeros between columns hold nothing
            assert [str(path) in each and "disk of shard 3" in each for each in found] == [True]
    path.write_bytes(whole)
    assert findings(store) == []


def test_file_that_is_cut_or_of_another_shard_is_found(store: Path) -> None:
    path = segment_paths(store)[0]
    path.write_bytes(path.read_bytes()[:-8])
    assert [str(path) in each for each in findings(store)] == [True]
    assert len(findings(store, SegmentOwner("the index identity", "news", 4))) == 2


def test_file_deleted_meanwhile_is_no_damage(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = segment_paths(store)
    monkeypatch.setattr("streams.maintenance.verification.segment_paths", lambda _store: paths)
    paths[0].unlink()
    assert findings(store) == []
