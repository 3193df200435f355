"""The plan of an index: what it will cost and find, as an object for programs."""

from __future__ import annotations

from typing import Final

import msgspec

from simhash_core.analysis.plan import candidates_per_block, recall_by_distance, recall_by_jaccard
from simhash_core.errors import UsageError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.bucket_columns import tag_bits_of_ranges
from simhash_core.text.profiles import Profile
from streams.offline.state_size import (
    packet_bytes_per_document,
    segment_bytes_per_document,
    sketch_bytes,
    state_bytes_per_document,
)

SHARD_BYTES_WANTED: Final = 16 << 30
"""State of a shard that is caught up or rebuilt within minutes; suggested partitions keep to it."""

PARTITIONS_MIN: Final = 4
"""The smallest suggestion: their number bounds the workers."""

PARTITIONS_MAX: Final = 4096

LOOKUP_US: Final = 7.0
CANDIDATE_US: Final = 0.09
"""Microseconds of a processor for a look-up and for each of its candidates (docs/scale.md)."""

LARGE_SEGMENT_DOCUMENTS: Final = 10_000_000

CANDIDATE_IN_RANGES_US: Final = 0.007
"""The same where large segments have ranges of a block and its tag
(``simhash_core.index.bucket_columns``): most of a bucket is not looked at."""

LOOKUP_US_WANTED: Final = 190.0
"""Microseconds above which a look-up takes more of a processor than a fingerprint."""

JACCARDS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class DistanceRecall(msgspec.Struct, frozen=True):
    """The chance that a pair at this distance, in bits, shares a block."""

    distance: int
    recall: float


class JaccardRecall(msgspec.Struct, frozen=True):
    """The chance that a pair with this Jaccard is found, see ``simhash_core.analysis.plan``."""

    jaccard: float
    recall: float


class IndexPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates are of random fingerprints: of real ones there are more.

    ``bands``: of the sketch. ``guaranteed``: any two within the distance share a block. State is on
    disk, and of it ``memory_bytes`` are the buckets, which should fit the page cache; a document is
    in one shard, and a worker has and looks up its part of the documents. ``partitions`` is what
    was given, else the number suggested. ``wire_bytes_per_document``: of the log and the
    changelog together, before compression. ``lookup_us``: of each worker's processor, for a
    document of any worker. ``advice``: what to set where candidates are too many.
    """

    documents: int
    bits: int
    blocks: int
    block_bits: int
    bands: int
    buckets_per_document: int
    distance: int
    verify: str
    verify_at: float
    candidates_per_block: int | float
    candidates_per_lookup: int | float
    candidates_per_worker: int | float
    guaranteed: bool
    recall_by_distance: list[DistanceRecall]
    recall_by_jaccard: list[JaccardRecall]
    sketch_bytes: int
    state_bytes_per_document: int
    state_bytes: int
    partitions: int
    partitions_suggested: int
    state_bytes_per_partition: int
    memory_bytes_per_document: int
    memory_bytes: int
    workers: int
    memory_bytes_per_worker: int
    wire_bytes_per_document: int
    lookup_us: float
    advice: str | None


def plan_index(
    documents: int, profile: Profile, partitions: int | None = None, workers: int = 1
) -> IndexPlan:
    """Return the plan of an index of so many unique documents, for so many workers.

    Raises ``UsageError`` for an invalid number.
    """
    if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
        raise UsageError(f"partitions is {partitions}: it must be from 1 to {PARTITIONS_MAX}")
    scheme = profile.scheme()
    sketch = sketch_bytes(profile)
    state_bytes = documents * state_bytes_per_document(scheme, sketch)
    suggested = max(partitions_for(state_bytes), workers)
    shards = partitions or suggested
    if not 1 <= workers <= shards:
        raise UsageError(
            f"workers is {workers}: it must be from 1 to {shards}, the number of partitions"
        )
    candidates = scheme.expected_candidates(documents)
    memory_bytes = documents * segment_bytes_per_document(scheme)
    return IndexPlan(
        documents=documents,
        bits=scheme.bits,
        blocks=scheme.blocks,
        block_bits=scheme.block_bits,
        bands=scheme.bands,
        buckets_per_document=scheme.all_buckets,
        distance=scheme.distance,
        verify=profile.verify,
        verify_at=profile.verify_at,
        candidates_per_block=_whole(candidates_per_block(scheme, documents)),
        candidates_per_lookup=_whole(scheme.expected_candidates(documents)),
        candidates_per_worker=_whole(scheme.expected_candidates(documents) / workers),
        guaranteed=scheme.guaranteed,
        recall_by_distance=[
            DistanceRecall(int(recall.at), round(recall.recall, 6))
            for recall in recall_by_distance(scheme)
        ],
        recall_by_jaccard=[
            JaccardRecall(recall.at, round(recall.recall, 6))
            for recall in recall_by_jaccard(scheme, JACCARDS)
        ],
        sketch_bytes=sketch,
        state_bytes_per_document=state_bytes_per_document(scheme, sketch),
        state_bytes=state_bytes,
        partitions=shards,
        partitions_suggested=suggested,
        state_bytes_per_partition=-(-state_bytes // shards),
        memory_bytes_per_document=segment_bytes_per_document(scheme),
        memory_bytes=memory_bytes,
        workers=workers,
        memory_bytes_per_worker=-(-memory_bytes // workers),
        wire_bytes_per_document=2 * packet_bytes_per_document(scheme, sketch),
        lookup_us=round(_lookup_us(scheme, candidates / workers), 1),
        advice=_advice(scheme, documents, candidates / workers),
    )


def _lookup_us(scheme: BlockScheme, candidates: float) -> float:
    """Return the time of a look-up in an index where it has so many candidates."""
    in_ranges = tag_bits_of_ranges(scheme, LARGE_SEGMENT_DOCUMENTS) > 0
    return LOOKUP_US + (CANDIDATE_IN_RANGES_US if in_ranges else CANDIDATE_US) * candidates


def _advice(scheme: BlockScheme, documents: int, candidates: float) -> str | None:
    """Return what makes the candidates of a worker few again, None where they are few."""
    if _lookup_us(scheme, candidates) <= LOOKUP_US_WANTED:
        return None
    if not scheme.guaranteed:
        return "use bands only: index.blocks = 0, index.bands = 12"
    return (
        f"{scheme.block_bits} bits a block are too few for {documents:,} documents: use the "
        "profile wide, or more workers"
    )


def partitions_for(state_bytes: int) -> int:
    """Return a power of two that keeps a shard's part to ``SHARD_BYTES_WANTED``, if any does."""
    partitions = PARTITIONS_MIN
    while partitions < PARTITIONS_MAX and state_bytes > partitions * SHARD_BYTES_WANTED:
        partitions *= 2
    return partitions


def _whole(value: float) -> int | float:
    """Return a whole number as one, else three digits."""
    return int(value) if value.is_integer() else round(value, 3)
