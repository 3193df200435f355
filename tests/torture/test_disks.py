"""A disk without power loses ends of files, and never what was synced."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torture.disks import (
    TORN_BYTES,
    Sizes,
    active_segments,
    lose_partitions,
    lose_tails,
    tear_last_writes,
)

SEEDS = range(30)
SYNCED, WRITTEN = 1_000, 3_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("log-0/0.log", "log-0/5.log", "quiet-0/0.log", "__cluster_metadata-0/0.log"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(SYNCED))
    return tmp_path


@pytest.mark.parametrize("lose", [lose_tails, tear_last_writes])
def test_only_the_unsynced_end_of_the_last_segment_is_lost(
    data: Path, lose: Callable[[random.Random, Path, Sizes], int]
) -> None:
    synced = active_segments(data)
    grown = data / "log-0/5.log"
    assert synced == {grown: SYNCED, data / "quiet-0/0.log": SYNCED}
    sizes = set()
    for seed in SEEDS:
        grown.write_bytes(bytes(WRITTEN))
        lost = lose(random.Random(seed), data, synced)
        sizes.add(grown.stat().st_size)
        assert grown.stat().st_size == WRITTEN - lost
    assert len(sizes) > 10
    assert min(sizes) >= (SYNCED if lose is lose_tails else WRITTEN - TORN_BYTES)
    others = [each for each in data.glob("*/*.log") if each != grown]
    assert {each.stat().st_size for each in others} == {SYNCED}


def test_a_new_disk_has_the_metadata_of_the_cluster_alone(data: Path) -> None:
    (data / "meta.properties").write_text("node.id=1", "ascii")
    (data / "replication-offset-checkpoint").write_text("0\n0\n", "ascii")
    assert lose_partitions(data) == 2
    assert {each.name for each in data.iterdir()} == {"meta.properties", "__cluster_metadata-0"}
