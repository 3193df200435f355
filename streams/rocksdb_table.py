"""The block table of one shard in RocksDB; ``streams.shard_directory`` opens it.

**Look-ups** read the rows of each bucket from the store, and beside them what is staged, which
stands in memory until it is committed.

**A commit is one batch**: after a crash all of it is there or none. It is with the operating system
before ``commit`` returns, and so survives kill -9 (``StoreSettings.sync`` says what a loss of power
does). The number of entries is written along, because RocksDB cannot count without reading.

The seam for what is to come: all keys of an entry follow from its order and its buckets, so that
one document can be deleted; and rows come together in ``candidates`` alone, so that a table can
become a list of slices of time, each a store that is dropped whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
from rocksdict import WriteBatch

from simhash_core.block_table import Candidates
from simhash_core.blocks import Bucket
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
from simhash_core.memory_table import BucketsOf
from streams import state_codec as codec
from streams.rocksdb_store import RocksStore

_Result = TypeVar("_Result")

BucketSizes = Callable[[Iterable[int]], None]
"""Told how many committed entries each bucket of a look-up has; of one look-up in 32."""

_SAMPLED: Final = 32
"""To count the rows of every bucket would take a tenth of a look-up's time."""


class RocksBlockTable:
    """A ``BlockTable`` on disk, for one thread at a time. Any method may raise ``StoreError``."""

    def __init__(self, store: RocksStore, buckets_of: BucketsOf) -> None:
        """Take over ``store``, which is open and known to be of this shard.

        ``buckets_of`` gives the buckets of an entry that this shard owns.
        """
        self.bucket_sizes: BucketSizes | None = None
        self._lookups = 0
        self._store = store
        self._buckets_of = buckets_of
        self._staged: dict[int, Entry] = {}
        self._staged_orders: dict[Bucket, list[int]] = {}
        count = store.get(codec.COUNT_KEY)
        self._count = 0 if count is None else self._decoded(codec.decode_count, count)
        entries = codec.ENTRY_TAG, codec.after(codec.ENTRY_TAG)
        last = store.last_key_between(*entries)
        self._highest_order = -1 if last is None else self._decoded(codec.entry_order, last)

    def candidates(self, buckets: Sequence[Bucket]) -> Candidates:
        """Return what is in ``buckets``, staged entries included."""
        keys, fingerprints = self._store.rows_of(map(codec.bucket_prefix, buckets))
        orders = [key[-codec.ORDER_BYTES :] for key in keys]
        if self._staged:
            for bucket in buckets:
                for order in self._staged_orders.get(bucket, ()):
                    orders.append(codec.order_bytes(order))
                    fingerprints.append(self._staged[order].fingerprint)
        self._lookups += 1
        if self.bucket_sizes is not None and self._lookups % _SAMPLED == 0:
            sizes = Counter(key[: -codec.ORDER_BYTES] for key in keys)
            self.bucket_sizes(sizes[codec.bucket_prefix(bucket)] for bucket in buckets)
        columns = np.frombuffer(b"".join(fingerprints), dtype=np.uint8)
        rows = len(orders)
        return Candidates(
            np.frombuffer(b"".join(orders), dtype=">u8").astype(np.uint64),
            columns.reshape(rows, len(columns) // rows if rows else 0),
        )

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
        if self._is_taken(change.order):
            return
        self._staged[change.order] = change.entry
        for bucket in self._buckets_of(change.entry):
            self._staged_orders.setdefault(bucket, []).append(change.order)

    def commit(self, changes: Sequence[Change]) -> None:
        """Write all changes, or none; an entry whose order is taken is not written again.

        Raises ``UsageError`` when an entry was staged and is not among them. After any error
        nothing is written, and what is staged is staged still.
        """
        batch = WriteBatch(raw_mode=True)
        added: set[int] = set()
        for change in changes:
            match change:
                case PutEntry(order, entry):
                    if order in added or (order not in self._staged and self._is_taken(order)):
                        continue
                    added.add(order)
                    self._put_entry(batch, order, self._staged.get(order, entry))
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
        forgotten = self._staged.keys() - added
        if forgotten:
            raise UsageError(
                f"{self._store.path}: the entry with order {min(forgotten)} was staged, but is not "
                "in the commit: commit all that was staged, or close the table to drop it"
            )
        count = self._count + len(added)
        batch.put(codec.COUNT_KEY, codec.encode_count(count))
        self._store.write(batch)
        self._count = count
        self._highest_order = max(self._highest_order, *added, -1)
        self._drop_staged()

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

    def number(self, name: str) -> int:
        """Return one of RocksDB's figures of itself, ``rocksdb.…``."""
        return self._store.number(name)

    def close(self) -> None:
        """Let go of the store; staged entries are dropped. Closing again has no effect."""
        self._drop_staged()
        self._store.close()

    def _is_taken(self, order: int) -> bool:
        """Return whether an entry with this order is staged or stored."""
        if order in self._staged:
            return True
        key = codec.entry_key(order)
        # Orders rise, so nearly always this is answered without reading.
        return order <= self._highest_order and self._store.get(key) is not None

    def _put_entry(self, batch: WriteBatch, order: int, entry: Entry) -> None:
        batch.put(codec.entry_key(order), codec.encode_entry(entry))
        number = codec.order_bytes(order)
        for bucket in self._buckets_of(entry):
            batch.put(codec.bucket_prefix(bucket) + number, entry.fingerprint)

    def _drop_staged(self) -> None:
        self._staged.clear()
        self._staged_orders.clear()

    def _tagged(self, tag: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return keys and values of one tag, in order."""
        return zip(*self._store.rows_between(tag, codec.after(tag)), strict=True)

    def _decoded(self, decode: Callable[[bytes], _Result], raw: bytes) -> _Result:
        """Decode a key or a value of the store; what cannot be decoded is damage."""
        try:
            return decode(raw)
        except codec.StateDecodeError as error:
            raise self._store.damaged(str(error)) from error
