"""Documents, packets, commits and stores for the tests of the state of a shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from rocksdict import Cache

from simhash_core.document_columns import REASON_CODES, BytesColumn, DocumentColumns
from simhash_core.documents import Entry
from simhash_core.log.records import Chain, Packet, Progress, Sender, entry_of
from simhash_core.log.shard_stream import NewEntries
from simhash_core.verdicts import UndecidableReason
from streams.store.changelog import LoggedBatch
from streams.store.changelog_codec import ChangelogRecord, encode_block
from streams.store.rocksdb_store import MIB, RocksStore, block_cache
from streams.store.row_codec import ENTRIES, StoredProgress, StoreIdentity, entry_block
from streams.store.row_store import each_row
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_store import ShardStore
from tests.rigs.memory_rows import MemoryDisk
from tests.rigs.waiting import await_that

CHAIN: Final = Chain("raw-documents", "wVzq5XKbQnOXq3kcTtQx2g", 3)
INDEX: Final = "firstseen-index/1 bits=64 blocks=4x16 distance=3"
READING: Final = "reader=1\nfields.text=text"
IDENTITY: Final = StoreIdentity(INDEX, "tests", 3)
BITS: Final = 64
TIME_MS: Final = 1_700_000_000_000
ENTRIES_PER_COMMIT: Final = 40


class Sample(NamedTuple):
    offset: int
    document_id: str
    fingerprint: bytes
    digest: bytes
    sketch: bytes
    time_ms: int
    reason: UndecidableReason | None  # with a reason, it has no fingerprint


def sample(offset: int, *, undecidable: bool = False, sketch: bytes = b"") -> Sample:
    return Sample(
        offset,
        f"文-{offset}",
        (offset * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big"),
        offset.to_bytes(16, "big"),
        sketch,
        TIME_MS + offset,
        UndecidableReason.TOO_FEW_FEATURES if undecidable else None,
    )


def columns_of(samples: Sequence[Sample]) -> DocumentColumns:
    prints = b"".join(bytes(8) if each.reason else each.fingerprint for each in samples)
    digests = b"".join(each.digest for each in samples)
    return DocumentColumns(
        np.array([each.offset for each in samples], dtype=np.int64),
        np.array([each.time_ms for each in samples], dtype=np.int64),
        BytesColumn.of([each.document_id.encode() for each in samples]),
        np.frombuffer(digests, dtype=np.uint8).reshape(len(samples), 16),
        np.frombuffer(prints, dtype=np.uint64).reshape(len(samples), 1),
        np.array([REASON_CODES.index(each.reason) for each in samples], dtype=np.uint8),
        BytesColumn.of([each.sketch for each in samples]),
    )


def packet_of(samples: Sequence[Sample], chain: Chain = CHAIN) -> Packet:
    """Return a packet with exactly these documents."""
    first, last = samples[0].offset - 1, samples[-1].offset
    return Packet(chain, Sender("worker-7f", 12), first, last, columns_of(samples))


def new_entries(
    log_offset: int, samples: Sequence[Sample], rows: Sequence[int] | None = None
) -> NewEntries:
    """Return the unique documents of a packet: all, or ``rows``."""
    packet = packet_of(samples)
    kept = np.arange(len(packet)) if rows is None else np.array(rows, dtype=np.intp)
    return NewEntries(log_offset, packet, kept)


def expected(entries: Sequence[NewEntries]) -> dict[int, Entry]:
    """Return entries by sequence number."""
    return {
        sequence: entry_of(each.packet, row)
        for each in entries
        for sequence, row in zip(each.sequences.tolist(), each.rows.tolist(), strict=True)
    }


def batch_of(records: Sequence[ChangelogRecord], offsets: Iterable[int]) -> LoggedBatch:
    """Return records of a changelog as they are read."""
    keys, values = [each.key for each in records], [each.value for each in records]
    return LoggedBatch([*keys], values, [*offsets], TIME_MS, "changelog/3")


def encode_entries(new: NewEntries) -> ChangelogRecord:
    return encode_block(entry_block(new))


def progress_at(next_offset: int, changelog_offset: int = 0) -> StoredProgress:
    progress = Progress(CHAIN, next_offset, next_offset * 2, next_offset * 2 - 1)
    return StoredProgress(progress, changelog_offset, TIME_MS, INDEX, READING)


def entries_of(commit: int) -> list[NewEntries]:
    """Return the entries of commit number ``commit`` (from 0), which are those of two packets."""
    first = commit * ENTRIES_PER_COMMIT
    samples = [
        sample(n, undecidable=n % 7 == 0, sketch=bytes(range(256)))
        for n in range(first, first + ENTRIES_PER_COMMIT)
    ]
    return [new_entries(2 * commit, samples[:15]), new_entries(2 * commit + 1, samples[15:])]


def progress_of(commit: int) -> StoredProgress:
    return progress_at((commit + 1) * ENTRIES_PER_COMMIT, commit + 1)


def write(store: ShardStore, commit: int) -> None:
    store.commit(entries_of(commit), progress_of(commit))


def check_holds(store: ShardStore, commits: int) -> None:
    """Fail unless the store has exactly the first ``commits`` commits."""
    wanted = expected([each for number in range(commits) for each in entries_of(number)])
    stored = store.progress()
    assert stored is not None
    assert stored.progress == progress_of(commits - 1).progress
    assert (stored.identity, stored.reading) == (INDEX, READING)
    assert len(store) == commits * ENTRIES_PER_COMMIT
    assert dict(store.all_entries()) == wanted
    assert fingerprints_in(store) == fingerprints_of(wanted)
    for sequence, entry in wanted.items():
        of_content = [] if entry.fingerprint else [sequence]
        assert store.by_content(entry.content_digest) == of_content


def open_store(
    path: Path,
    *,
    identity: StoreIdentity = IDENTITY,
    cache: Cache | None = None,
    must_exist: bool = False,
) -> ShardStore:
    """Open a store that writes files often."""
    disk = RocksDisk(cache or block_cache(8 * MIB), MIB)
    return open_shard(path, identity, BITS, disk, must_exist=must_exist)


def memory_store() -> ShardStore:
    """Return an empty store on a disk of its own in memory."""
    return open_shard(Path("shard-3"), IDENTITY, BITS, MemoryDisk())


def fingerprints_in(store: ShardStore) -> dict[int, bytes]:
    return {
        sequence: words.tobytes()
        for sequences, prints in store.prints()
        for sequence, words in zip(sequences.tolist(), prints.fingerprints, strict=True)
    }


def fingerprints_of(entries: dict[int, Entry]) -> dict[int, bytes]:
    return {number: entry.fingerprint for number, entry in entries.items() if entry.fingerprint}


def await_written(store: ShardStore) -> None:
    work = (
        *("rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes"),
        *("rocksdb.compaction-pending", "rocksdb.num-running-compactions"),
    )
    await_that(lambda: not any(map(store.number, work)))


@contextmanager
def raw_store(path: Path) -> Iterator[RocksStore]:
    """Open the database of a store directly; create it if it is missing."""
    path.mkdir(parents=True, exist_ok=True)
    with closing(RocksStore(path, block_cache(MIB), create=True)) as store:
        yield store


def write_raw(path: Path, rows: dict[bytes, bytes]) -> None:
    with raw_store(path) as store:
        batch = store.batch()
        for row in rows.items():
            batch.put(*row)
        batch.write()


def read_raw(path: Path) -> dict[bytes, bytes]:
    ranges = (b"\x00", ENTRIES.tag), ENTRIES.bounds, (ENTRIES.bounds[1], b"\xff")
    with raw_store(path) as store:
        return dict(row for each in ranges for row in each_row(store, each))
