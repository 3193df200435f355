"""Segments as files have them, without files, and documents without sketches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import NO_BAND, Prints, Rows
from simhash_core.index.segment import Segment, build_segment, columns_of, segment_of


def in_a_file(scheme: BlockScheme, rows: Rows, shards: int = 1) -> Segment:
    """Return the segment of a file; the slots of the rows are the numbers of its shards."""
    built = build_segment(scheme, rows)
    return segment_of(scheme, *columns_of(built, with_times=False, shards=shards))


def bare_prints(
    fingerprints: NDArray[np.uint64], bands: int = 0, times_ms: int | NDArray[np.int64] = 0
) -> Prints:
    """Return the prints of documents without sketches."""
    count = len(fingerprints)
    times = np.broadcast_to(np.asarray(times_ms, dtype=np.int64), (count,))
    return Prints(fingerprints, np.full((count, bands), NO_BAND, dtype=np.uint32), times)
