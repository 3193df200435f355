"""Disks: small ones in memory, full ones, and what a disk loses with its power or as a whole."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TORN_BYTES = 40
"""Less than the smallest batch of Kafka, which has 61 bytes before its first record."""
METADATA = "__cluster_metadata"
_ZEROS = bytes(1024 * 1024)

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


def lose_partitions(data: Path) -> int:
    """Remove all partitions of a dead broker, and their checkpoints; return their number.

    The metadata of the cluster stays, as if it were on another disk: a controller without it would
    have to be a new one.
    """
    lost = 0
    for each in data.iterdir():
        if each.is_dir() and not each.name.startswith(METADATA):
            shutil.rmtree(each)
            lost += 1
        elif each.name.endswith("-offset-checkpoint"):
            each.unlink()
    return lost


def mount_memory(path: Path, size: int) -> None:
    """Make a directory with a file system of its own, of ``size`` bytes; needs root."""
    path.mkdir(parents=True)
    mount = ("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path))
    subprocess.run(mount, check=True)


@contextmanager
def without_room(disk: Path) -> Iterator[None]:
    """Fill the file system of a directory, which must be its own."""
    filler = disk / "filler"
    try:
        _write_until_full(filler)
        yield
    finally:
        filler.unlink()


def _write_until_full(path: Path) -> None:
    """Write until the file system has no room; others may take and give back some meanwhile."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(_ZEROS):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
