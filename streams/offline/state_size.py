"""How many bytes an index takes for a document: its row, and its place in the buckets.

A document has one row, in the store of its shard (docs/formats.md, State on disk); RocksDB adds its
own numbers, filters and indices. Its buckets are in a segment (``simhash_core.index.segment``): a
file beside the store, which is read by way of the page cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.fingerprints.fingerprint import WORD_BITS
from simhash_core.index.memtable import Rows
from simhash_core.index.prints import BAND_KEY_BYTES, Prints
from simhash_core.index.segment import build_segment
from simhash_core.index.segment_columns import columns_of
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

_DOCUMENTS: Final = 1 << 18
"""Documents of the segment that is measured."""

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
    """Return the bytes of files a document, in the one shard that has it: row and segment."""
    rows = round(row_bytes_per_document(scheme, sketch) * ROCKSDB_OVERHEAD)
    return rows + segment_bytes_per_document(scheme)


@cache
def segment_bytes_per_document(scheme: BlockScheme) -> int:
    """Return the bytes of a document in a segment: what one of random documents takes."""
    chance = np.random.default_rng(_DOCUMENTS)
    words = scheme.bits // WORD_BITS
    prints = Prints(
        chance.integers(0, 1 << 64, (_DOCUMENTS, words), dtype=np.uint64),
        chance.integers(1, 1 << 32, (_DOCUMENTS, scheme.bands), dtype=np.uint32),
        np.zeros(_DOCUMENTS, dtype=np.int64),
    )
    numbers = np.arange(_DOCUMENTS, dtype=np.uint64)
    segment = build_segment(scheme, Rows(numbers, np.zeros(_DOCUMENTS, dtype=np.uint16), prints))
    _, columns = columns_of(segment, with_times=False)
    return round(sum(column.nbytes for column in columns.values()) / _DOCUMENTS)
