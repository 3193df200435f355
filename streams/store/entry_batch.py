"""The rows of one commit: new and deleted entries, and the rows by which they are found."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain, groupby, islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.log.records import (
    BUNDLE_DOCUMENTS_LIMIT,
    Progress,
    log_offset_of,
    sequence_number,
)
from streams.store import row_codec as codec
from streams.store.changelog_codec import (
    ANYWHERE,
    ENTRIES_TAG,
    NO_WRITER,
    ChangelogRecord,
    LoggedDeletions,
    LoggedEnd,
    Written,
    encode_block,
    encode_deletions,
    encode_end,
)
from streams.store.lineage import UNKNOWN, Lineage
from streams.store.row_codec import DELETED_ENTRIES, DELETIONS, ENTRIES, WRITTEN, EntryBlock
from streams.store.row_store import SCANNED_ROWS, RowBatch, Rows, RowStore, each_row

# ---- Rows that lead to entries, by content and by id.
#
# A row is a list of sequence numbers: several entries can have the same content, in other scopes or
# too far apart in time, and several ids can have the same digest.


def referenced(store: RowStore, keys: list[bytes]) -> list[list[int]]:
    """Return the sequence numbers in the rows of keys with one tag, [] if a row is missing."""
    values = store.get_all(keys)
    return [[] if value is None else codec.decode_numbers(value) for value in values]


class ReferenceChanges:
    """Changes of rows of sequence numbers; a batch reads and writes each row once."""

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._changed: dict[bytes, list[int]] = {}

    def add(self, keys: Iterable[bytes], sequences: Sequence[int]) -> None:
        listed = list(keys)
        self._read({key for key in listed if key not in self._changed})
        for key, sequence in zip(listed, sequences, strict=True):
            numbers = self._changed[key]
            if not numbers or sequence > numbers[-1]:
                numbers.append(sequence)
            elif sequence not in numbers:
                insort(numbers, sequence)

    def remove(self, key: bytes, sequence: int) -> None:
        if key not in self._changed:
            self._read({key})
        numbers = self._changed[key]
        if sequence in numbers:
            numbers.remove(sequence)

    @property
    def keys(self) -> Iterable[bytes]:
        """The keys of rows that have numbers."""
        return (key for key, numbers in self._changed.items() if numbers)

    def put(self, batch: RowBatch) -> None:
        for key in sorted(self._changed):
            numbers = self._changed[key]
            if numbers:
                batch.put(key, codec.encode_numbers(numbers))
            else:
                batch.delete(key)

    def _read(self, keys: Iterable[bytes]) -> None:
        unread = [*keys]
        self._changed.update(zip(unread, referenced(self._store, unread), strict=True))


# ---- The changelog records of entries, so that removed entries leave the changelog as well.
#
# For each record of entries, one record names its deleted entries. When all entries of a packet are
# deleted or expired, its records get tombstones. The first record of a packet begins with its first
# entry, so it needs no row. After deletions or a commit in parts, this may not hold; then there is
# a row ``r``. A row ``k`` names a writer without transactions: after a crash, the next owner writes
# some entries again, and the records of both writers get tombstones.

EXPIRED_ROWS: Final = 4096  # about how many entries expire in one commit, to keep commits small


class Removal(NamedTuple):
    deletions: Sequence[LoggedDeletions]  # in records that still have other entries
    ends: Sequence[LoggedEnd]  # of empty packets


class Expiry(NamedTuple):
    before: int  # all entries below it expire
    ends: Sequence[LoggedEnd]
    rows: Rows
    whole: bool  # nothing is left for a later commit


def packet_range(sequence: int) -> tuple[int, int]:
    """Return the first sequence number of the entry's packet, and of the next packet."""
    packet = log_offset_of(sequence)
    return sequence_number(packet, 0), sequence_number(packet + 1, 0)


def deletions_between(store: RowStore, low: int, high: int) -> dict[int, list[int]]:
    """Return the rows ``r`` of records that begin from ``low`` to before ``high``.

    The result maps the first entry of a record to its deleted sequence numbers. Raises
    ``StateDecodeError``.
    """
    deletions: dict[int, list[int]] = {}
    for key, value in each_row(store, DELETIONS.between(low, high)):
        first = DELETIONS.number(key)
        deletions[first] = [first + each for each in codec.decode_deletions(value)]
    return deletions


