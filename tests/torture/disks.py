"""What a disk loses with its power: the ends of files that were written and not synced."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

TORN_BYTES = 40
"""Less than the smallest batch of Kafka, which has 61 bytes before its first record."""
METADATA = "__cluster_metadata"

Sizes = Mapping[Path, int]


def active_segments(data: Path) -> dict[Path, int]:
    """Return the size of each partition's last segment, in a broker's directory of data.

    Kafka syncs a segment when it begins the next one, and the metadata of the cluster always.
    """
    segments = {
        max(partition.glob("*.log"), default=None)
        for partition in data.iterdir()
        if partition.is_dir() and not partition.name.startswith(METADATA)
    }
    return {segment: segment.stat().st_size for segment in segments if segment is not None}


def lose_tails(rng: random.Random, data: Path, synced: Sizes) -> int:
    """Cut each partition of a dead broker at a random place that was not synced.

    ``synced`` has the sizes that surely were. Return the number of bytes lost.
    """
    lost = 0
    for segment, size in sorted(active_segments(data).items()):
        kept = rng.randint(min(synced.get(segment, 0), size), size)
        os.truncate(segment, kept)
        lost += size - kept
    return lost


def tear_last_writes(rng: random.Random, data: Path, synced: Sizes) -> int:
    """Cut the last batch of each partition in the middle; return the number of bytes lost."""
    lost = 0
    for segment, size in sorted(active_segments(data).items()):
        unsynced = size - min(synced.get(segment, 0), size)
        if unsynced > TORN_BYTES:
            torn = rng.randint(1, TORN_BYTES)
            os.truncate(segment, size - torn)
            lost += torn
    return lost
