"""Which entries the rows of packets remove from the index, by the order of the log.

A delete removes all entries with its id; so does each document, if documents replace those of their
id. This holds for every packet that counts, whatever else is decided of it. So every reader knows
before any decision which ids the earlier packets remove.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.index.look_up import View
from simhash_core.log.records import Heads, Packet, Removal, sequence_number
from simhash_core.log.replica import Replica


class EntriesByShard(Protocol):
    def with_ids(self, ids: Sequence[bytes]) -> list[list[tuple[int, int]]]:
        """Return shard and sequence number of the entries of each id."""
        ...


def removing_rows(columns: DocumentColumns, *, replaces: bool) -> dict[bytes, list[int]]:
    """Return the ids that rows of a packet remove, with these rows, rising."""
    rows = range(len(columns)) if replaces else columns.deletes
    removing: dict[bytes, list[int]] = {}
    for row in rows:
        removing.setdefault(columns.ids[row], []).append(row)
    return removing


class UndecidedRemovals:
    """The ids that undecided packets remove, each with the first row that does.

    Packets are processed once, in order and on demand, and remembered until they are decided.
    """

    def __init__(self, *, replaces: bool) -> None:
        self._replaces = replaces
        self._heads: Heads | None = None
        self._waiting: deque[tuple[int, Packet]] = deque()
        self._ids: dict[int, list[bytes]] = {}
        self._first: dict[bytes, int] = {}
        self._later: dict[bytes, deque[int]] = {}

    def begin(self, replica: Replica) -> None:
        """Start again from a replica, which may not know the heads yet."""
        self._heads = None
        for each in (self._waiting, self._ids, self._first, self._later):
            each.clear()
        if replica.heads is None:
            return
        self._heads = Heads(replica.heads.items())
        for offset, item in replica.undecided.items():
            if isinstance(item, Packet):
                self.read(offset, item)

    def read(self, offset: int, packet: Packet) -> None:
        if self._heads is not None:
            self._waiting.append((offset, packet))

    def decided(self, offset: int) -> None:
        """Forget the first undecided packet: its removals are done."""
        self.before(offset + 1)
        for name in self._ids.pop(offset, ()):
            later = self._later.get(name)
            if later is None:
                del self._first[name]
                continue
            self._first[name] = later.popleft()
            if not later:
                del self._later[name]

    def before(self, offset: int) -> Mapping[bytes, int]:
        """Return ids, by first sequence, that packets before ``offset``, or some later, remove."""
        while self._waiting and self._waiting[0][0] < offset:
            self._take_out(*self._waiting.popleft())
        return self._first

    def _take_out(self, offset: int, packet: Packet) -> None:
        assert self._heads is not None
        if not self._counts(packet):
            return
        self._heads.advance(packet)
        removing = removing_rows(packet.columns, replaces=self._replaces)
        for name, rows in removing.items():
            sequence = sequence_number(offset, rows[0])
            if self._first.setdefault(name, sequence) != sequence:
                self._later.setdefault(name, deque()).append(sequence)
        if removing:
            self._ids[offset] = [*removing]

    def _counts(self, packet: Packet) -> bool:
        return self._heads is not None and self._heads.counts(packet)


def view_of(
    replica: Replica,
    offset: int,
    removals: UndecidedRemovals,
    expired_before: int,
    *,
    replaces: bool,
) -> View:
    """Return what an undecided packet or query sees of an index, until anything is decided."""
    item = replica.undecided[offset]
    is_packet = isinstance(item, Packet)
    return View(
        sequence_number(offset, 0),
        max(expired_before, replica.expired_for(offset)),
        removals.before(offset),
        removing_rows(item.columns, replaces=replaces) if is_packet else {},
    )


def held(view: View, entries: EntriesByShard) -> list[Removal]:
    names = [name for name in view.removing if view.removed.get(name, view.first) >= view.first]
    if not names:
        return []
    return [
        Removal(view.removing[name][0], partition, sequence)
        for name, entry in zip(names, entries.with_ids(names), strict=True)
        for partition, sequence in entry
        if sequence >= view.expired_before
    ]


def own_removals(packet: Packet, view: View, unique: NDArray[np.bool_]) -> Iterator[Removal]:
    if not view.removing:
        return
    for row in np.flatnonzero(unique).tolist():
        removing = view.removing.get(packet.columns.ids[row], ())
        later = _first_after(row, removing)
        if later is not None:
            yield Removal(later, packet.chain.partition, view.first + row)


def _first_after(row: int, rows: Sequence[int]) -> int | None:
    return next((each for each in rows if each > row), None)
