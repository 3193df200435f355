"""The plan of an index: its cost and its recall."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from simhash_core.analysis.plan import recall_by_distance, recall_by_jaccard
from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.errors import UsageError
from simhash_core.fingerprints.bands import PAIRS
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.fingerprints.fingerprint import WORD_BITS
from simhash_core.index.bucket_columns import completed, sparse_bytes, tag_bits_of_ranges
from simhash_core.index.prints import Prints, Rows
from simhash_core.index.segment import build_segment, columns_of
from simhash_core.log.records import Chain
from simhash_core.text.fingerprinter import CONTENT_DIGEST_SIZE
from simhash_core.text.profiles import Profile
from streams.store.row_codec import EntryBlock, encode_entry_rows

# ---- Bytes of a document in an index: its row in RocksDB, and its place in a segment.

ROCKSDB_OVERHEAD: Final = 1.06
"""File bytes per byte of rows. Measured with 66,000 random entries: 1.06 for ``classic``, 1.05 for
``wide``."""

SKETCH_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {"none": 0, "cosine": 320, "metadata": 0, "shingles": 256}
)
"""Bytes of a sketch without its tail for bands; the mean of generated articles, which a test
measures."""

_DOCUMENTS: Final = 1 << 18  # size of the segment that is measured, and of the smallest file
_LARGE_FILE_DOCUMENTS: Final = 1 << 22
_NUMBERS_BYTES: Final = 8  # offset, time and lengths of a document in a packet
_ID_CHARACTERS: Final = 32
_CHAIN: Final = Chain("raw-documents", "", 15)


def sketch_bytes(profile: Profile) -> int:
    return SKETCH_BYTES[profile.verify] + profile.scheme().sketch_bands.tail_bytes


def row_bytes_per_document(scheme: BlockScheme, sketch: int = 0) -> int:
    """Return the bytes of a row with an id of 32 characters and a sketch of ``sketch`` bytes."""
    columns = DocumentColumns(
        offsets=np.zeros(1, dtype=np.int64),
        times_ms=np.zeros(1, dtype=np.int64),
        ids=BytesColumn.of([b"x" * _ID_CHARACTERS]),
        digests=np.zeros((1, CONTENT_DIGEST_SIZE), dtype=np.uint8),
        fingerprints=np.zeros((1, scheme.bits // WORD_BITS), dtype=np.uint64),
        undecidable=np.zeros(1, dtype=np.uint8),
        sketches=BytesColumn.of([bytes(sketch)]),
    )
    block = EntryBlock(_CHAIN, np.zeros(1, dtype=np.uint64), columns)
    ((key,), (value,)) = encode_entry_rows(block, 0)
    return len(key) + len(value)


def packet_bytes_per_document(scheme: BlockScheme, sketch: int = 0) -> int:
    """Return the bytes of a document in a packet of the log; the changelog has as many."""
    return scheme.bits // 8 + CONTENT_DIGEST_SIZE + sketch + _ID_CHARACTERS + _NUMBERS_BYTES


def state_bytes_per_document(
    scheme: BlockScheme, sketch: int = 0, documents: int = _DOCUMENTS
) -> int:
    """Return the bytes of a row and in segment files, if a worker has ``documents``."""
    rows = round(row_bytes_per_document(scheme, sketch) * ROCKSDB_OVERHEAD)
    return rows + segment_bytes_per_document(scheme, documents)


def segment_bytes_per_document(scheme: BlockScheme, documents: int = _DOCUMENTS) -> int:
    """Return the bytes in segment files, if a worker has ``documents``."""
    measured = _measured_segment_bytes(scheme)
    if scheme.bands:
        file = min(max(documents, _DOCUMENTS), _LARGE_FILE_DOCUMENTS)
        of_files = [sparse_bytes(scheme.sketch_bands.key_bits, each) for each in (_DOCUMENTS, file)]
        measured += scheme.bands * (of_files[1] - of_files[0])
    return round(measured)


@cache
def _measured_segment_bytes(scheme: BlockScheme) -> float:
    chance = np.random.default_rng(_DOCUMENTS)
    words = scheme.bits // WORD_BITS
    prints = Prints(
        chance.integers(0, 1 << 64, (_DOCUMENTS, words), dtype=np.uint64),
        chance.integers(
            1, 1 << scheme.sketch_bands.key_bits, (_DOCUMENTS, scheme.bands), dtype=np.uint32
        ),
        np.zeros(_DOCUMENTS, dtype=np.int64),
    )
    numbers = np.arange(_DOCUMENTS, dtype=np.uint64)
    rows = Rows(numbers, np.zeros(_DOCUMENTS, dtype=np.uint16), prints)
    segment = completed(build_segment(scheme, rows))
    _, columns = columns_of(segment, with_times=False)
    return sum(column.nbytes for column in columns.values()) / _DOCUMENTS


SHARD_BYTES_TARGET: Final = 16 << 30
"""State that a shard can recover or rebuild within minutes; the suggestion keeps to it."""

PARTITIONS_MIN: Final = 4  # the smallest suggestion: partitions limit the number of workers
PARTITIONS_MAX: Final = 4096

LOOKUP_US: Final = 7.0
CANDIDATE_US: Final = 0.09
"""Microseconds of CPU for a look-up and for each of its candidates (docs/scale.md)."""

LARGE_SEGMENT_DOCUMENTS: Final = 10_000_000

CANDIDATE_IN_RANGES_US: Final = 0.007
"""The same in large segments, which have ranges by block and tag
(``simhash_core.index.bucket_columns``): most of a bucket is skipped."""

LOOKUP_US_TARGET: Final = 190.0
"""Above this, in microseconds, a look-up takes more CPU than a fingerprint."""

REAL_TEXTS: Final = 1_000_000
"""From so many documents on a worker, bands of two bins take twice the CPU time of three on real
texts (docs/decisions/default-profile.md)."""

JACCARDS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class DistanceRecall(msgspec.Struct, frozen=True):
    distance: int  # in bits
    recall: float  # the chance that a pair at this distance shares a block


class JaccardRecall(msgspec.Struct, frozen=True):
    jaccard: float
    recall: float  # the chance that such a pair is found (``simhash_core.analysis.plan``)


class IndexPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan; candidates are those of random fingerprints, real texts have more."""

    documents: int
    bits: int
    blocks: int
    block_bits: int
    bands: int  # of the sketch
    buckets_per_document: int
    distance: int
    verify: str
    verify_at: float
    mean_at: float  # 0: none
    candidates_per_block: int | float
    candidates_per_lookup: int | float
    candidates_per_worker: int | float
    guaranteed: bool  # any two documents within the distance share a block
    recall_by_distance: list[DistanceRecall]
    recall_by_jaccard: list[JaccardRecall]
    sketch_bytes: int
    state_bytes_per_document: int
    state_bytes: int
    partitions: int  # given, else suggested
    partitions_suggested: int
    state_bytes_per_partition: int
    memory_bytes_per_document: int
    memory_bytes: int  # the buckets, part of the state on disk, which should fit the page cache
    workers: int
    memory_bytes_per_worker: int
    wire_bytes_per_document: int  # log and changelog together, uncompressed
    lookup_us: float  # CPU time on each worker, for a document of any worker
    advice: str | None  # what to change if there are too many candidates


