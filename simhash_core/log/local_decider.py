"""Deciding without a log: one reader of documents, one shard, the same verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.entries import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import LookUp, Nearness
from simhash_core.log.nearest_matches import match_nearest, own_pairs
from simhash_core.log.packets import Packet
from simhash_core.log.recent_uniques import entry_of
from simhash_core.log.sequence import index_of, log_offset_of, sequence_number
from simhash_core.log.shard import EntryStore
from simhash_core.log.shard_stream import NewEntries
from simhash_core.matches import Match


class LocalDecision(NamedTuple):
    """What was decided of a packet. ``matches``: of its duplicates, by row; others are unique.

    ``new``: the unique documents.
    """

    matches: dict[int, Match]
    new: NewEntries


class LocalDecider:
    """Decides packets as they come. After each, the caller puts its new entries into the store."""

    def __init__(
        self,
        nearness: Nearness,
        store: EntryStore,
        committed: Iterable[tuple[NDArray[np.uint64], NDArray[np.uint64]]] = (),
    ) -> None:
        """``store`` has the entries; ``committed`` is as in ``Participant.add_shard``."""
        self._nearness = nearness
        self._index = DocumentIndex(nearness.scheme)
        self._slot = self._index.open_slot()
        self._look_up = LookUp(self._index, nearness, _OneStore(store))
        for sequences, fingerprints in committed:
            self._index.add(self._slot, sequences, fingerprints)

    def decide(self, offset: int, packet: Packet) -> LocalDecision:
        """Decide a packet; ``offset`` numbers the packets, and rises."""
        columns = packet.columns
        best = {match.row: match for match in self._look_up.matches(columns)}

        def entry(sequence: int) -> Entry:
            return entry_of(packet, index_of(sequence))

        pairs = own_pairs(self._nearness, offset, columns)
        match_nearest(self._nearness, columns, pairs, best, entry, offset)
        unique = np.ones(len(packet), dtype=np.bool_)
        unique[list(best)] = False
        new = NewEntries(offset, packet, np.flatnonzero(unique))
        decidable = unique & (columns.undecidable == 0)
        self._index.add(
            self._slot, new.sequences[decidable[new.rows]], columns.fingerprints[decidable]
        )
        return LocalDecision(best, new)


class MemoryEntries:
    """Entries in memory, as the packets that they came in, without the duplicates."""

    def __init__(self) -> None:
        """Begin empty."""
        self._packets: dict[int, tuple[Packet, NDArray[np.intp]]] = {}
        self._contents: dict[bytes, int] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._count

    def add(self, new: NewEntries) -> None:
        """Add the unique documents of a packet."""
        if not len(new.rows):
            return
        self._count += len(new.rows)
        columns = new.packet.columns
        kept = new.packet
        if len(new.rows) < len(columns):
            kept = replace(kept, columns=columns.take(new.rows))
        self._packets[new.log_offset] = kept, new.rows
        for row in new.rows[columns.undecidable[new.rows] != 0].tolist():
            self._contents[columns.digest(row)] = sequence_number(new.log_offset, row)

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        """Return entries by sequence number."""
        return [self._entry(each) for each in sequences]

    def by_content(self, digest: bytes) -> int | None:
        """Return the sequence number of the undecidable document with this content digest."""
        return self._contents.get(digest)

    def _entry(self, sequence: int) -> Entry:
        packet, rows = self._packets[log_offset_of(sequence)]
        return entry_of(packet, int(np.searchsorted(rows, index_of(sequence))))


class _OneStore:
    """The entries of the only shard."""

    def __init__(self, store: EntryStore) -> None:
        self._store = store

    def entries(self, slot: int, sequences: Sequence[int]) -> list[Entry]:
        """Return entries by sequence number; there is one slot."""
        del slot
        return self._store.entries(sequences)

    def by_content(self, digest: bytes) -> tuple[int, Entry] | None:
        """Return the undecidable document of a content."""
        sequence = self._store.by_content(digest)
        return None if sequence is None else (sequence, self._store.entries([sequence])[0])
