"""How many bytes the state of a shard takes on disk, from the forms of its rows.

A document has one row for its entry, and a place in the files of buckets: its fingerprint, and a
number for each of its blocks (docs/formats.md, State on disk). RocksDB adds its own numbers,
filters and indices to a row; while segments of buckets are merged they stand there twice.
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
from streams.state_codec import ORDER_BYTES, encode_entry, entry_key

ROCKSDB_OVERHEAD: Final = 1.06
"""Bytes of files a byte of rows. Measured with 66,000 random entries of each profile: 1.06 for
``classic``, 1.05 for ``wide``."""

_BUCKET_BYTES: Final = 6
"""Of a document in each of its buckets: its number in the segment (4), and its part of the
directory, which is 1 to 4 bytes in large segments and small ones."""

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
    """Return the bytes of a document's row: its id 32 characters, its sketch ``sketch`` bytes."""
    entry = Entry(
        _SAMPLE,
        "x" * _ID_CHARACTERS,
        _SAMPLE_TIME_MS,
        bytes(scheme.bits // 8),
        bytes(_DIGEST_BYTES),
        bytes(sketch),
    )
    return len(entry_key(0)) + len(encode_entry(entry))


def shards_of_a_document(scheme: BlockScheme, partitions: int) -> float:
    """Return how many of ``partitions`` shards own a bucket of a document, in the mean.

    Its buckets lie anywhere alike. Each of these shards has an entry of it.
    """
    return partitions * (1 - (1 - 1 / partitions) ** scheme.all_blocks)


def state_bytes_per_document(scheme: BlockScheme, sketch: int = 0, partitions: int = 1) -> int:
    """Return the bytes of files a document, in all shards: of its rows, and of its buckets."""
    row = row_bytes_per_document(scheme, sketch) * ROCKSDB_OVERHEAD
    entry = row + ORDER_BYTES + scheme.bits // 8
    return round(
        shards_of_a_document(scheme, partitions) * entry + scheme.all_blocks * _BUCKET_BYTES
    )