def written_between(store: RowStore, low: int, high: int) -> list[Written]:
    """Return the rows ``k`` of records that begin from ``low`` to before ``high``."""
    bounds = WRITTEN.tag + codec.encode_number(low), WRITTEN.tag + codec.encode_number(high)
    return [_written_of(key) for key, _ in each_row(store, bounds)]


def _written_key(written: Written) -> bytes:
    return WRITTEN.tag + codec.encode_number(written.first) + written.writer + written.tag


def _written_of(key: bytes) -> Written:
    WRITTEN.number(key)
    at = len(WRITTEN.tag) + codec.NUMBER_BYTES
    return Written(codec.decode_number(key[len(WRITTEN.tag) : at]), key[at:-1], key[-1:])


def _ends_between(store: RowStore, low: int, high: int) -> list[LoggedEnd]:
    return sorted({each.end for each in written_between(store, low, high)})


def removal_of(store: RowStore, sequences: Iterable[int], more: Container[int] = ()) -> Removal:
    """Return a removal for the changelog; packets in ``more`` get new entries in this commit."""
    deletions: list[LoggedDeletions] = []
    ends: list[LoggedEnd] = []
    for packet, group in groupby(sorted(sequences), log_offset_of):
        removed = set(group)
        low, high = packet_range(min(removed))
        records = deletions_between(store, low, high)
        scan = store.scan(*ENTRIES.between(low, high), len(removed) + 1)
        keys, _ = next(scan, ([], []))
        left = [ENTRIES.number(key) for key in keys]
        # A first record without deletions is the only one that has no row.
        firsts = sorted({*records, min([left[0], *records])})
        if set(left) <= removed and packet not in more:
            ends += map(LoggedEnd, firsts)
            ends += _ends_between(store, low, high)
            continue
        by_record: dict[int, set[int]] = {}
        for sequence in removed:
            first = firsts[bisect_right(firsts, sequence) - 1]
            by_record.setdefault(first, set(records.get(first, ()))).add(sequence)
        deletions += [LoggedDeletions(first, sorted(each)) for first, each in by_record.items()]
    return Removal(deletions, ends)


def expiry_of(store: RowStore, after: int, before: int) -> Expiry:
    """Return what expires next among the entries from ``after`` to before ``before``."""
    scan = store.scan(*ENTRIES.between(after, before), EXPIRED_ROWS)
    keys, values = next(scan, ([], []))
    whole = next(scan, None) is None
    if not whole:
        # Stop at the end of a packet, because the last packet may have more entries than were read.
        before = packet_range(ENTRIES.number(keys[-1]))[0]
        if before <= ENTRIES.number(keys[0]):  # the rows are of one large packet
            low, before = packet_range(ENTRIES.number(keys[-1]))
            scan = store.scan(*ENTRIES.between(low, before), BUNDLE_DOCUMENTS_LIMIT)
            keys, values = next(scan, ([], []))
        else:
            kept = sum(ENTRIES.number(key) < before for key in keys)
            keys, values = keys[:kept], values[:kept]
    records = deletions_between(store, after, before)
    firsts = [*records]
    with_rows = {log_offset_of(first): first for first in sorted(records, reverse=True)}
    for packet, group in groupby(map(ENTRIES.number, keys), log_offset_of):
        first = next(group)
        if first < with_rows.get(packet, first + 1):
            firsts.append(first)
    ends = [*map(LoggedEnd, firsts), *_ends_between(store, after, before)]
    return Expiry(before, ends, (keys, values), whole)


# ---- The changes of one commit, for the store and for the changelog.


class Place(NamedTuple):
    """Where a writer without transactions expects its next record, and what is committed before it.

    ``late``: the keys of records that came too late and are not needed.
    """

    writer: bytes = NO_WRITER
    offset: int = ANYWHERE
    before: Progress | None = None
    late: Sequence[bytes] = ()

    def after(self, records: int) -> int:
        return ANYWHERE if self.offset == ANYWHERE else self.offset + records


class StoreChange(NamedTuple):
    """One commit without its progress; ``removed`` is the number of deleted entries."""

    blocks: Sequence[EntryBlock]
    removal: Removal = Removal((), ())
    expiry: Expiry | None = None
    expired_before: int = 0
    removed: int = 0
    written: Sequence[Written] = ()
    place: Place = Place()
    lineage: Lineage = UNKNOWN  # of the commit before

    @property
    def expired(self) -> int:
        return 0 if self.expiry is None else len(self.expiry.rows[0])


