"""Segments as files have them, without files."""

from __future__ import annotations

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.memtable import Rows
from simhash_core.index.segment import Segment, build_segment, columns_of, segment_of


def in_a_file(scheme: BlockScheme, rows: Rows, shards: int = 1) -> Segment:
    """Return the segment of a file; the slots of the rows are the numbers of its shards."""
    built = build_segment(scheme, rows)
    return segment_of(scheme, *columns_of(built, with_times=False, shards=shards))
