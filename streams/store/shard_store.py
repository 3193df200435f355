"""The state of one shard in RocksDB; ``streams.store.shard_directory`` opens it.

A row for each entry, one for the content of each undecidable document, and one for the progress.
The index of buckets is the worker's, in memory: it is filled from ``fingerprints`` when a shard is
opened, and nothing of it is stored.

**A commit is one batch**: after a crash all of it is there or none. It is with the operating system
before ``commit`` returns, and so survives kill -9 (``StoreSettings.sync`` says what a loss of power
does). The number of entries is written along, because RocksDB cannot count without reading.

**An entry is written once.** One whose sequence number is there already is left out: without
transactions, what was committed just before a crash may be committed a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from rocksdict import WriteBatch

from simhash_core.entries import Entry
from simhash_core.log.shard_stream import NewEntries
from streams.store import state_codec as codec
from streams.store.columns_codec import WORD_BYTES
from streams.store.entry_block import EntryBlock, entry_block
from streams.store.entry_rows import (
    Fingerprints,
    decode_entry,
    encode_entry_rows,
    read_fingerprints,
)
from streams.store.rocksdb_store import RocksStore
from streams.store.state_codec import ProgressRow, SourceName, StoredProgress

_Result = TypeVar("_Result")

_SCANNED_ROWS: Final = 16_384
_JOINED_SCANS: Final = 4
_ENTRIES: Final = codec.ENTRY_TAG, codec.after(codec.ENTRY_TAG)


class ShardStore:
    """Entries and progress on disk, for one thread at a time. Any method may raise ``StoreError``.

    An ``EntryStore`` of the protocol (``simhash_core.log.participant``).
    """

    def __init__(self, store: RocksStore, bits: int) -> None:
        """Take over ``store``, which is open and known to be of this shard.

        ``bits``: of a fingerprint.
        """
        self._store = store
        self._words = bits // (8 * WORD_BYTES)
        self._sources: dict[int, SourceName] = {
            self._decoded(codec.source_number, key): self._decoded(codec.decode_source, value)
            for keys, values in store.scan(
                codec.SOURCE_TAG, codec.after(codec.SOURCE_TAG), _SCANNED_ROWS
            )
            for key, value in zip(keys, values, strict=True)
        }
        self._source_numbers = {name: number for number, name in self._sources.items()}
        count = store.get(codec.COUNT_KEY)
        self._count = 0 if count is None else self._decoded(codec.decode_number, count)
        last = store.last_key_between(*_ENTRIES)
        self._highest = -1 if last is None else self._decoded(codec.entry_sequence, last)
        row = store.get(codec.PROGRESS_KEY)
        self._row = ProgressRow() if row is None else self._decoded(codec.decode_progress, row)

    @property
    def path(self) -> Path:
        """The directory of the store."""
        return self._store.path

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._store.closed

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._count

    # ---- reading

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        """Return entries by sequence number; raises ``KeyError`` for one that is not there."""
        return [self._entry(sequence) for sequence in sequences]

    def by_content(self, digest: bytes) -> int | None:
        """Return the sequence number of the undecidable document with this content digest."""
        value = self._store.get(codec.content_key(digest))
        return None if value is None else self._decoded(codec.decode_number, value)

    def progress(self) -> StoredProgress | None:
        """Return the progress that was committed last; None: there is none yet."""
        row = self._row
        if row.progress is None:
            return None
        return StoredProgress(
            row.progress,
            row.changelog_offset,
            row.changelog_time_ms,
            row.identity,
            row.reading,
            row.run,
        )

    @property
    def changelog_offset(self) -> int:
        """The next offset of the changelog that the store has not read."""
        return self._row.changelog_offset

    def fingerprints(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
        """Yield sequence numbers, uint64 (n,), and fingerprints, uint64 (n, bits / 64).

        Of all decidable entries, in the order of the log, at most 65,536 at a time: an index sorts
        larger parts once less.
        """
        parts: list[Fingerprints] = []
        for keys, values in self._store.scan(*_ENTRIES, _SCANNED_ROWS):
            parts.append(self._fingerprints(keys, values))
            if len(parts) == _JOINED_SCANS:
                yield _joined(parts)
                parts.clear()
        if parts:
            yield _joined(parts)

    def all_entries(self) -> Iterator[tuple[int, Entry]]:
        """Yield sequence numbers and entries in the order of the log."""
        for keys, values in self._store.scan(*_ENTRIES, _SCANNED_ROWS):
            for key, value in zip(keys, values, strict=True):
                yield self._decoded(codec.entry_sequence, key), self._decoded_entry(value)

    def number(self, name: str) -> int:
        """Return one of RocksDB's figures of itself, ``rocksdb.…``."""
        return self._store.number(name)

    # ---- writing

    def commit(self, entries: Sequence[NewEntries], progress: StoredProgress) -> None:
        """Write entries and progress, all or nothing. Raises ``StoreError``."""
        self._write([entry_block(each) for each in entries], codec.encode_progress(progress))

    def load(self, blocks: Sequence[EntryBlock], progress: ProgressRow) -> None:
        """Write what was read from the changelog, all or nothing. Raises ``StoreError``."""
        self._write(blocks, codec.encode_progress(progress))

    def close(self) -> None:
        """Let go of files and lock. Closing again has no effect."""
        self._store.close()

    def _write(self, blocks: Sequence[EntryBlock], progress: bytes) -> None:
        batch = WriteBatch(raw_mode=True)
        count, highest = self._count, self._highest
        named = dict(self._source_numbers)
        contents: dict[bytes, int] = {}
        written: list[NDArray[np.uint64]] = []
        for each in blocks:
            block = each
            if len(block) and int(block.sequences[0]) <= highest:
                block = self._new(block, written)
            if not len(block):
                continue
            name = SourceName(block.chain.topic, block.chain.partition)
            number = named.setdefault(name, len(named))
            if name not in self._source_numbers:
                batch.put(codec.source_key(number), codec.encode_source(name))
            self._store.put_entries(batch, *encode_entry_rows(block, number))
            for row in np.flatnonzero(block.columns.undecidable).tolist():
                contents.setdefault(block.columns.digest(row), int(block.sequences[row]))
            written.append(block.sequences)
            count += len(block)
            highest = max(highest, int(block.sequences[-1]))
        for digest, sequence in contents.items():
            if self.by_content(digest) is None:
                batch.put(codec.content_key(digest), codec.encode_number(sequence))
        batch.put(codec.COUNT_KEY, codec.encode_number(count))
        batch.put(codec.PROGRESS_KEY, progress)
        self._store.write(batch)
        self._count, self._highest = count, highest
        self._source_numbers = named
        self._sources = {number: name for name, number in named.items()}
        self._row = codec.decode_progress(progress)

    def _new(self, block: EntryBlock, written: list[NDArray[np.uint64]]) -> EntryBlock:
        """Return those entries of a block that are neither stored nor about to be."""
        in_batch = np.concatenate([*written, np.empty(0, dtype=np.uint64)])
        new = ~np.isin(block.sequences, in_batch)
        stored = block.sequences <= max(self._highest, 0)
        for row in np.flatnonzero(new & stored).tolist():
            key = codec.entry_key(int(block.sequences[row]))
            new[row] = self._store.get(key) is None
        return block if new.all() else block.take(np.flatnonzero(new))

    def _entry(self, sequence: int) -> Entry:
        value = self._store.get(codec.entry_key(sequence))
        if value is None:
            raise KeyError(sequence)
        return self._decoded_entry(value)

    def _decoded_entry(self, value: bytes) -> Entry:
        try:
            return decode_entry(value, self._sources)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error

    def _fingerprints(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Fingerprints:
        try:
            return read_fingerprints(keys, values, self._words)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error

    def _decoded(self, decode: Callable[[bytes], _Result], raw: bytes) -> _Result:
        """Decode a key or a value of the store; what cannot be decoded is damage."""
        try:
            return decode(raw)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error


def _joined(parts: Sequence[Fingerprints]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    sequences, words = map(np.concatenate, zip(*parts, strict=True))
    return sequences, words
