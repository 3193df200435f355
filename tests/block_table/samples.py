"""Entries, buckets and tables for the tests of block tables.

The scheme is narrow: four blocks of four bits, so that documents meet often and buckets fill up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocksdict import Cache

from simhash_core.block_table import BlockTable, Candidates
from simhash_core.blocks import BlockScheme, Bucket
from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.entries import Entry, PutEntry, PutParked
from simhash_core.placement import Placement
from simhash_core.probes import Probe, Visit
from streams.rocksdb_options import StoreSettings, block_cache
from streams.rocksdb_table import RocksBlockTable
from streams.shard_directory import open_block_table
from streams.state_codec import StoreIdentity

SCHEME: Final = BlockScheme(bits=64, blocks=4, distance=3, block_bits=4)
PLACEMENT: Final = Placement(SCHEME, 1)
IDENTITY: Final = StoreIdentity("firstseen-index/1 of the tests", "tests", 0, 1)
ALL_BUCKETS: Final = [
    Bucket(bytes((block, value))) for block in range(SCHEME.blocks) for value in range(16)
]


def fingerprint_of(*values: int) -> bytes:
    """A fingerprint whose blocks have these values, one to four of them; all other bits are 0."""
    number = 0
    for value in (*values, 0, 0, 0, 0)[:4]:
        number = number << 4 | value
    return (number << 48).to_bytes(8, "big")


def entry_of(
    offset: int, fingerprint: bytes, *, digest: bytes = b"", topic: str = "raw-documents"
) -> Entry:
    """The entry of the document at an offset."""
    digest = digest or offset.to_bytes(16, "big")
    return Entry(
        SourcePosition(topic, 3, offset), f"文-{offset}", 1_700_000_000_000, fingerprint, digest
    )


def put(order: int, *values: int) -> PutEntry:
    """A confirmed entry whose blocks have these values."""
    return PutEntry(order, entry_of(1000 + order, fingerprint_of(*values)))


def undecidable(order: int, digest: bytes) -> PutEntry:
    """A confirmed entry of a document without a fingerprint."""
    return PutEntry(order, entry_of(1000 + order, b"", digest=digest))


def parked(ticket: int, behind: SourcePosition, value: bytes = b"{}") -> PutParked:
    """A visit that waits."""
    source = SourcePosition("raw-documents", 0, ticket)
    record = RawRecord(b"key", value, 1_700_000_000_000, (("trace", None), ("trace", b"7f")))
    probe = Probe(source, "d", 1_700_000_000_000, fingerprint_of(1), b"\x02" * 16, None, record)
    return PutParked(ticket, behind, Visit(probe, (0, 2)))


def met(candidates: Candidates) -> list[tuple[int, bytes]]:
    """Rows as pairs of order and fingerprint, sorted: a table may give them in any order."""
    return sorted(
        (order, row.tobytes())
        for order, row in zip(candidates.orders.tolist(), candidates.fingerprints, strict=True)
    )


def all_met(table: BlockTable) -> dict[Bucket, list[tuple[int, bytes]]]:
    """Every row of every bucket that is not empty."""
    rows = {bucket: met(table.candidates([bucket])) for bucket in ALL_BUCKETS}
    return {bucket: found for bucket, found in rows.items() if found}


def open_store(
    path: Path,
    *,
    identity: StoreIdentity = IDENTITY,
    placement: Placement = PLACEMENT,
    cache: Cache | None = None,
    settings: StoreSettings | None = None,
    must_exist: bool = False,
) -> RocksBlockTable:
    """Open a table with the scheme of these tests."""
    cache = cache or block_cache(8 * 1024 * 1024)
    return open_block_table(path, identity, placement, cache, settings, must_exist=must_exist)
