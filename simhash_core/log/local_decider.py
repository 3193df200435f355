"""Decisions without a log: one reader, one shard, the same verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.documents import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.look_up import LookUp, Nearness, View
from simhash_core.index.prints import Prints, prints_of
from simhash_core.log.nearest_matches import match_nearest, own_pairs
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
from simhash_core.log.unique_documents import UniqueRows, unique_rows
from simhash_core.verdicts import Match

ANY_TIME_MS: Final = 1 << 62


class LocalDecision(NamedTuple):
    matches: dict[int, Match]  # of the duplicates, by row
    new: NewEntries
    removed: list[int]  # sequence numbers


class LocalDecider:
    """Decides packets as they come. After each, the caller must store its new entries."""

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
        self._entries = _OneStore(store)
        self._look_up = LookUp(self._index, nearness, self._entries)
        self._horizons = Horizons(nearness.window, clock)
        for sequences, prints in committed:
            self._index.add(self._slot, sequences, prints)

    def clock_before(self, offset: int) -> LogClock | None:
        return self._horizons.before(offset)

    def decide(self, offset: int, packet: Packet, now_ms: int = ANY_TIME_MS) -> LocalDecision:
        """Decide a packet; ``offset`` rises, and no time after ``now_ms`` moves the watermark."""
        columns = packet.columns
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
        match_nearest(self._nearness, columns, pairs, best, entry, view)
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
    """Entries in memory, as their packets without the duplicates."""

    def __init__(self) -> None:
        self._packets: dict[int, tuple[Packet, NDArray[np.intp]]] = {}  # with rows of the bundle
        self._contents: dict[bytes, list[int]] = {}
        self._ids: dict[bytes, list[int]] | None = None
        self._removed: set[int] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, new: NewEntries) -> None:
        if not len(new.rows):
            return
        self._count += len(new.rows)
        kept = new.packet
        if len(new.rows) < len(kept):
            kept = replace(kept, columns=kept.columns.take(new.rows))
        columns = kept.columns
        rows = new.rows + kept.first
        self._packets[new.log_offset] = kept, rows
        for at in np.flatnonzero(columns.undecidable).tolist():
            known = self._contents.setdefault(columns.digest(at), [])
            known.append(sequence_number(new.log_offset, rows.item(at)))
        if self._ids is not None:
            self._add_ids(self._ids, new.log_offset)

    def remove(self, sequences: Iterable[int]) -> None:
        for sequence in sequences:
            if self._holds(sequence):
                self._removed.add(sequence)
                self._count -= 1

    def drop_before(self, sequence: int) -> None:
        expired = [each for each in self._packets if each < log_offset_of(sequence)]
        if not expired:
            return
        for log_offset in expired:
            _, rows = self._packets.pop(log_offset)
            self._count -= len(rows)
        lost = {each for each in self._removed if each < sequence}
        self._count += len(lost)
        self._removed -= lost
        self._contents = _from(self._contents, sequence)
        if self._ids is not None:
            self._ids = _from(self._ids, sequence)

    def entries(self, sequences: Sequence[int]) -> list[Entry]:
        """Raises ``KeyError`` for an entry that is not there."""
        return [self._entry(each) for each in sequences]

    def by_content(self, digest: bytes) -> list[int]:
        return [each for each in self._contents.get(digest, ()) if each not in self._removed]

    def by_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        if self._ids is None:
            self._ids = {}
            for log_offset in self._packets:
                self._add_ids(self._ids, log_offset)
        known = self._ids
        return [[each for each in known.get(name, ()) if each not in self._removed] for name in ids]

    def _add_ids(self, known: dict[bytes, list[int]], log_offset: int) -> None:
        packet, rows = self._packets[log_offset]
        for name, row in zip(packet.columns.ids, rows.tolist(), strict=True):
            known.setdefault(name, []).append(sequence_number(log_offset, row))

    def _holds(self, sequence: int) -> bool:
        if sequence in self._removed or log_offset_of(sequence) not in self._packets:
            return False
        _, rows = self._packets[log_offset_of(sequence)]
        return index_of(sequence) in rows

    def _entry(self, sequence: int) -> Entry:
        if not self._holds(sequence):
            raise KeyError(sequence)
        packet, rows = self._packets[log_offset_of(sequence)]
        return entry_of(packet, int(np.searchsorted(rows, index_of(sequence))))


def _from(known: dict[bytes, list[int]], sequence: int) -> dict[bytes, list[int]]:
    kept = {name: [each for each in known[name] if each >= sequence] for name in known}
    return {name: sequences for name, sequences in kept.items() if sequences}


class _OneStore:
    def __init__(self, store: EntryStore) -> None:
        self._store = store

    def entries(self, slot: int, sequences: Sequence[int]) -> list[Entry]:
        del slot
        return self._store.entries(sequences)

    def by_content(self, digest: bytes) -> list[tuple[int, Entry]]:
        sequences = self._store.by_content(digest)
        return list(zip(sequences, self._store.entries(sequences), strict=True))

    def with_ids(self, ids: Sequence[bytes]) -> list[list[tuple[int, int]]]:
        return [[(0, each) for each in entries] for entries in self._store.by_ids(ids)]
