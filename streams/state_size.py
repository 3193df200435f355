"""How many bytes the state of a shard takes on disk, from the forms of its rows.

A document has one row for its entry, and one for each of its blocks (docs/formats.md, State on
disk). RocksDB adds to them its own numbers, filters and indices, and rows that are replaced stand
twice until they are compacted.
"""

from __future__ import annotations

import json
from statistics import fmean
from typing import Final

from simhash_core.blocks import BlockScheme
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry
from simhash_core.fingerprinter import Fingerprinter
from simhash_core.profiles import Profile
from streams.demo.corpus import generate
from streams.demo.generated import EditKind
from streams.state_codec import ORDER_BYTES, bucket_prefix_length, encode_entry, entry_key

ROCKSDB_OVERHEAD: Final = 1.2
"""Bytes of files a byte of rows. Measured with the fill of ``benchmarks.block_table``: 1.20 for 64
bits in 4 × 16 (200,000 entries), 1.19 for 256 in 16 × 16, 1.11 for 256 in 21 × 12, 1.13 for 512 in
32 × 16."""

_ID_CHARACTERS: Final = 32
_SAMPLE: Final = SourcePosition("raw-documents", 15, 1 << 32)
_SAMPLE_TIME_MS: Final = 1_700_000_000_000
_DIGEST_BYTES: Final = 16
_SAMPLE_SEED: Final = 1
_SAMPLE_RECORDS: Final = 40


def sketch_bytes(profile: Profile) -> int:
    """Return the bytes of a sketch: the mean of a few generated articles; 0 without confirmation.

    Loads the dictionary of the profile where there is one.
    """
    if profile.confirmation() is None:
        return 0
    texts = [
        json.loads(record.value)["text"]
        for record in generate(_SAMPLE_SEED, _SAMPLE_RECORDS)
        if record.kind is EditKind.ORIGINAL and record.value is not None
    ]
    made = Fingerprinter(profile).fingerprint_batch(texts)
    return round(fmean(len(each.sketch) for each in made))


def row_bytes_per_document(scheme: BlockScheme, sketch: int = 0) -> int:
    """Return the bytes of a document's rows: its id 32 characters, its sketch ``sketch`` bytes."""
    fingerprint = bytes(scheme.bits // 8)
    entry = Entry(
        _SAMPLE,
        "x" * _ID_CHARACTERS,
        _SAMPLE_TIME_MS,
        fingerprint,
        bytes(_DIGEST_BYTES),
        bytes(sketch),
    )
    entry_row = len(entry_key(0)) + len(encode_entry(entry))
    bucket_row = bucket_prefix_length(scheme.block_bits) + ORDER_BYTES + len(fingerprint)
    return entry_row + len(scheme.buckets(fingerprint)) * bucket_row


def state_bytes_per_document(scheme: BlockScheme, sketch: int = 0) -> int:
    """Return the bytes of files a document, ``ROCKSDB_OVERHEAD`` included."""
    return round(row_bytes_per_document(scheme, sketch) * ROCKSDB_OVERHEAD)
