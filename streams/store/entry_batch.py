"""The rows of one commit: entries that come and go, and the rows that lead to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rocksdict import WriteBatch

from simhash_core.log.sequence import log_offset_of
from streams.store import state_codec as codec
from streams.store.changelog_codec import LoggedDeletions
from streams.store.entry_block import EntryBlock
from streams.store.entry_references import GetNumbers, ReferenceChanges
from streams.store.entry_removal import Expiry, Removal, deletions_between, packet_range
from streams.store.entry_rows import decode_entry, encode_entry_rows, is_undecidable
from streams.store.rocksdb_store import RocksStore, Rows
from streams.store.state_codec import SourceName

SCANNED_ROWS: Final = 16_384


class StoreState(NamedTuple):
    """What a store holds before a commit. ``highest``: sequence number of an entry, -1 for none.

    ``expired_before``: no entry is left below it. ``has_ids``: whether ids have rows.
    ``source_numbers``: of raw partitions.
    """

    highest: int
    expired_before: int
    has_ids: bool
    source_numbers: Mapping[SourceName, int]


class EntryBatch:
    """One commit of one store; nothing is written before ``finish``.

    Methods may raise ``StateDecodeError`` for rows that are damaged.
    """

    def __init__(self, store: RocksStore, state: StoreState, numbers: GetNumbers) -> None:
        """``numbers`` reads the rows that lead to entries."""
        self.highest = state.highest
        self.source_numbers = dict(state.source_numbers)
        self._store = store
        self._state = state
        self._named_before = state.source_numbers
        self._sources = {number: name for name, number in state.source_numbers.items()}
        self._batch = WriteBatch(raw_mode=True)
        self._references = ReferenceChanges(numbers)
        self._deleted: set[bytes] = set()

    def finish(self, count: int, progress: bytes) -> None:
        """Write all of it, with the number of entries and the progress, or nothing."""
        self._references.put(self._batch)
        self._batch.put(codec.COUNT_KEY, codec.encode_number(count))
        self._batch.put(codec.PROGRESS_KEY, progress)
        self._store.write(self._batch)

    def put(
        self,
        blocks: Sequence[EntryBlock],
        records: Sequence[int],
        deletions: Sequence[LoggedDeletions],
    ) -> int:
        """Add entries, but those that are there; return how many.

        ``records``: the first entry of the record of each block, which may be deleted.
        ``deletions``: of the same commit; they name records of which ``blocks`` may have nothing.
        """
        highest = self._state.highest
        firsts: dict[int, int] = {}
        for logged in deletions:
            packet = log_offset_of(logged.first)
            firsts[packet] = min(logged.first, firsts.get(packet, logged.first))
        written: list[EntryBlock] = []
        named = self.source_numbers
        for each, record in zip(blocks, records, strict=True):
            block = each
            if len(block) and int(block.sequences[0]) <= highest:
                block = self._new(block, [other.sequences for other in written])
            if not len(block):
                continue
            name = SourceName(block.chain.topic, block.chain.partition)
            number = named.setdefault(name, len(named))
            if name not in self._named_before:
                self._batch.put(codec.source_key(number), codec.encode_source(name))
            packet = log_offset_of(record)
            if packet <= log_offset_of(max(highest, 0)) or firsts.get(packet, record) < record:
                # The packet has a record already: this one is known by a row of its own.
                deleted = deletions_between(self._store, record, record + 1).get(record, [])
                added = [sequence - record for sequence in deleted]
                self._batch.put(codec.deletions_key(record), codec.encode_deletions(added))
            self._store.put_entries(self._batch, *encode_entry_rows(block, number))
            for row in np.flatnonzero(block.columns.undecidable).tolist():
                key = codec.content_key(block.columns.digest(row))
                self._references.add(key, int(block.sequences[row]))
            if self._state.has_ids:
                for document_id, sequence in zip(
                    block.columns.ids, block.sequences.tolist(), strict=True
                ):
                    self._references.add(codec.id_key(document_id), sequence)
            written.append(block)
            highest = max(highest, int(block.sequences[-1]))
        self.highest = highest
        return sum(map(len, written))

    def delete(self, removal: Removal) -> int:
        """Delete entries; return how many."""
        deleted: set[int] = set()
        for deletions in removal.deletions:
            added = [sequence - deletions.first for sequence in deletions.sequences]
            self._batch.put(codec.deletions_key(deletions.first), codec.encode_deletions(added))
            deleted.update(deletions.sequences)
        for end in removal.ends:
            low, high = packet_range(end.first)
            for first in deletions_between(self._store, low, high):
                self._batch.delete(codec.deletions_key(first))
            scanned = self._store.scan(codec.entry_key(low), codec.entry_key(high), SCANNED_ROWS)
            for keys, _ in scanned:
                deleted.update(codec.entry_sequence(key) for key in keys)
        count = 0
        for sequence in deleted:
            key = codec.entry_key(sequence)
            value = self._store.get(key)
            if value is not None and sequence >= self._state.expired_before:
                self._store.delete_entry(self._batch, key)
                self._batch.put(codec.gone_key(sequence), b"")
                self._remove_references(sequence, value)
                self._deleted.add(key)
                count += 1
        return count

    def expire(self, expiry: Expiry | None, before: int) -> int:
        """Delete what has expired, all below ``before``; return how many entries that is.

        ``expiry``: they are known; None: they are to be found.
        """
        after, upper = codec.entry_key(self._state.expired_before), codec.entry_key(before)
        parts: Iterable[Rows]
        parts = [expiry.rows] if expiry else self._store.scan(after, upper, SCANNED_ROWS)
        count = 0
        for keys, values in parts:
            count += len(keys) - sum(key in self._deleted for key in keys)
            for key, value in zip(keys, values, strict=True):
                if self._state.has_ids or is_undecidable(value):
                    sequence = codec.entry_sequence(key)
                    self._remove_references(sequence, value)
        for first in deletions_between(self._store, self._state.expired_before, before):
            self._batch.delete(codec.deletions_key(first))
        bounds = codec.gone_key(0), codec.gone_key(before)
        for keys, _ in self._store.scan(*bounds, SCANNED_ROWS):
            for key in keys:
                self._batch.delete(key)
        if expiry is None or expiry.whole:
            # At one time for all of them: many such rows would make reading slow.
            self._store.delete_entries(self._batch, codec.entry_key(0), upper)
        return count

    def _remove_references(self, sequence: int, value: bytes) -> None:
        entry = decode_entry(value, self._sources)
        if not entry.fingerprint:
            self._references.remove(codec.content_key(entry.content_digest), sequence)
        if self._state.has_ids:
            self._references.remove(codec.id_key(entry.document_id.encode()), sequence)

    def _new(self, block: EntryBlock, written: list[NDArray[np.uint64]]) -> EntryBlock:
        """Return those entries of a block that are neither stored nor about to be."""
        in_batch = np.concatenate([*written, np.empty(0, dtype=np.uint64)])
        new = ~np.isin(block.sequences, in_batch)
        stored = block.sequences <= max(self._state.highest, 0)
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
