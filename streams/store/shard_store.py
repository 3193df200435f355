"""The state of one shard in RocksDB; ``streams.store.shard_directory`` opens it.

A row for each entry, one for the content of each undecidable document, and one for the progress.
The index of buckets is the worker's, in memory: it is filled from ``prints`` when a shard is
opened, and nothing of it is stored.

**A commit is one batch**: after a crash all of it is there or none. It is with the operating system
before ``commit`` returns, and so survives kill -9 (``StoreSettings.sync`` says what a loss of power
does). The number of entries is written along, because RocksDB cannot count without reading.

**An entry is written once.** One whose sequence number is there already is left out: without
transactions, what was committed just before a crash may be committed a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from rocksdict import WriteBatch

from simhash_core.entries import Entry
from simhash_core.index.prints import joined_prints
from simhash_core.log.outputs import NewEntries
from streams.store import state_codec as codec
from streams.store.columns_codec import WORD_BYTES
from streams.store.entry_batch import SCANNED_ROWS, EntryBatch, StoreState
from streams.store.entry_block import EntryBlock, entry_block
from streams.store.entry_references import id_rows
from streams.store.entry_removal import Removal, expiry_of, removal_of
from streams.store.entry_rows import (
    EntryPrints,
    decode_entry,
    ids_in,
    read_prints,
    sequences_in,
)
from streams.store.rocksdb_store import RocksStore
from streams.store.shard_segments import ShardSegments
from streams.store.state_codec import ProgressRow, SourceName, StoredProgress
from streams.store.store_change import StoreChange, kept_of

_Result = TypeVar("_Result")

_JOINED_SCANS: Final = 4
_LAST: Final = (1 << 64) - 1
_ENTRIES: Final = codec.ENTRY_TAG, codec.after(codec.ENTRY_TAG)


class ShardStore:
    """Entries and progress on disk, for one thread at a time. Any method may raise ``StoreError``.

    An ``EntryStore`` of the protocol (``simhash_core.log.participant``).
    """

    def __init__(self, store: RocksStore, bits: int) -> None:
        """Use ``store``, which is open and known to be of this shard.

        ``bits``: of a fingerprint.
        """
        self.segments: ShardSegments | None = None
        """Its segment files, once they were looked for."""
        self._store = store
        self._words = bits // (8 * WORD_BYTES)
        self._sources: dict[int, SourceName] = {
            self._decoded(codec.source_number, key): self._decoded(codec.decode_source, value)
            for keys, values in store.scan(
                codec.SOURCE_TAG, codec.after(codec.SOURCE_TAG), SCANNED_ROWS
            )
            for key, value in zip(keys, values, strict=True)
        }
        self._source_numbers = {name: number for number, name in self._sources.items()}
        count = store.get(codec.COUNT_KEY)
        self._count = 0 if count is None else self._decoded(codec.decode_number, count)
        last = store.last_key_between(*_ENTRIES)
        self._highest = -1 if last is None else self._decoded(codec.entry_sequence, last)
        self._has_ids = store.get(codec.IDS_KEY) is not None
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

    def by_content(self, digest: bytes) -> list[int]:
        """Return the undecidable documents of a content: their sequence numbers, rising."""
        return self._numbers(codec.content_key(digest))

    def by_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        """Return the entries with each id: their sequence numbers, rising.

        The first time this reads all entries, and makes a row for each id.
        """
        if not self._has_ids:
            self._make_ids()
        sequences = []
        for document_id in ids:
            numbers = self._numbers(codec.id_key(document_id))
            text = document_id.decode() if numbers else ""
            sequences.append([each for each in numbers if self._entry(each).document_id == text])
        return sequences

    def oldest_time_ms(self) -> int | None:
        """Return the time of the first entry in the order of the log; None: there is none."""
        for keys, values in self._store.scan(*self._entry_range, 1):
            del keys
            return self._decoded_entry(values[0]).event_time_ms
        return None

    @property
    def highest(self) -> int:
        """The highest sequence number of an entry, -1 for none."""
        return self._highest

    def gone(self, first: int = 0, last: int = _LAST) -> list[int]:
        """Return the entries that were deleted, and may be in segment files still.

        ``first``, ``last``: the sequence numbers between which to look.
        """
        keys = codec.gone_key(first), codec.gone_key(last) + b"\0"
        return [
            self._decoded(codec.gone_sequence, key)
            for rows, _ in self._store.scan(*keys, SCANNED_ROWS)
            for key in rows
        ]

    def forget_gone(self, sequences: Iterable[int]) -> None:
        """Note that no segment file has these entries any more."""
        batch = WriteBatch(raw_mode=True)
        for sequence in sequences:
            batch.delete(codec.gone_key(sequence))
        self._store.write(batch)

    @property
    def expired_before(self) -> int:
        """The sequence number below which no entry is left."""
        return self._row.expired_before

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
            row.expired_before,
        )

    @property
    def changelog_offset(self) -> int:
        """The next offset of the changelog that the store has not read."""
        return self._row.changelog_offset

    @property
    def changelog_time_ms(self) -> int:
        """When the last record of the changelog that it has read was written, milliseconds."""
        return self._row.changelog_time_ms

    def prints(self, bands: int = 0, after: int = -1) -> Iterator[EntryPrints]:
        """Yield the prints of decidable entries whose sequence numbers are above ``after``.

        In the order of the log, at most 65,536 at a time: an index sorts larger parts once less.
        ``bands``: of a sketch.
        """
        parts: list[EntryPrints] = []
        first = max(after + 1, self._row.expired_before)
        lower, upper = codec.entry_key(first), _ENTRIES[1]
        for keys, values in self._store.scan(lower, upper, SCANNED_ROWS):
            parts.append(self._prints(keys, values, bands))
            if len(parts) == _JOINED_SCANS:
                yield _joined(parts)
                parts.clear()
        if parts:
            yield _joined(parts)

    def all_entries(self) -> Iterator[tuple[int, Entry]]:
        """Yield sequence numbers and entries in the order of the log."""
        for keys, values in self._store.scan(*self._entry_range, SCANNED_ROWS):
            for key, value in zip(keys, values, strict=True):
                yield self._decoded(codec.entry_sequence, key), self._decoded_entry(value)

    def number(self, name: str) -> int:
        """Return one of RocksDB's figures of itself, ``rocksdb.…``."""
        return self._store.number(name)

    @property
    def _entry_range(self) -> tuple[bytes, bytes]:
        """The keys of entries: what has expired may not be deleted yet."""
        return codec.entry_key(self._row.expired_before), _ENTRIES[1]

    # ---- writing

    def change(
        self,
        entries: Sequence[NewEntries],
        removed: Sequence[int] = (),
        expired_before: int = 0,
    ) -> StoreChange:
        """Return what a commit is to change; nothing is written yet.

        ``removed``: sequence numbers of entries that are deleted. ``expired_before``: all entries
        below it have expired; they leave the store a few thousand a commit.
        """
        blocks = [entry_block(each) for each in entries]
        try:
            there = [each for each in set(removed) if self._has(each)]
            removal = removal_of(self._store, there, {each.log_offset for each in entries})
            before, expiry = self.expired_before, None
            if expired_before > before:
                expiry = expiry_of(self._store, before, expired_before)
                before = expiry.before
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error
        return StoreChange(blocks, removal, expiry, before, len(there))

    def _has(self, sequence: int) -> bool:
        if sequence < self.expired_before:
            return False
        return self._store.get(codec.entry_key(sequence)) is not None

    def write(self, change: StoreChange, progress: StoredProgress) -> None:
        """Write a change, and progress, all or nothing. Raises ``StoreError``."""
        row = replace(progress, expired_before=change.expired_before)
        self._write(change, codec.encode_progress(row))

    def commit(
        self,
        entries: Sequence[NewEntries],
        progress: StoredProgress,
        removed: Sequence[int] = (),
        expired_before: int = 0,
    ) -> None:
        """Write what ``change`` returns, and progress, all or nothing. Raises ``StoreError``."""
        self.write(self.change(entries, removed, expired_before), progress)

    def load(
        self, blocks: Sequence[EntryBlock], progress: ProgressRow, removal: Removal | None = None
    ) -> None:
        """Write what was read from the changelog, all or nothing. Raises ``StoreError``."""
        change = StoreChange(blocks, removal or Removal((), ()))
        before = max(self.expired_before, progress.expired_before)
        self._write(change, codec.encode_progress(replace(progress, expired_before=before)))

    def close(self) -> None:
        """Let go of files and lock. Closing again has no effect."""
        self._store.close()

    def _write(self, change: StoreChange, progress: bytes) -> None:
        row = codec.decode_progress(progress)
        before = row.expired_before
        blocks = [kept_of(block, change.removal, before) for block in change.blocks]
        state = StoreState(self._highest, self.expired_before, self._has_ids, self._source_numbers)
        batch = EntryBatch(self._store, state, self._numbers)
        try:
            records = [int(each.sequences[0]) if len(each) else 0 for each in change.blocks]
            count = self._count + batch.put(blocks, records, change.removal.deletions)
            count -= batch.delete(change.removal)
            if before > self.expired_before:
                count -= batch.expire(change.expiry, before)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error
        batch.finish(count, progress)
        self._count, self._highest = count, batch.highest
        self._source_numbers = batch.source_numbers
        self._sources = {number: name for name, number in batch.source_numbers.items()}
        self._row = row

    def _make_ids(self) -> None:
        """Write the rows by id of all entries."""
        digests: list[bytes] = []
        sequences: list[NDArray[np.uint64]] = []
        for keys, values in self._store.scan(*self._entry_range, SCANNED_ROWS):
            digests.append(b"".join(map(codec.id_digest, ids_in(values, self._words))))
            sequences.append(sequences_in(keys))
        for rows in id_rows(b"".join(digests), sequences, SCANNED_ROWS):
            batch = WriteBatch(raw_mode=True)
            for key, value in rows:
                batch.put(key, value)
            self._store.write(batch)
        batch = WriteBatch(raw_mode=True)
        batch.put(codec.IDS_KEY, b"")
        self._store.write(batch)
        self._has_ids = True

    def _numbers(self, key: bytes) -> list[int]:
        value = self._store.get(key)
        return [] if value is None else self._decoded(codec.decode_numbers, value)

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

    def _prints(self, keys: Sequence[bytes], values: Sequence[bytes], bands: int) -> EntryPrints:
        try:
            return read_prints(keys, values, self._words, bands)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error

    def _decoded(self, decode: Callable[[bytes], _Result], raw: bytes) -> _Result:
        """Decode a key or a value of the store; what cannot be decoded is damage."""
        try:
            return decode(raw)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error


def _joined(parts: Sequence[EntryPrints]) -> EntryPrints:
    return EntryPrints(
        np.concatenate([each.sequences for each in parts]),
        joined_prints([each.prints for each in parts]),
    )
