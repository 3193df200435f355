"""Prints of documents, segments as in files, and the expected results of look-ups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.bands import NO_BAND
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import completed
from simhash_core.index.prints import Prints, Rows, bucket_values, shared
from simhash_core.index.segment import Segment, build_segment, columns_of, segment_of


def in_a_file(scheme: BlockScheme, rows: Rows, shards: int = 1) -> Segment:
    """Return the segment of a file, in which the rows' slots are the numbers of shards."""
    built = completed(build_segment(scheme, rows))
    return segment_of(scheme, *columns_of(built, with_times=False, shards=shards))


def bare_prints(
    fingerprints: NDArray[np.uint64], bands: int = 0, times_ms: int | NDArray[np.int64] = 0
) -> Prints:
    count = len(fingerprints)
    times = np.broadcast_to(np.asarray(times_ms, dtype=np.int64), (count,))
    return Prints(fingerprints, np.full((count, bands), NO_BAND, dtype=np.uint32), times)


Found = list[tuple[int, int, int]]


def random_prints(scheme: BlockScheme, count: int, seed: int, originals: int = 40) -> Prints:
    """Return copies of few documents, each with some bits flipped and some bands changed.

    Every tenth has no sketch.
    """
    random = np.random.default_rng([seed, 0])
    drawn = np.random.default_rng(99)
    bases = drawn.integers(0, 2**64, (originals, scheme.bits // 64), dtype=np.uint64)
    key_bits = scheme.sketch_bands.key_bits
    keys = drawn.integers(1, 2**key_bits, (originals, scheme.bands), dtype=np.uint32)
    of = random.integers(0, originals, count)
    flips = random.random((count, scheme.bits)) < random.choice([0.01, 0.05, 0.2], count)[:, None]
    fingerprints = bases[of] ^ np.packbits(flips, axis=1).view(np.uint64)
    bands = np.where(
        random.random((count, scheme.bands)) < 0.7,
        random.integers(1, 2**key_bits, (count, scheme.bands), dtype=np.uint32),
        keys[of],
    ).astype(np.uint32)
    bands[::10] = NO_BAND
    return Prints(fingerprints, bands, random.integers(0, 100, count))


def scanned(scheme: BlockScheme, asked: Prints, held: Prints) -> Found:
    """Return row, distance and sequence number of all near pairs, by comparing all pairs."""
    found = []
    theirs = bucket_values(scheme, held)
    for row, own in enumerate(bucket_values(scheme, asked)):
        differing = held.fingerprints ^ asked.fingerprints[row]
        distances = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
        met = shared(scheme, np.broadcast_to(own, theirs.shape), theirs).any(axis=1)
        near = np.flatnonzero(met & (distances <= scheme.distance))
        found += [(row, int(distances[at]), at) for at in near.tolist()]
    return sorted(found)
