"""The block table of one shard in RocksDB; ``streams.shard_directory`` opens it.

**The database holds what is remembered**: a row for each entry, for what is in flight, and for
progress, in the form in which the changelog has them. **The index of buckets is derived** from the
entries: segments in files, the last documents in memory (``simhash_core.bucket_index``,
``streams.segment_list``). So a commit writes one row a document, however many buckets it has, and
an index that is lost is made again.

**A commit is one batch**: after a crash all of it is there or none. It is with the operating system
before ``commit`` returns, and so survives kill -9 (``StoreSettings.sync`` says what a loss of power
does). The number of entries is written along, because RocksDB cannot count without reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
from rocksdict import WriteBatch

from simhash_core.block_table import Candidates
from simhash_core.blocks import CONTENT_BLOCK, Bucket, content_bucket
from simhash_core.bucket_index import BucketIndex
from simhash_core.entries import (
    Change,
    Entry,
    InFlight,
    Progress,
    PutEntry,
    PutParked,
    PutPending,
)
from simhash_core.errors import UsageError
from simhash_core.placement import Placement
from streams import state_codec as codec
from streams.entry_rows import read_entry_rows
from streams.rocksdb_store import RocksStore
from streams.segment_list import SegmentList
from streams.store.store_errors import StoreClosedError

_Result = TypeVar("_Result")

BucketSizes = Callable[[Iterable[int]], None]
"""Told how many entries each bucket of a look-up has; of one look-up in 32."""

_SAMPLED: Final = 32
_INDEXED_ROWS: Final = 20_000
"""Entries that are read at once when the index is made again."""


class RocksBlockTable:
    """A ``BlockTable`` on disk, for one thread at a time. Any method may raise ``StoreError``."""

    def __init__(
        self, store: RocksStore, placement: Placement, partition: int, *, sync: bool = False
    ) -> None:
        """Take over ``store``, which is open and known to be of this shard of ``placement``.

        ``sync``: whether files of segments are with the disk before they count.
        """
        self.bucket_sizes: BucketSizes | None = None
        self._lookups = 0
        self._store = store
        self._bits = placement.scheme.bits
        self._staged: dict[int, Entry] = {}
        self._staged_contents: dict[Bucket, list[int]] = {}
        self._in_flight_keys: set[bytes] | None = None
        self._index = BucketIndex(placement, partition)
        self._segments = SegmentList(store, sync=sync)
        count = store.get(codec.COUNT_KEY)
        self._count = 0 if count is None else self._decoded(codec.decode_count, count)
        entries = codec.ENTRY_TAG, codec.after(codec.ENTRY_TAG)
        last = store.last_key_between(*entries)
        self._highest_order = -1 if last is None else self._decoded(codec.entry_order, last)
        self._open_index()

    def prefetch(self, lookups: Iterable[Sequence[Bucket]]) -> None:
        """Expect look-ups of these buckets, those of a document each, in this order."""
        self._index.prefetch(each for each in lookups if each and each[0][0] != CONTENT_BLOCK)

    def candidates(self, buckets: Sequence[Bucket]) -> Candidates:
        """Return what is in ``buckets``, staged entries included."""
        self._check_open()
        if buckets and buckets[0][0] == CONTENT_BLOCK:
            return self._candidates_by_content(buckets)
        self._lookups += 1
        if self.bucket_sizes is not None and self._lookups % _SAMPLED == 0:
            self.bucket_sizes(self._index.sizes(buckets))
        return self._index.candidates(buckets)

    def entry(self, order: int) -> Entry:
        """Return the entry with this order; raises ``KeyError`` where there is none."""
        staged = self._staged.get(order)
        if staged is not None:
            return staged
        value = self._store.get(codec.entry_key(order))
        if value is None:
            raise KeyError(order)
        return self._decoded(codec.decode_entry, value)

    def stage(self, change: PutEntry) -> None:
        """Let look-ups see a new entry; without effect where its order is taken.

        Raises ``UsageError`` for an order that cannot be stored.
        """
        order, entry = change.order, change.entry
        if self._is_taken(order):
            return
        if entry.fingerprint:
            self._index.add(order, entry.fingerprint)
        else:
            self._staged_contents.setdefault(content_bucket(entry.content_digest), []).append(order)
        self._staged[order] = entry

    def commit(self, changes: Sequence[Change]) -> None:
        """Write all changes, or none; an entry whose order is taken is not written again.

        Raises ``UsageError`` when an entry was staged and is not among them. After any error
        nothing is written, and what is staged is staged still.
        """
        batch = WriteBatch(raw_mode=True)
        added: dict[int, Entry] = {}
        for change in changes:
            match change:
                case PutEntry(order, entry):
                    if order in added or (order not in self._staged and self._is_taken(order)):
                        continue
                    added[order] = self._staged.get(order, entry)
                case PutPending(source, entry):
                    if entry is None:
                        batch.delete(codec.pending_key(source))
                    else:
                        batch.put(codec.pending_key(source), codec.encode_entry(entry))
                case PutParked(ticket, _, visit):
                    if visit is None:
                        batch.delete(codec.parked_key(ticket))
                    else:
                        batch.put(codec.parked_key(ticket), codec.encode_parked(change))
                case Progress():
                    batch.put(codec.PROGRESS_KEY, codec.encode_progress(change))
        forgotten = self._staged.keys() - added.keys()
        if forgotten:
            raise UsageError(
                f"{self._store.path}: the entry with order {min(forgotten)} was staged, but is not "
                "in the commit: commit all that was staged, or close the table to drop it"
            )
        keys = [codec.entry_key(order) for order in added]
        values = [codec.encode_entry(entry) for entry in added.values()]
        new = [at for at, order in enumerate(added) if order not in self._staged]
        undecidable = [each for each in added.items() if not each[1].fingerprint]
        self._in_flight_keys = None
        self._write(batch, keys, values, undecidable)
        self._index_rows([keys[at] for at in new], [values[at] for at in new])
        self._settle()

    def load(
        self, keys: Sequence[bytes], values: Sequence[bytes | None], progress: Progress
    ) -> None:
        """Commit records of the changelog, in its order, and ``progress``; nothing is staged.

        The same as ``commit`` of what they say, at a fraction of the cost. Raises
        ``StateDecodeError`` for what is no record; nothing is written then.
        """
        batch = WriteBatch(raw_mode=True)
        entry_keys: list[bytes] = []
        entry_values: list[bytes] = []
        last: dict[bytes, bytes | None] = {}
        highest = codec.entry_key(max(self._highest_order, 0))
        is_first = self._highest_order < 0
        for key, value in zip(keys, values, strict=True):
            if key[:1] != codec.ENTRY_TAG or value is None:
                last[key] = value
            elif key > highest or is_first:
                highest, is_first = key, False
                entry_keys.append(key)
                entry_values.append(value)
            elif not self._is_taken(codec.entry_order(key)) and key not in entry_keys:
                entry_keys.append(key)
                entry_values.append(value)
        last.pop(codec.PROGRESS_KEY, None)
        in_flight = self._keys_in_flight()
        for key, value in last.items():
            _check_in_flight(key, value)
            if value is not None:
                batch.put(key, value)
                in_flight.add(key)
            elif key in in_flight:  # most come and go within a lot, and are not there
                batch.delete(key)
                in_flight.remove(key)
        batch.put(codec.PROGRESS_KEY, codec.encode_progress(progress))
        rows = read_entry_rows(entry_keys, entry_values, self._bits)
        self._in_flight_keys = None
        self._write(batch, entry_keys, entry_values, rows.undecidable)
        self._in_flight_keys = in_flight
        self._index.load(rows.orders, rows.fingerprints)
        self._settle()

    def in_flight(self) -> InFlight:
        """Return the committed in-flight state, read from the store."""
        value = self._store.get(codec.PROGRESS_KEY)
        progress = Progress() if value is None else self._decoded(codec.decode_progress, value)
        pending = {
            self._decoded(codec.pending_source, key): self._decoded(codec.decode_entry, value)
            for key, value in self._tagged(codec.PENDING_TAG)
        }
        parked = [
            self._decoded(codec.decode_parked, value) for _, value in self._tagged(codec.PARKED_TAG)
        ]
        return InFlight(progress, pending, {each.ticket: each for each in parked})

    def __len__(self) -> int:
        """Return the number of entries, staged ones included."""
        return self._count + len(self._staged)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._store.closed

    @property
    def bucket_file_bytes(self) -> int:
        """The bytes of the files of segments."""
        return self._segments.file_bytes

    def number(self, name: str) -> int:
        """Return one of RocksDB's figures of itself, ``rocksdb.…``."""
        return self._store.number(name)

    def close(self) -> None:
        """Let go of the store; staged entries are dropped. Closing again has no effect."""
        self._staged.clear()
        self._staged_contents.clear()
        self._store.close()

    def _candidates_by_content(self, buckets: Sequence[Bucket]) -> Candidates:
        found: list[int] = []
        for bucket in buckets:
            keys = self._store.keys_of(codec.content_prefix(bucket))
            found += [int.from_bytes(key[-codec.ORDER_BYTES :], "big") for key in keys]
            found += self._staged_contents.get(bucket, ())
        orders = np.array(found, dtype=np.uint64)
        return Candidates(orders, np.empty((len(found), 0), dtype=np.uint8))

    def _is_taken(self, order: int) -> bool:
        """Return whether an entry with this order is staged or stored."""
        if order in self._staged:
            return True
        key = codec.entry_key(order)
        # Orders rise, so nearly always this is answered without reading.
        return order <= self._highest_order and self._store.get(key) is not None

    def _write(
        self,
        batch: WriteBatch,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        undecidable: Iterable[tuple[int, Entry]],
    ) -> None:
        """Write a batch with these rows of entries; all that is staged is among them."""
        self._store.put_entries(batch, keys, values)
        for order, entry in undecidable:
            prefix = codec.content_prefix(content_bucket(entry.content_digest))
            batch.put(prefix + codec.order_bytes(order), b"")
        orders = [codec.entry_order(each) for each in (min(keys), max(keys))] if keys else []
        if orders and orders[0] <= self._segments.covered:
            self._segments.forget(batch)
        count = self._count + len(keys)
        batch.put(codec.COUNT_KEY, codec.encode_count(count))
        self._store.write(batch)
        self._count = count
        self._highest_order = max([self._highest_order, *orders])
        self._staged.clear()
        self._staged_contents.clear()

    def _keys_in_flight(self) -> set[bytes]:
        """Return the keys of rows of pending entries and visits that wait, to be kept up to date.

        Remembered from one ``load`` to the next: there are few at any time, but many come and go.
        """
        if self._in_flight_keys is None:
            tags = codec.PENDING_TAG, codec.PARKED_TAG
            self._in_flight_keys = {key for tag in tags for key, _ in self._tagged(tag)}
        return self._in_flight_keys

    def _open_index(self) -> None:
        """Take up the segments that are listed, and index the entries behind them."""
        for segment in self._segments.open():
            self._index.append(segment)
        first = self._segments.covered + 1
        if first > self._highest_order:
            return
        entries = codec.entry_key(first), codec.after(codec.ENTRY_TAG)
        for keys, values in self._store.scan(*entries, _INDEXED_ROWS):
            self._index_rows(keys, values)
        self._settle()

    def _index_rows(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        try:
            rows = read_entry_rows(keys, values, self._bits)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error
        self._index.load(rows.orders, rows.fingerprints)

    def _settle(self) -> None:
        self._index.settle()
        self._segments.keep(self._index)

    def _check_open(self) -> None:
        if self._store.closed:
            raise StoreClosedError(self._store.path, "the block table was closed")

    def _tagged(self, tag: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return keys and values of one tag, in order."""
        return zip(*self._store.rows_between(tag, codec.after(tag)), strict=True)

    def _decoded(self, decode: Callable[[bytes], _Result], raw: bytes) -> _Result:
        """Decode a key or a value of the store; what cannot be decoded is damage."""
        try:
            return decode(raw)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error


def _check_in_flight(key: bytes, value: bytes | None) -> None:
    """Raise ``StateDecodeError`` for a record that is neither of a pending nor a parked one."""
    match key[:1]:
        case codec.PENDING_TAG | codec.PARKED_TAG if value is None:
            pass  # a key that nobody has written deletes nothing
        case codec.PENDING_TAG if value is not None:
            codec.pending_source(key)
            codec.decode_entry(value)
        case codec.PARKED_TAG if value is not None:
            codec.parked_ticket(key)
            codec.decode_parked(value)
        case _:
            raise codec.StateDecodeError(f"{key.hex()} is the key of no record")
