"""The block table in memory: for one run without state on disk, for tests, and as an overlay."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np

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

BucketsOf = Callable[[Entry], Sequence[Bucket]]
"""The buckets of an entry that this shard owns."""


class MemoryBlockTable:
    """A ``BlockTable`` in Python dictionaries; what is staged lasts as long as the table."""

    def __init__(self, buckets_of: BucketsOf) -> None:
        """Begin empty; ``buckets_of`` says where an entry is indexed."""
        self._buckets_of = buckets_of
        self._entries: dict[int, Entry] = {}
        self._orders: dict[Bucket, array[int]] = {}
        self._fingerprints: dict[Bucket, bytearray] = {}
        self._in_flight = InFlight(Progress(), {}, {})

    def prefetch(self, lookups: Iterable[Sequence[Bucket]]) -> None:
        """Do nothing: a look-up in dictionaries has nothing to gain."""

    def candidates(self, buckets: Sequence[Bucket]) -> Candidates:
        """Return what is in ``buckets``."""
        met = [bucket for bucket in buckets if bucket in self._orders]
        orders = np.frombuffer(b"".join(self._orders[b].tobytes() for b in met), dtype=np.uint64)
        fingerprints = np.frombuffer(
            b"".join([self._fingerprints[bucket] for bucket in met]), dtype=np.uint8
        )
        rows = len(orders)
        return Candidates(
            orders, fingerprints.reshape(rows, len(fingerprints) // rows if rows else 0)
        )

    def entry(self, order: int) -> Entry:
        """Return the entry with this order; raises ``KeyError`` where there is none."""
        return self._entries[order]

    def stage(self, change: PutEntry) -> None:
        """Add an entry."""
        if change.order in self._entries:
            return
        self._entries[change.order] = change.entry
        for bucket in self._buckets_of(change.entry):
            self._orders.setdefault(bucket, array("Q")).append(change.order)
            self._fingerprints.setdefault(bucket, bytearray()).extend(change.entry.fingerprint)

    def commit(self, changes: Sequence[Change]) -> None:
        """Take over all changes; entries that were staged are not added again."""
        for change in changes:
            match change:
                case PutEntry():
                    self.stage(change)
                case PutPending(source, entry):
                    self._in_flight.pending.pop(source, None)
                    if entry is not None:
                        self._in_flight.pending[source] = entry
                case PutParked(ticket, _, visit):
                    self._in_flight.parked.pop(ticket, None)
                    if visit is not None:
                        self._in_flight.parked[ticket] = change
                case Progress():
                    self._in_flight.progress = change

    def in_flight(self) -> InFlight:
        """Return a copy of the committed in-flight state."""
        kept = self._in_flight
        return InFlight(kept.progress, dict(kept.pending), dict(kept.parked))

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def close(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._orders.clear()
        self._fingerprints.clear()
