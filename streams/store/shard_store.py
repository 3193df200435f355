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
from typing import Final, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from rocksdict import WriteBatch

from simhash_core.entries import Entry
from simhash_core.index.prints import joined_prints
from simhash_core.log.outputs import NewEntries
from simhash_core.log.sequence import INDEX_BITS, log_offset_of
from streams.store import state_codec as codec
from streams.store.changelog_codec import (
    ChangelogRecord,
    encode_block,
    encode_deletions,
    encode_end,
)
from streams.store.columns_codec import WORD_BYTES
from streams.store.entry_block import EntryBlock, entry_block
from streams.store.entry_references import ReferenceChanges, id_rows
from streams.store.entry_removal import (
    Expiry,
    Removal,
    deletions_between,
    expiry_of,
    packet_range,
    removal_of,
)
from streams.store.entry_rows import (
    EntryPrints,
    decode_entry,
    encode_entry_rows,
    ids_in,
    is_undecidable,
    read_prints,
    sequences_in,
)
from streams.store.rocksdb_store import RocksStore, Rows
from streams.store.shard_segments import ShardSegments
from streams.store.state_codec import ProgressRow, SourceName, StoredProgress

_Result = TypeVar("_Result")

_SCANNED_ROWS: Final = 16_384
_JOINED_SCANS: Final = 4
_LAST: Final = (1 << 64) - 1
_ENTRIES: Final = codec.ENTRY_TAG, codec.after(codec.ENTRY_TAG)


class StoreChange(NamedTuple):
    """What one commit changes beside the progress; ``records_of`` is the same for the changelog.

    ``expiry``: None where nothing expires. ``expired_before``: as of the store, afterwards.
    ``removed``: how many entries are deleted.
    """

    blocks: Sequence[EntryBlock]
    removal: Removal = Removal((), ())
    expiry: Expiry | None = None
    expired_before: int = 0
    removed: int = 0

    @property
    def expired(self) -> int:
        """How many entries expire."""
        return 0 if self.expiry is None else len(self.expiry.rows[0])


