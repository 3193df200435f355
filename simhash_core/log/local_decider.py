"""Decisions without a log: one reader and one shard get the same verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.key_filter import Column
from simhash_core.index.look_up import LookUp, Nearness, View
from simhash_core.index.prints import Prints, prints_of, with_bands
from simhash_core.log.nearest_matches import match_bundle, own_pairs
from simhash_core.log.records import (
    Horizons,
    LogClock,
    Packet,
    entry_of,
    index_of,
    log_offset_of,
    sequence_number,
)
from simhash_core.log.removals import held, own_removals, removing_rows
from simhash_core.log.shard_stream import NewEntries
from simhash_core.log.shards import EntryStore
from simhash_core.log.unique_documents import UniqueDocuments, UniqueRows, unique_rows
from simhash_core.verdicts import Match

ANY_TIME_MS: Final = 1 << 62


class LocalDecision(NamedTuple):
    matches: dict[int, Match]  # of the duplicates, by row
    new: NewEntries
    removed: list[int]  # sequence numbers


class LocalDecider:
    """Decides packets one by one; after each, the caller must store its new entries."""

    def __init__(
        self,
        nearness: Nearness,
        store: EntryStore,
        committed: Iterable[tuple[NDArray[np.uint64], Prints]] = (),
        clock: LogClock | None = None,
    ) -> None:
        """``store`` and ``committed`` are as in ``Participant.add_shard``."""
        self._nearness = nearness
        self._index = DocumentIndex(nearness.scheme, nearness.window_ms)
        self._slot = self._index.open_slot()
        self._entries = OneStore(store)
        self._look_up = LookUp(self._index, nearness, self._entries)
        self._horizons = Horizons(nearness.window, clock)
        for sequences, prints in committed:
            self._index.add(self._slot, sequences, prints)

    def clock_before(self, offset: int) -> LogClock | None:
        return self._horizons.before(offset)

    def decide(self, offset: int, packet: Packet, now_ms: int = ANY_TIME_MS) -> LocalDecision:
        """Decide a packet; ``offset`` rises; times after ``now_ms`` do not move the watermark."""
        columns = with_bands(self._nearness.scheme, packet.columns)
        self._horizons.bundle(offset, columns, now_ms)
        self._horizons.forget_before(offset)
        view = View(
            sequence_number(offset, 0),
            sequence_number(self._horizons.at(offset), 0),
            removing=removing_rows(columns, replaces=self._nearness.replaces),
        )
        best = {match.row: match for match in self._look_up.matches(columns, view)}

        def entry(sequence: int) -> Entry:
            return entry_of(packet, index_of(sequence))

        pairs = own_pairs(self._nearness, view, columns)
        everything = np.ones(len(columns), dtype=np.bool_)
        match_bundle(self._nearness, columns, pairs, best, entry, view, everything)
        unique = unique_rows(columns, best)
        removals = held(view, self._entries)
        own = [*own_removals(packet, view, unique)]
        unique[[index_of(each.sequence) for each in own]] = False
        uniques = UniqueRows(offset, packet, np.flatnonzero(unique))
        rows = uniques.decidable
        prints = prints_of(self._nearness.scheme, columns, rows)
        self._index.add(self._slot, uniques.sequences(rows), prints)
        removed = [each.sequence for each in removals]
        if removed:
            self._index.remove(self._slot, np.array(removed, dtype=np.uint64))
        if view.expired_before > self._index.dropped_before:
            self._index.drop_before(view.expired_before)
        return LocalDecision(best, NewEntries(offset, packet, uniques.rows), removed)


class MemoryEntries:
    """Entries in memory, stored as packets without their duplicates."""

    ids_ready: Final = True

    def __init__(self) -> None:
        self._documents = UniqueDocuments()

    def __len__(self) -> int:
        return len(self._documents)

    def add(self, new: NewEntries) -> None:
        if len(new.rows):
            self._documents.add(UniqueRows.compact(new.log_offset, new.packet, new.rows))

    def remove(self, sequences: Iterable[int]) -> None:
        for sequence in sequences:
            self._documents.remove(sequence)

    def drop_before(self, sequence: int) -> None:
        before = log_offset_of(sequence)
        for log_offset in [u.log_offset for u in self._documents.each() if u.log_offset < before]:
            self._documents.forget(log_offset)

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        """Raises ``KeyError`` if an entry is missing."""
        entries = []
        for sequence in sequences:
            entry = self._documents.entry(sequence)
            if entry is None:
                raise KeyError(sequence)
            entries.append(entry)
        return entries

    def by_content(self, digest: bytes) -> list[int]:
        return [*self._documents.by_content(digest)]

    def by_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        return self._documents.with_ids(ids)

    def filter_by(self, column: Column) -> None:
        """Leave the column incomplete: a filter is not faster than memory."""


class OneStore:
    """The entries of an index with one shard."""

    def __init__(self, store: EntryStore) -> None:
        self._store = store

    def entry(self, slot: int, sequence: int) -> Entry | None:
        del slot
        return self._store.entries([sequence])[0]

    def by_content(self, digest: bytes) -> list[tuple[int, int]]:
        return [(sequence, 0) for sequence in self._store.by_content(digest)]

    def with_ids(self, ids: Sequence[bytes]) -> list[list[tuple[int, int]]]:
        return [[(0, each) for each in entries] for entries in self._store.by_ids(ids)]