def plan_index(
    documents: int, profile: Profile, partitions: int | None = None, workers: int = 1
) -> IndexPlan:
    """Plan an index of ``documents`` unique documents; raise ``UsageError`` for invalid numbers."""
    if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
        raise UsageError(f"partitions is {partitions}: it must be from 1 to {PARTITIONS_MAX}")
    scheme = profile.scheme()
    sketch = sketch_bytes(profile)
    a_worker = documents // max(workers, 1)
    state_bytes_each = state_bytes_per_document(scheme, sketch, a_worker)
    segment_bytes = segment_bytes_per_document(scheme, a_worker)
    state_bytes = documents * state_bytes_each
    suggested = max(partitions_for(state_bytes), workers)
    shards = partitions or suggested
    if not 1 <= workers <= shards:
        raise UsageError(
            f"workers is {workers}: it must be from 1 to {shards}, the number of partitions"
        )
    candidates = scheme.expected_candidates(documents)
    memory_bytes = documents * segment_bytes
    lookup_us = _lookup_us(scheme, candidates / workers)
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
        mean_at=profile.mean_at,
        candidates_per_block=_whole(documents / (1 << scheme.block_bits) if scheme.blocks else 0.0),
        candidates_per_lookup=_whole(candidates),
        candidates_per_worker=_whole(candidates / workers),
        guaranteed=scheme.guaranteed,
        recall_by_distance=[
            DistanceRecall(distance, round(recall, 6))
            for distance, recall in recall_by_distance(scheme).items()
        ],
        recall_by_jaccard=[
            JaccardRecall(jaccard, round(recall, 6))
            for jaccard, recall in recall_by_jaccard(scheme, JACCARDS).items()
        ],
        sketch_bytes=sketch,
        state_bytes_per_document=state_bytes_each,
        state_bytes=state_bytes,
        partitions=shards,
        partitions_suggested=suggested,
        state_bytes_per_partition=-(-state_bytes // shards),
        memory_bytes_per_document=segment_bytes,
        memory_bytes=memory_bytes,
        workers=workers,
        memory_bytes_per_worker=-(-memory_bytes // workers),
        wire_bytes_per_document=2 * packet_bytes_per_document(scheme, sketch),
        lookup_us=round(lookup_us, 1),
        advice=_advice(profile, documents, workers, lookup_us),
    )


def _lookup_us(scheme: BlockScheme, candidates: float) -> float:
    in_ranges = tag_bits_of_ranges(scheme, LARGE_SEGMENT_DOCUMENTS) > 0
    return LOOKUP_US + (CANDIDATE_IN_RANGES_US if in_ranges else CANDIDATE_US) * candidates


def _advice(profile: Profile, documents: int, workers: int, lookup_us: float) -> str | None:
    scheme = profile.scheme()
    if scheme.bands and scheme.band_bins == PAIRS and documents >= workers * REAL_TEXTS:
        return (
            "so many real texts share bands of two values by chance: use index.bands = 27 and "
            "index.band_bins = 3"
        )
    if lookup_us <= LOOKUP_US_TARGET:
        return None
    if not scheme.guaranteed:
        return "use bands only: index.blocks = 0, index.bands = 27, index.band_bins = 3"
    return (
        f"blocks of {scheme.block_bits} bits are too small for {documents:,} documents: use the "
        "profile wide, or more workers"
    )


def partitions_for(state_bytes: int) -> int:
    """Return a power of two that limits a shard to ``SHARD_BYTES_TARGET``, up to the maximum."""
    partitions = PARTITIONS_MIN
    while partitions < PARTITIONS_MAX and state_bytes > partitions * SHARD_BYTES_TARGET:
        partitions *= 2
    return partitions


def _whole(value: float) -> int | float:
    return int(value) if value.is_integer() else round(value, 3)