class ShardStore:
    """Entries and progress on disk, for one thread at a time. Any method may raise ``StoreError``.

    An ``EntryStore`` of the protocol (``simhash_core.log.participant``).
    """

    def __init__(self, store: RocksStore, bits: int) -> None:
        """Take over ``store``, which is open and known to be of this shard.

        ``bits``: of a fingerprint.
        """
        self.segments: ShardSegments | None = None
        """Its segment files, once they were looked for."""
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
        found = []
        for document_id in ids:
            numbers = self._numbers(codec.id_key(document_id))
            text = document_id.decode() if numbers else ""
            found.append([each for each in numbers if self._entry(each).document_id == text])
        return found

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
            for found, _ in self._store.scan(*keys, _SCANNED_ROWS)
            for key in found
        ]

    def forget_gone(self, sequences: Iterable[int]) -> None:
        """Learn that no segment file has these entries any more."""
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
        for keys, values in self._store.scan(lower, upper, _SCANNED_ROWS):
            parts.append(self._prints(keys, values, bands))
            if len(parts) == _JOINED_SCANS:
                yield _joined(parts)
                parts.clear()
        if parts:
            yield _joined(parts)

    def all_entries(self) -> Iterator[tuple[int, Entry]]:
        """Yield sequence numbers and entries in the order of the log."""
        for keys, values in self._store.scan(*self._entry_range, _SCANNED_ROWS):
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
        batch = WriteBatch(raw_mode=True)
        references = ReferenceChanges(self._numbers)
        blocks = [_kept(block, change.removal, row.expired_before) for block in change.blocks]
        named = dict(self._source_numbers)
        written = self._put_entries(batch, references, blocks, named)
        count = self._count + sum(map(len, written))
        count -= self._delete_removed(batch, references, change.removal)
        if row.expired_before > self.expired_before:
            count -= self._expire(batch, references, change.expiry, row.expired_before)
        references.put(batch)
        batch.put(codec.COUNT_KEY, codec.encode_number(count))
        batch.put(codec.PROGRESS_KEY, progress)
        self._store.write(batch)
        self._count = count
        self._highest = max([self._highest, *(int(each.sequences[-1]) for each in written)])
        self._source_numbers = named
        self._sources = {number: name for name, number in named.items()}
        self._row = row

    def _put_entries(
        self,
        batch: WriteBatch,
        references: ReferenceChanges,
        blocks: Sequence[EntryBlock],
        named: dict[SourceName, int],
    ) -> list[EntryBlock]:
        """Add entries to a batch, but those that are there; return them."""
        highest = self._highest
        written: list[EntryBlock] = []
        for each in blocks:
            block = each
            if len(block) and int(block.sequences[0]) <= highest:
                block = self._new(block, [other.sequences for other in written])
            if not len(block):
                continue
            name = SourceName(block.chain.topic, block.chain.partition)
            number = named.setdefault(name, len(named))
            if name not in self._source_numbers:
                batch.put(codec.source_key(number), codec.encode_source(name))
            first = int(block.sequences[0])
            if log_offset_of(first) <= log_offset_of(max(highest, 0)):
                # The packet has a record already: this one is known by a row of its own.
                deletions = deletions_between(self._store, first, first + 1).get(first, [])
                added = [sequence - first for sequence in deletions]
                batch.put(codec.deletions_key(first), codec.encode_deletions(added))
            self._store.put_entries(batch, *encode_entry_rows(block, number))
            for row in np.flatnonzero(block.columns.undecidable).tolist():
                key = codec.content_key(block.columns.digest(row))
                references.add(key, int(block.sequences[row]))
            if self._has_ids:
                for document_id, sequence in zip(
                    block.columns.ids, block.sequences.tolist(), strict=True
                ):
                    references.add(codec.id_key(document_id), sequence)
            written.append(block)
            highest = max(highest, int(block.sequences[-1]))
        return written

    def _delete_removed(
        self, batch: WriteBatch, references: ReferenceChanges, removal: Removal
    ) -> int:
        """Add the deletion of entries to a batch; return of how many."""
        deleted: set[int] = set()
        for deletions in removal.deletions:
            added = [sequence - deletions.first for sequence in deletions.sequences]
            batch.put(codec.deletions_key(deletions.first), codec.encode_deletions(added))
            deleted.update(deletions.sequences)
        for end in removal.ends:
            low, high = packet_range(end.first)
            for first in deletions_between(self._store, low, high):
                batch.delete(codec.deletions_key(first))
            scanned = self._store.scan(codec.entry_key(low), codec.entry_key(high), _SCANNED_ROWS)
            for keys, _ in scanned:
                deleted.update(self._decoded(codec.entry_sequence, key) for key in keys)
        count = 0
        for sequence in deleted:
            key = codec.entry_key(sequence)
            value = self._store.get(key)
            if value is not None and sequence >= self.expired_before:
                self._store.delete_entry(batch, key)
                batch.put(codec.gone_key(sequence), b"")
                self._remove_references(references, sequence, value)
                count += 1
        return count

    def _expire(
        self,
        batch: WriteBatch,
        references: ReferenceChanges,
        expiry: Expiry | None,
        before: int,
    ) -> int:
        """Add to a batch that entries below ``before`` have expired; return how many they are.

        ``expiry``: they are known; None: they are to be found.
        """
        after, upper = codec.entry_key(self.expired_before), codec.entry_key(before)
        parts: Iterable[Rows]
        parts = [expiry.rows] if expiry else self._store.scan(after, upper, _SCANNED_ROWS)
        count = 0
        for keys, values in parts:
            count += len(keys)
            for key, value in zip(keys, values, strict=True):
                if self._has_ids or is_undecidable(value):
                    sequence = self._decoded(codec.entry_sequence, key)
                    self._remove_references(references, sequence, value)
        for first in deletions_between(self._store, self.expired_before, before):
            batch.delete(codec.deletions_key(first))
        for sequence in self.gone(0, before - 1):
            batch.delete(codec.gone_key(sequence))
        if expiry is None or expiry.whole:
            # At one time for all of them: many such rows would make reading slow.
            self._store.delete_entries(batch, codec.entry_key(0), upper)
        return count

    def _remove_references(self, references: ReferenceChanges, sequence: int, value: bytes) -> None:
        entry = self._decoded_entry(value)
        if not entry.fingerprint:
            references.remove(codec.content_key(entry.content_digest), sequence)
        if self._has_ids:
            references.remove(codec.id_key(entry.document_id.encode()), sequence)

    def _make_ids(self) -> None:
        """Write the rows by id of all entries."""
        digests: list[bytes] = []
        sequences: list[NDArray[np.uint64]] = []
        for keys, values in self._store.scan(*self._entry_range, _SCANNED_ROWS):
            digests.append(b"".join(map(codec.id_digest, ids_in(values, self._words))))
            sequences.append(sequences_in(keys))
        for rows in id_rows(b"".join(digests), sequences, _SCANNED_ROWS):
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

    def _new(self, block: EntryBlock, written: list[NDArray[np.uint64]]) -> EntryBlock:
        """Return those entries of a block that are neither stored nor about to be."""
        in_batch = np.concatenate([*written, np.empty(0, dtype=np.uint64)])
        new = ~np.isin(block.sequences, in_batch)
        stored = block.sequences <= max(self._highest, 0)
        for row in np.flatnonzero(new & stored).tolist():
            key = codec.entry_key(int(block.sequences[row]))
            new[row] = self._store.get(key) is None
        low, high = (
            packet_range(int(block.sequences[0]))[0],
            packet_range(int(block.sequences[-1]))[1],
        )
        deleted = [
            each for row in deletions_between(self._store, low, high).values() for each in row
        ]
        new &= ~np.isin(block.sequences, np.array(deleted, dtype=np.uint64))
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


def _kept(block: EntryBlock, removal: Removal, expired_before: int) -> EntryBlock:
    """Return those entries of a block that are not removed in the same change."""
    removed = [sequence for each in removal.deletions for sequence in each.sequences]
    packets = [log_offset_of(each.first) for each in removal.ends]
    gone = block.sequences < np.uint64(expired_before)
    if removed:
        gone |= np.isin(block.sequences, np.array(removed, dtype=np.uint64))
    if packets:
        of_packets = block.sequences >> np.uint64(INDEX_BITS)
        gone |= np.isin(of_packets, np.array(packets, dtype=np.uint64))
    return block.take(np.flatnonzero(~gone)) if gone.any() else block


def records_of(change: StoreChange) -> list[ChangelogRecord]:
    """Return the records of the changelog that say the same as a change."""
    records = [encode_block(block) for block in change.blocks if len(block)]
    records += map(encode_deletions, change.removal.deletions)
    ends = [*change.removal.ends, *(() if change.expiry is None else change.expiry.ends)]
    for end in ends:
        records += encode_end(end.first)
    return records