def _kept(block: EntryBlock, removal: Removal, expired_before: int) -> EntryBlock:
    """Return the entries of a block that the same change does not remove."""
    removed = [sequence for each in removal.deletions for sequence in each.sequences]
    expired = block.sequences < np.uint64(expired_before)
    if removed:
        expired |= np.isin(block.sequences, np.array(removed, dtype=np.uint64))
    return block.take(np.flatnonzero(~expired)) if expired.any() else block


def records_of(change: StoreChange) -> list[ChangelogRecord]:
    writer, place = change.place.writer, change.place
    blocks = [block for block in change.blocks if len(block)]
    records = [encode_block(block, writer, place.after(at)) for at, block in enumerate(blocks)]
    records += [encode_deletions(each, writer) for each in change.removal.deletions]
    ends = [*change.removal.ends, *(() if change.expiry is None else change.expiry.ends)]
    for end in ends:
        records += encode_end(*end)
    return records + [ChangelogRecord(key, None) for key in place.late]


_LAST: Final = (1 << 64) - 1


class StoreState(NamedTuple):
    """What a store contains before a commit."""

    highest: int  # -1: no entries
    expired_before: int  # there is no entry below it
    ids_before: int  # ids below it have rows
    source_numbers: Mapping[codec.SourceName, int]  # of raw partitions


