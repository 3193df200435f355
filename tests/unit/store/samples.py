"""Documents, packets and stores for the tests of the state of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from rocksdict import Cache

from simhash_core.document_columns import REASON_CODES, BytesColumn, DocumentColumns
from simhash_core.documents import Entry
from simhash_core.log.records import Chain, Packet, Progress, Sender, entry_of
from simhash_core.log.shard_stream import NewEntries
from simhash_core.verdicts import UndecidableReason
from streams.store.rocksdb_store import MIB, StoreSettings, block_cache
from streams.store.row_codec import StoredProgress, StoreIdentity
from streams.store.shard_directory import open_shard_store
from streams.store.shard_store import ShardStore

CHAIN: Final = Chain("raw-documents", "wVzq5XKbQnOXq3kcTtQx2g", 3)
INDEX: Final = "firstseen-index/1 bits=64 blocks=4x16 distance=3"
READING: Final = "reader=1\nfields.text=text"
IDENTITY: Final = StoreIdentity(INDEX, "tests", 3)
BITS: Final = 64


class Sample(NamedTuple):
    """A document. ``reason``: why it is undecidable; its fingerprint is left out then."""

    offset: int
    document_id: str
    fingerprint: bytes = b""
    digest: bytes = b""
    sketch: bytes = b""
    time_ms: int = 1_700_000_000_000
    reason: UndecidableReason | None = None


def sample(offset: int, *, undecidable: bool = False, sketch: bytes = b"") -> Sample:
    """The document at an offset, the same each time."""
    return Sample(
        offset,
        f"文-{offset}",
        (offset * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big"),
        offset.to_bytes(16, "big"),
        sketch,
        1_700_000_000_000 + offset,
        UndecidableReason.TOO_FEW_FEATURES if undecidable else None,
    )


def columns_of(samples: Sequence[Sample], words: int = 1) -> DocumentColumns:
    nothing = bytes(8 * words)
    prints = b"".join(nothing if each.reason else each.fingerprint for each in samples)
    digests = b"".join(each.digest for each in samples)
    return DocumentColumns(
        np.array([each.offset for each in samples], dtype=np.int64),
        np.array([each.time_ms for each in samples], dtype=np.int64),
        BytesColumn.of([each.document_id.encode() for each in samples]),
        np.frombuffer(digests, dtype=np.uint8).reshape(len(samples), 16),
        np.frombuffer(prints, dtype=np.uint64).reshape(len(samples), words),
        np.array([REASON_CODES.index(each.reason) for each in samples], dtype=np.uint8),
        BytesColumn.of([each.sketch for each in samples]),
    )


def packet_of(
    samples: Sequence[Sample], *, previous: int | None = None, chain: Chain = CHAIN
) -> Packet:
    """A packet of documents; it covers those alone, unless it says from where."""
    first = samples[0].offset - 1 if previous is None else previous
    columns = columns_of(samples)
    return Packet(chain, Sender("worker-7f", 12), first, samples[-1].offset, columns)


def new_entries(
    log_offset: int, samples: Sequence[Sample], rows: Sequence[int] | None = None
) -> NewEntries:
    """Those documents of a packet that are unique: all, unless ``rows`` are given."""
    packet = packet_of(samples)
    kept = np.arange(len(packet)) if rows is None else np.array(rows, dtype=np.intp)
    return NewEntries(log_offset, packet, kept)


def expected(entries: Sequence[NewEntries]) -> dict[int, Entry]:
    """What a store is to say of entries, by sequence number."""
    return {
        sequence: entry_of(each.packet, row)
        for each in entries
        for sequence, row in zip(each.sequences.tolist(), each.rows.tolist(), strict=True)
    }


def progress_at(next_offset: int, changelog_offset: int = 0) -> StoredProgress:
    progress = Progress(CHAIN, next_offset, next_offset * 2, next_offset * 2 - 1)
    return StoredProgress(progress, changelog_offset, 1_700_000_000_000, INDEX, READING)


def open_store(
    path: Path,
    *,
    identity: StoreIdentity = IDENTITY,
    cache: Cache | None = None,
    settings: StoreSettings | None = None,
    must_exist: bool = False,
) -> ShardStore:
    cache = cache or block_cache(8 * MIB)
    return open_shard_store(path, identity, BITS, cache, settings, must_exist=must_exist)


def fingerprints_in(store: ShardStore) -> dict[int, bytes]:
    return {
        sequence: words.tobytes()
        for sequences, prints in store.prints()
        for sequence, words in zip(sequences.tolist(), prints.fingerprints, strict=True)
    }
