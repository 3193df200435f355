"""A segment as named columns, and back: the form in which it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import BucketColumns
from simhash_core.index.hot_buckets import HotBuckets
from simhash_core.index.segment import Segment
from simhash_core.index.sequence_column import SequenceColumn

Column = NDArray[np.unsignedinteger] | NDArray[np.int64]

COLUMNS: Final = (
    "sequence_indexes",
    "sequence_firsts",
    "sequence_packets",
    "fingerprints",
    "times_ms",
    "block_rows",
    "block_directory",
    "block_tags",
    "band_rows",
    "band_directory",
    "band_tags",
    "hot_buckets",
    "hot_bounds",
    "hot_rows",
    "hot_slices",
    "hot_next_slices",
    "hot_words",
)


class Layout(NamedTuple):
    """What the columns do not say. ``block_shift``, ``band_shift``: as of ``BucketColumns``.

    ``tag_distance``: of the blocks' tags, -1 where they are the rest of the values.
    ``range_tag_bits``: of the blocks.
    """

    documents: int
    block_shift: int
    band_shift: int
    tag_distance: int
    range_tag_bits: int


def columns_of(segment: Segment, *, with_times: bool) -> tuple[Layout, dict[str, Column]]:
    """Return a segment of one slot as columns; times only where a window asks for them."""
    blocks, bands, hot = segment.blocks, segment.bands, segment.hot
    times = segment.times_ms if with_times else np.empty(0, dtype=np.int64)
    columns: tuple[Column, ...] = (
        segment.sequences.indexes,
        segment.sequences.firsts,
        segment.sequences.packets,
        segment.fingerprints,
        times,
        blocks.rows,
        blocks.directory,
        blocks.tags,
        bands.rows,
        bands.directory,
        bands.tags,
        hot.buckets,
        hot.bounds,
        hot.rows,
        hot.slice_keys,
        hot.next_slices,
        hot.words,
    )
    layout = Layout(len(segment), blocks.shift, bands.shift, blocks.distance, blocks.range_tag_bits)
    return layout, dict(zip(COLUMNS, columns, strict=True))


def segment_of(
    scheme: BlockScheme, slot: int, layout: Layout, columns: Mapping[str, Column]
) -> Segment:
    """Return the segment that columns are, all of it in one slot.

    Raises ``UsageError`` where they are not those of a segment of the scheme.
    """
    if set(columns) != set(COLUMNS):
        raise UsageError(f"a segment has the columns {', '.join(COLUMNS)}")
    documents = layout.documents
    all_columns: dict[str, NDArray] = dict(columns)  # type: ignore[type-arg]
    if all_columns["fingerprints"].shape != (documents, scheme.bits // 64):
        raise UsageError(
            f"fingerprints of {documents} documents: {all_columns['fingerprints'].shape}"
        )
    for kind, buckets in (("block", scheme.all_blocks), ("band", scheme.bands)):
        if len(all_columns[f"{kind}_rows"]) != buckets * documents:
            raise UsageError(f"{kind}_rows: {documents} documents in {buckets} columns")
    times = all_columns["times_ms"]
    return Segment(
        scheme,
        SequenceColumn(
            all_columns["sequence_indexes"],
            all_columns["sequence_firsts"],
            all_columns["sequence_packets"],
        ),
        np.broadcast_to(np.uint16(slot), (documents,)),
        all_columns["fingerprints"],
        times if len(times) else np.broadcast_to(np.int64(0), (documents,)),
        BucketColumns(
            layout.block_shift,
            scheme.all_blocks,
            layout.tag_distance,
            layout.range_tag_bits,
            all_columns["block_rows"],
            all_columns["block_directory"],
            all_columns["block_tags"],
        ),
        BucketColumns(
            layout.band_shift,
            scheme.bands,
            -1,
            0,
            all_columns["band_rows"],
            all_columns["band_directory"],
            all_columns["band_tags"],
        ),
        HotBuckets(
            all_columns["hot_buckets"],
            all_columns["hot_bounds"],
            all_columns["hot_rows"],
            all_columns["hot_slices"],
            all_columns["hot_next_slices"],
            all_columns["hot_words"],
        ),
    )
