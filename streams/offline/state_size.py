"""How many bytes an index takes for a document: on disk from its row, in memory from its columns.

A document has one row, in the store of its shard (docs/formats.md, State on disk); RocksDB adds its
own numbers, filters and indices. In memory a worker has a row of each document of its shards in the
columns of a segment (``simhash_core.index.segment``); while segments are merged it is there twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.fingerprints.fingerprint import WORD_BITS
from simhash_core.index.document_index import SEGMENT_DOCUMENTS_LIMIT
from simhash_core.index.prints import BAND_KEY_BYTES
from simhash_core.log.packets import Chain
from simhash_core.text.fingerprinter import CONTENT_DIGEST_SIZE
from simhash_core.text.profiles import Profile
from streams.store.entry_block import EntryBlock
from streams.store.entry_rows import encode_entry_rows

ROCKSDB_OVERHEAD: Final = 1.06
"""Bytes of files a byte of rows. Measured with 66,000 random entries of each profile: 1.06 for
``classic``, 1.05 for ``wide``."""

SKETCH_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {"none": 0, "cosine": 320, "metadata": 0, "shingles": 256}
)
"""The bytes of a sketch by verification, without keys of bands: the mean of generated articles,
which a test measures."""

_SEQUENCE_AND_SLOT_BYTES: Final = 8 + 2
_ROW_BYTES: Final = 4
"""A document's number in each of its buckets, a range's place in the directory, and a key."""

_NUMBERS_BYTES: Final = 8
"""Offset, time and lengths of a document in a packet."""

_ID_CHARACTERS: Final = 32
_CHAIN: Final = Chain("raw-documents", "", 15)


def sketch_bytes(profile: Profile) -> int:
    """Return the usual bytes of a document's sketch, keys of bands included; 0 where none is."""
    return SKETCH_BYTES[profile.verify] + profile.bands * BAND_KEY_BYTES


def row_bytes_per_document(scheme: BlockScheme, sketch: int = 0) -> int:
    """Return the bytes of a document's row: its id 32 characters, its sketch ``sketch`` bytes."""
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
    """Return the bytes of a document in a packet of the log, and as many in the changelog.

    Its fingerprint, digest, sketch and id; offset and time, which a packet has as differences.
    """
    return scheme.bits // 8 + CONTENT_DIGEST_SIZE + sketch + _ID_CHARACTERS + _NUMBERS_BYTES


def state_bytes_per_document(scheme: BlockScheme, sketch: int = 0) -> int:
    """Return the bytes of files a document, in the one shard that has it."""
    return round(row_bytes_per_document(scheme, sketch) * ROCKSDB_OVERHEAD)


def memory_bytes_per_document(scheme: BlockScheme, documents: int = SEGMENT_DOCUMENTS_LIMIT) -> int:
    """Return the bytes of memory a document, in segments of so many."""
    ranges = 1 << scheme.block_bits
    directory = _ROW_BYTES * min(ranges / documents, 1)
    key = _ROW_BYTES if ranges > documents else 0
    a_block = _ROW_BYTES + directory + key
    return round(_SEQUENCE_AND_SLOT_BYTES + scheme.bits // 8 + scheme.all_blocks * a_block)
