"""The state of one shard in RocksDB; ``streams.store.shard_directory`` opens it.

**A commit is one batch**: after a crash the store has all of it or nothing. The operating system
has the batch before ``commit`` returns, so it survives kill -9. It includes the number of entries,
because RocksDB cannot count without reading.

**No commit is missing.** RocksDB does not notice every lost file: if a write-ahead log or the end
of the manifest is lost, commits in the middle can be missing. So each commit writes a row with its
number and deletes the row before. If there are two such rows, the commits between them are missing.

**An entry is written once.** An entry whose sequence number already exists is skipped, because
without transactions a commit just before a crash may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from msgspec.structs import astuple, replace

from simhash_core.documents import Entry
from simhash_core.fingerprints.bands import NO_BANDS, Bands
from simhash_core.index.key_filter import Column
from simhash_core.log.shard_stream import NewEntries
from streams.store import row_codec as codec
from streams.store.changelog_codec import (
    DELETIONS_TAG,
    ENTRIES_TAG,
    NO_WRITER,
    Written,
)
from streams.store.columns_codec import WORD_BYTES
from streams.store.entry_batch import (
    EntryBatch,
    Place,
    ReferenceChanges,
    Removal,
    StoreChange,
    StoreState,
    expiry_of,
    referenced,
    removal_of,
)
from streams.store.lineage import Lineage
from streams.store.row_codec import (
    DELETED_ENTRIES,
    ENTRIES,
    EntryBlock,
    EntryPrints,
    ProgressRow,
    StoredProgress,
)
from streams.store.row_store import (
    SCANNED_ROWS,
    MissingEntryError,
    RowBatch,
    RowStore,
    StoreCorruptError,
    each_row,
)
from streams.store.shard_segments import FiledRange, ShardSegments

_Raw = ParamSpec("_Raw")
_Result = TypeVar("_Result")

IDS_MADE: Final = 1000  # entries per call of ``make_ids``
KEYS_NOTED: Final = 4096  # rows per call of ``note_keys``

_JOINED_SCANS: Final = 4
_LAST: Final = (1 << 64) - 1
_END: Final = ENTRIES.bounds[1]


class ShardStore:
    """An ``EntryStore`` for one thread at a time. Every method may raise ``StoreError``."""

    def __init__(self, store: RowStore, bits: int) -> None:
        """Use an open store of this shard; ``bits`` is the width of a fingerprint."""
        self.segments: ShardSegments | None = None  # None until the segment files were searched
        self.progress_refused = 0
        """The number of changelog progress records that were refused because they would go back."""
        self.late: list[bytes] = []
        """Keys of changelog records that came too late; the owner's next commit ends them."""
        self._writer = NO_WRITER
        self._end = 0
        self._store = store
        self._words = bits // (8 * WORD_BYTES)
        self._sources: dict[int, codec.SourceName] = {
            self._decoded(codec.SOURCES.number, key): self._decoded(codec.decode_source, value)
            for key, value in each_row(store, codec.SOURCES.bounds)
        }
        self._source_numbers = {name: number for number, name in self._sources.items()}
        count = store.get(codec.COUNT_KEY)
        self._count = 0 if count is None else self._decoded(codec.decode_number, count)
        last = store.last_key_between(*ENTRIES.bounds)
        self._highest = -1 if last is None else self._decoded(ENTRIES.number, last)
        self._ids_before = self._read_ids_before()  # entries below it have rows by id
        self._commits = self._last_commit()
        self._column: Column | None = None
        self._unnoted: list[tuple[bytes, bytes]] = []  # ranges of keys
        row = store.get(codec.PROGRESS_KEY)
        self._row = ProgressRow() if row is None else self._decoded(codec.decode_progress, row)

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def closed(self) -> bool:
        return self._store.closed

    def __len__(self) -> int:
        return self._count

    # ---- reading

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        """Return entries by sequence number; raise ``MissingEntryError``, a ``KeyError``."""
        entries: list[Entry] = []
        for sequence in sequences:
            value = self._store.get(ENTRIES.key(sequence))
            if value is None:
                raise MissingEntryError(self.path, sequence)
            entries.append(self._decoded_entry(value))
        return entries

    def has(self, sequence: int) -> bool:
        return self._store.get(ENTRIES.key(sequence)) is not None

    def by_content(self, digest: bytes) -> list[int]:
        """Return the sequence numbers, rising, of undecidable documents with this content."""
        (numbers,) = self._decoded(referenced, self._store, [codec.content_key(digest)])
        return [each for each in numbers if each >= self._row.expired_before]

    def by_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        """Return the sequence numbers of each id's entries; on a loop, call ``make_ids`` first."""
        while not self.make_ids():
            pass
        rows = self._decoded(referenced, self._store, [*map(codec.id_key, ids)])
        return [
            [
                sequence
                for sequence, value in self._referenced(numbers)
                if self._decoded_entry(value).document_id == document_id.decode()
            ]
            for document_id, numbers in zip(ids, rows, strict=True)
        ]

    @property
    def ids_ready(self) -> bool:
        return self._ids_before > _LAST

    def make_ids(self, limit: int = IDS_MADE) -> bool:
        """Write the next rows by id (5 ms); return whether every entry has one."""
        if self.ids_ready:
            return True
        after = ENTRIES.key(max(self._ids_before, self._row.expired_before))
        keys, values = next(self._store.scan(after, _END, limit), ([], []))
        references = ReferenceChanges(self._store)
        sequences = codec.sequences_in(keys).tolist()
        ids = map(codec.id_key, codec.ids_in(values, self._words))
        self._decoded(references.add, ids, sequences)
        batch = self._store.batch()
        references.put(batch)
        self._note(references)
        if len(keys) < limit:
            before = _LAST + 1
            batch.put(codec.IDS_KEY, b"")
            batch.delete(codec.IDS_BEFORE_KEY)
        else:
            before = sequences[-1] + 1
            batch.put(codec.IDS_BEFORE_KEY, codec.encode_number(before))
        self._write_next(batch)
        self._ids_before = before
        return self.ids_ready

    def filter_by(self, column: Column) -> None:
        self._column = column
        self._unnoted = [(tag, codec.after(tag)) for tag in (codec.CONTENT_TAG, codec.ID_TAG)]

    @property
    def keys_noted(self) -> bool:
        return not self._unnoted

    def note_keys(self, limit: int = KEYS_NOTED) -> None:
        """Note the keys of the next rows by content or id in the column (2 ms)."""
        if not self._unnoted or self._column is None:
            return
        first, end = self._unnoted[0]
        keys, _ = next(self._store.scan(first, end, limit), ([], []))
        self._column.note(key[1:] for key in keys)
        if len(keys) == limit:
            self._unnoted[0] = keys[-1] + b"\0", end
            return
        del self._unnoted[0]
        if not self._unnoted:
            self._column.complete()

    def _note(self, references: ReferenceChanges) -> None:
        if self._column is not None:
            self._column.note(key[1:] for key in references.keys)

    def oldest_time_ms(self) -> int | None:
        _, first = next(self._store.scan(*self._entry_range, 1), ([], []))
        return self._decoded_entry(first[0]).event_time_ms if first else None

    @property
    def highest(self) -> int:
        return self._highest

    def gone(self, first: int = 0, last: int = _LAST) -> list[int]:
        """Return deleted entries from ``first`` to ``last`` that segment files may still have."""
        bounds = DELETED_ENTRIES.key(first), DELETED_ENTRIES.key(last) + b"\0"
        return [
            self._decoded(DELETED_ENTRIES.number, key) for key, _ in each_row(self._store, bounds)
        ]

    def filed(self) -> list[FiledRange]:
        """Return the segment files that have entries of this shard, with their ranges."""
        return [
            FiledRange(*self._decoded(codec.decode_filed, key, value))
            for key, value in each_row(self._store, codec.FILED.bounds)
        ]

    def set_filed(self, claims: Iterable[FiledRange], without: Iterable[int] = ()) -> None:
        """Record which segment files have the entries; no file has the entries in ``without``."""
        batch = self._store.batch()
        for each in self.filed():
            batch.delete(codec.FILED.key(each.first))
        for first, last, checksum in claims:
            batch.put(codec.FILED.key(first), codec.encode_filed(last, checksum))
        for sequence in without:
            batch.delete(DELETED_ENTRIES.key(sequence))
        self._write_next(batch)

    @property
    def expired_before(self) -> int:
        return self._row.expired_before

    def progress(self) -> StoredProgress | None:
        row = self._row
        if row.progress is None:
            return None
        return StoredProgress(*astuple(row))

    @property
    def changelog_offset(self) -> int:
        return self._row.changelog_offset

    def write_at(self, writer: bytes, end: int) -> None:
        """State in later commits at which offset each record is expected: after all records read.

        ``writer`` names this opening of the shard; everything before ``end`` was read.
        """
        self._writer = writer
        self.read_to(end)

    def read_to(self, end: int) -> None:
        """Note that everything before ``end`` in the changelog was read."""
        self._end = max(end, self._end)

    @property
    def place(self) -> Place:
        """The offset at which the next commit is expected in the changelog."""
        if not self._writer:
            return Place()
        offset = max(self._end, self._row.changelog_offset)
        return Place(self._writer, offset, self._row.progress, tuple(self.late))

    @property
    def lineage(self) -> Lineage:
        return self._row.lineage

    @property
    def changelog_time_ms(self) -> int:
        """The timestamp of the last changelog record that was read, in milliseconds."""
        return self._row.changelog_time_ms

    def prints(self, bands: Bands = NO_BANDS, after: int = -1) -> Iterator[EntryPrints]:
        """Yield the prints of decidable entries whose sequence numbers are above ``after``.

        They come in log order, at most 65,536 at a time; larger parts save an index one sorting.
        """
        parts: list[EntryPrints] = []
        first = max(after + 1, self._row.expired_before)
        for keys, values in self._store.scan(ENTRIES.key(first), _END, SCANNED_ROWS):
            parts.append(self._decoded(codec.read_prints, keys, values, self._words, bands))
            if len(parts) == _JOINED_SCANS:
                yield EntryPrints.joined(parts)
                parts.clear()
        if parts:
            yield EntryPrints.joined(parts)

    def all_entries(self) -> Iterator[tuple[int, Entry]]:
        for key, value in each_row(self._store, self._entry_range):
            yield self._decoded(ENTRIES.number, key), self._decoded_entry(value)

    def number(self, name: str) -> int:
        return self._store.number(name)

    @property
    def _entry_range(self) -> tuple[bytes, bytes]:
        """The keys of entries that have not expired; expired ones may still exist."""
        return ENTRIES.key(self._row.expired_before), _END

    # ---- writing

    def change(
        self, entries: Sequence[NewEntries], removed: Sequence[int] = (), expired_before: int = 0
    ) -> StoreChange:
        """Return the changes of a commit, without writing them.

        Entries below ``expired_before`` expire; each commit deletes a few thousand of them.
        """
        blocks = [codec.entry_block(each) for each in entries]
        try:
            before, expiry = self.expired_before, None
            if expired_before > before:
                expiry = expiry_of(self._store, before, expired_before)
                before = expiry.before
            # What expires here needs no record of its deletion: nothing would ever take it back.
            known = {each for each in removed if each >= before}
            there = [each for each in known if self.has(each)]
            removal = removal_of(self._store, there, {each.log_offset for each in entries})
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error
        place = self.place
        written: list[Written] = []
        if writer := place.writer:
            firsts = [int(each.sequences[0]) for each in blocks if len(each)]
            written += [Written(first, writer, ENTRIES_TAG) for first in firsts]
            deletions = [each.first for each in removal.deletions]
            written += [Written(first, writer, DELETIONS_TAG) for first in deletions]
        return StoreChange(
            blocks, removal, expiry, before, len(there), written, place, self.lineage
        )

    def write(self, change: StoreChange, progress: StoredProgress) -> None:
        """Write a commit, whose changelog records come after all that were read before."""
        if 0 < progress.changelog_offset <= self.changelog_offset:
            raise self._store.damaged(
                f"a commit ends at offset {progress.changelog_offset} of the changelog, which was "
                f"read up to {self.changelog_offset}: brokers have lost records"
            )
        self._write(change, replace(progress, expired_before=change.expired_before))
        del self.late[: len(change.place.late)]

    def commit(
        self,
        entries: Sequence[NewEntries],
        progress: StoredProgress,
        removed: Sequence[int] = (),
        expired_before: int = 0,
    ) -> None:
        self.write(self.change(entries, removed, expired_before), progress)

    def load(
        self,
        blocks: Sequence[EntryBlock],
        progress: ProgressRow,
        removal: Removal | None = None,
        written: Sequence[Written] = (),
    ) -> None:
        """Write the contents of changelog records, all or nothing."""
        change = StoreChange(blocks, removal or Removal((), ()), written=written)
        before = max(self.expired_before, progress.expired_before)
        self._write(change, replace(progress, expired_before=before))

    def mark_damaged(self, damage: StoreCorruptError) -> None:
        """Make the next opening begin with an empty store, which is filled from the changelog."""
        self._store.damaged(damage.what)

    def close(self) -> None:
        """Release files and lock. It may take seconds; other threads get ``StoreClosedError``."""
        self._store.close()

    def _write(self, change: StoreChange, row: ProgressRow) -> None:
        before = row.expired_before
        state = StoreState(
            self._highest, self.expired_before, self._ids_before, self._source_numbers
        )
        batch = EntryBatch(self._store, state)
        try:
            count = self._count + batch.put(change, before)
            written = [each for each in change.written if each.first >= before]
            count -= batch.delete(change.removal, written)
            if before > self.expired_before:
                count -= batch.expire(change.expiry, before)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error
        batch.finish(count, row)
        self._note(batch.references)
        self._write_next(batch.batch)
        self._count, self._highest = count, batch.highest
        self._source_numbers = batch.source_numbers
        self._sources = {number: name for name, number in batch.source_numbers.items()}
        self._row = row

    def _last_commit(self) -> int:
        """Return the number of the last commit, 0 if there is none."""
        numbers = [
            self._decoded(codec.COMMITS.number, key)
            for key, _ in each_row(self._store, codec.COMMITS.bounds)
        ]
        if len(numbers) > 1:
            raise self._store.damaged(
                f"it lacks commits after number {numbers[0]}, and has number {numbers[-1]}"
            )
        return numbers[0] if numbers else 0

    def _write_next(self, batch: RowBatch) -> None:
        batch.delete(codec.COMMITS.key(self._commits))
        batch.put(codec.COMMITS.key(self._commits + 1), b"")
        batch.write()
        self._commits += 1

    def _read_ids_before(self) -> int:
        if self._store.get(codec.IDS_KEY) is not None:
            return _LAST + 1
        before = self._store.get(codec.IDS_BEFORE_KEY)
        return 0 if before is None else self._decoded(codec.decode_number, before)

    def _referenced(self, numbers: Sequence[int]) -> list[tuple[int, bytes]]:
        """Return the sequence numbers that have not expired, with the rows of their entries."""
        left = [each for each in numbers if each >= self._row.expired_before]
        values = self._store.get_all([*map(ENTRIES.key, left)])
        rows: list[tuple[int, bytes]] = []
        for sequence, value in zip(left, values, strict=True):
            if value is None:
                raise self._store.damaged(f"a row refers to entry {sequence}, which is missing")
            rows.append((sequence, value))
        return rows

    def _decoded_entry(self, value: bytes) -> Entry:
        return self._decoded(codec.decode_entry, value, self._sources)

    def _decoded(
        self, decode: Callable[_Raw, _Result], *raw: _Raw.args, **named: _Raw.kwargs
    ) -> _Result:
        """Decode keys or values; mark the store as damaged if that fails."""
        try:
            return decode(*raw, **named)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error