class EntryBatch:
    """The rows of one commit. Methods raise ``StateDecodeError`` for damaged rows."""

    def __init__(self, store: RowStore, state: StoreState) -> None:
        self.highest = state.highest
        self.source_numbers = dict(state.source_numbers)
        self._store = store
        self._state = state
        self._named_before = state.source_numbers
        self._sources = {number: name for name, number in state.source_numbers.items()}
        self.batch = store.batch()
        self.references = ReferenceChanges(store)
        self._deleted: set[bytes] = set()

    def finish(self, count: int, progress: codec.ProgressRow) -> None:
        self.references.put(self.batch)
        self.batch.put(codec.COUNT_KEY, codec.encode_number(count))
        self.batch.put(codec.PROGRESS_KEY, codec.encode_progress(progress))

    def put(self, change: StoreChange, expired_before: int) -> int:
        """Add entries that do not exist yet, and that the change keeps; return how many."""
        highest = self._state.highest
        firsts: dict[int, int] = {}
        for logged in change.removal.deletions:
            packet = log_offset_of(logged.first)
            firsts[packet] = min(logged.first, firsts.get(packet, logged.first))
        written: list[EntryBlock] = []
        named = self.source_numbers
        for each in change.blocks:
            block = _kept(each, change.removal, expired_before)
            if len(block) and (int(block.sequences[0]) <= highest or self._deleted_in(block)):
                block = self._new(block, [other.sequences for other in written])
            if not len(block):
                continue
            name = codec.SourceName(block.chain.topic, block.chain.partition)
            number = named.setdefault(name, len(named))
            if name not in self._named_before:
                self.batch.put(codec.SOURCES.key(number), codec.encode_source(name))
            record = int(each.sequences[0])  # this entry may be deleted
            packet = log_offset_of(record)
            if packet <= log_offset_of(max(highest, 0)) or firsts.get(packet, record) < record:
                # The packet already has a record, so this record needs its own row.
                deleted = self._store.get(DELETIONS.key(record))
                self.batch.put(DELETIONS.key(record), deleted or codec.encode_deletions(()))
            self.batch.put_entries(*codec.encode_entry_rows(block, number))
            for row in np.flatnonzero(block.columns.undecidable).tolist():
                key = codec.content_key(block.columns.digest(row))
                self.references.add([key], [int(block.sequences[row])])
            # Entries from ``ids_before`` on get their rows by id later.
            before = np.uint64(min(self._state.ids_before, _LAST))
            rows = int(np.count_nonzero(block.sequences < before))
            ids = map(codec.id_key, islice(block.columns.ids, rows))
            self.references.add(ids, block.sequences[:rows].tolist())
            written.append(block)
            highest = max(highest, int(block.sequences[-1]))
        self.highest = highest
        return sum(map(len, written))

    def delete(self, removal: Removal, written: Sequence[Written]) -> int:
        """Add rows ``k`` of the records ``written``; delete entries, and return how many."""
        for each in written:
            self.batch.put(_written_key(each), b"")
        deleted: set[int] = set()
        known: dict[int, set[int]] = {}
        for deletions in removal.deletions:
            # Each of several writers may know only some deletions; an entry that is deleted stays
            # deleted.
            first = deletions.first
            if first not in known:
                row = self._store.get(DELETIONS.key(first)) or b""
                known[first] = {*codec.decode_deletions(row)}
            known[first].update(sequence - first for sequence in deletions.sequences)
            deleted.update(deletions.sequences)
        for first, added in known.items():
            self.batch.put(DELETIONS.key(first), codec.encode_deletions(added))
        for low, high in self._ended(removal.ends, written):
            for first in deletions_between(self._store, low, high):
                self.batch.delete(DELETIONS.key(first))
            rows = each_row(self._store, ENTRIES.between(low, high))
            deleted.update(ENTRIES.number(key) for key, _ in rows)
        count = 0
        for sequence in deleted:
            key = ENTRIES.key(sequence)
            value = self._store.get(key)
            if value is not None and sequence >= self._state.expired_before:
                self.batch.delete(key)
                self.batch.put(DELETED_ENTRIES.key(sequence), b"")
                self._remove_references(sequence, value)
                self._deleted.add(key)
                count += 1
        return count

    def _ended(
        self, ends: Sequence[LoggedEnd], written: Iterable[Written]
    ) -> list[tuple[int, int]]:
        """Return the ranges of packets that have no entry left, and delete their rows ``k``.

        A worker that lost the shard may end a packet although the next owner wrote another part of
        it.
        """
        ended = {*ends}
        noted: dict[int, set[Written]] = {}
        for each in written:
            noted.setdefault(log_offset_of(each.first), set()).add(each)
        ranges: list[tuple[int, int]] = []
        for packet, group in groupby(sorted(ended), lambda each: log_offset_of(each.first)):
            ending = set(group)
            low, high = packet_range(sequence_number(packet, 0))
            there = {*written_between(self._store, low, high), *noted.get(packet, ())}
            for each in there:
                if each.end in ending:
                    self.batch.delete(_written_key(each))
            entries = {each.end for each in there if each.tag == ENTRIES_TAG}
            concerns = bool(ending & entries) or any(not each.writer for each in ending)
            if concerns and entries <= ending:
                ranges.append((low, high))
        return ranges

    def expire(self, expiry: Expiry | None, before: int) -> int:
        """Delete expired entries; return how many. Without ``expiry``, it is computed here."""
        after = self._state.expired_before
        expired = ENTRIES.between(after, before)
        parts: Iterable[Rows]
        parts = [expiry.rows] if expiry else self._store.scan(*expired, SCANNED_ROWS)
        count = 0
        for keys, values in parts:
            count += len(keys) - sum(key in self._deleted for key in keys)
            for key, value in zip(keys, values, strict=True):
                sequence = ENTRIES.number(key)
                if sequence < self._state.ids_before or codec.undecidable_code(value):
                    self._remove_references(sequence, value)
        for first in deletions_between(self._store, after, before):
            self.batch.delete(DELETIONS.key(first))
        for each in written_between(self._store, after, before):
            self.batch.delete(_written_key(each))
        for key, _ in each_row(self._store, DELETED_ENTRIES.between(0, before)):
            self.batch.delete(key)
        if expiry is None or expiry.whole:
            # One range delete covers all of them, because many range deletes would slow down
            # reading.
            self.batch.delete_entries(*ENTRIES.between(0, before))
        return count

    def _remove_references(self, sequence: int, value: bytes) -> None:
        entry = codec.decode_entry(value, self._sources)
        if not entry.fingerprint:
            self.references.remove(codec.content_key(entry.content_digest), sequence)
        if sequence < self._state.ids_before:
            self.references.remove(codec.id_key(entry.document_id.encode()), sequence)

    def _new(self, block: EntryBlock, written: list[NDArray[np.uint64]]) -> EntryBlock:
        in_batch = np.concatenate([*written, np.empty(0, dtype=np.uint64)])
        new = ~np.isin(block.sequences, in_batch)
        stored = block.sequences <= max(self._state.highest, 0)
        for row in np.flatnonzero(new & stored).tolist():
            key = ENTRIES.key(int(block.sequences[row]))
            new[row] = self._store.get(key) is None
        deleted = np.array(self._deleted_in(block), dtype=np.uint64)
        new &= ~np.isin(block.sequences, deleted)
        return block if new.all() else block.take(np.flatnonzero(new))

    def _deleted_in(self, block: EntryBlock) -> list[int]:
        """Return entries of a block's packets that rows ``r`` delete, even after all entries."""
        low, _ = packet_range(int(block.sequences[0]))
        _, high = packet_range(int(block.sequences[-1]))
        deletions = deletions_between(self._store, low, min(high, _LAST))
        return [*chain.from_iterable(deletions.values())]
