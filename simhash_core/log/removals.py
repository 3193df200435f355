"""Which entries the rows of bundles remove from the index, in the order of the log.

A delete removes all entries with its id. A document does the same if documents replace those of
their id. This holds for every packet that counts, whatever its other verdicts are. So every reader
knows before any decision which ids earlier packets remove.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.index.look_up import EntrySource, View
from simhash_core.log.records import Bundle, Heads, Packet, Removal, sequence_number
from simhash_core.log.replica import Replica

REMOVALS_A_DOCUMENT: Final = 256
"""So many removals take no more space in a record than one document may (``MATCH_BYTES``). Control
records and reports count them, so that they do not gather the removals of many bundles."""


def removing_rows(
    columns: DocumentColumns, counting: NDArray[np.bool_] | None = None, *, replaces: bool
) -> dict[bytes, list[int]]:
    """Return removed ids, each with its rows, rising; ``counting`` None: all rows count."""
    rows: Sequence[int] = range(len(columns)) if replaces else columns.deletes
    if counting is not None:
        rows = [row for row in rows if counting[row]]
    removing: dict[bytes, list[int]] = {}
    for row in rows:
        removing.setdefault(columns.ids[row], []).append(row)
    return removing


class UndecidedRemovals:
    """The ids that undecided bundles remove, each with the first row that does.

    Bundles are processed once, in order and only when needed, and remembered until they are
    decided. In an index without replacing documents, processing begins with the first delete.
    """

    def __init__(self, *, replaces: bool) -> None:
        self._replaces = replaces
        self._is_needed = replaces
        self._heads: Heads | None = None
        self._waiting: deque[tuple[int, Bundle]] = deque()
        self._removing: dict[int, dict[bytes, list[int]]] = {}
        self._first: dict[bytes, int] = {}
        self._later: dict[bytes, deque[int]] = {}

    def begin(self, replica: Replica) -> None:
        """Start again from a replica, which may not know the heads yet."""
        self._heads = None
        for each in (self._waiting, self._removing, self._first, self._later):
            each.clear()
        if replica.heads is None:
            return
        bundles = [(k, each) for k, each in replica.undecided.items() if isinstance(each, Bundle)]
        self._is_needed = self._is_needed or any(map(_removes, (each for _, each in bundles)))
        if self._is_needed:
            self._heads = Heads(replica.heads.columns())
            self._waiting.extend(bundles)

    def read(self, offset: int, bundle: Bundle, replica: Replica) -> None:
        """Add the latest bundle, which the replica has already read."""
        if self._heads is not None:
            self._waiting.append((offset, bundle))
        elif not self._is_needed and _removes(bundle):
            self.begin(replica)

    def decided(self, offset: int) -> None:
        """Forget the first undecided bundle: its removals are done."""
        self.through(offset)
        for name in self._removing.pop(offset, ()):
            later = self._later.get(name)
            if later is None:
                del self._first[name]
                continue
            self._first[name] = later.popleft()
            if not later:
                del self._later[name]

    def through(self, offset: int) -> Mapping[bytes, int]:
        """Return the ids that bundles up to ``offset`` or later remove, with the first number."""
        while self._waiting and self._waiting[0][0] <= offset:
            self._process(*self._waiting.popleft())
        return self._first

    def of(self, offset: int) -> Mapping[bytes, Sequence[int]]:
        """Return the ids that the undecided bundle at ``offset`` removes, with their rows."""
        self.through(offset)
        return self._removing.get(offset, {})

    def _process(self, offset: int, bundle: Bundle) -> None:
        assert self._heads is not None
        skipped = self._heads.take(bundle)
        counting = bundle.rows_without(skipped) if skipped else None
        removing = removing_rows(bundle.columns, counting, replaces=self._replaces)
        for name, rows in removing.items():
            sequence = sequence_number(offset, rows[0])
            if self._first.setdefault(name, sequence) != sequence:
                self._later.setdefault(name, deque()).append(sequence)
        if removing:
            self._removing[offset] = removing


def _removes(bundle: Bundle) -> bool:
    return bundle.columns.operations is not None


def view_of(
    replica: Replica,
    offset: int,
    removals: UndecidedRemovals,
    expired_before: int,
) -> View:
    """Return what an undecided bundle or query sees of an index, until anything is decided."""
    return View(
        sequence_number(offset, 0),
        max(expired_before, replica.expired_for(offset)),
        removals.through(offset),
        removals.of(offset),
    )


def held(view: View, entries: EntrySource) -> list[Removal]:
    names = [name for name in view.removing if view.removed.get(name, view.first) >= view.first]
    if not names:
        return []
    return [
        Removal(view.removing[name][0], partition, sequence)
        for name, entry in zip(names, entries.with_ids(names), strict=True)
        for partition, sequence in entry
        if sequence >= view.expired_before
    ]


def own_removals(
    documents: Packet | Bundle, view: View, unique: NDArray[np.bool_]
) -> Iterator[Removal]:
    if not view.removing:
        return
    for row in np.flatnonzero(unique).tolist():
        removing = view.removing.get(documents.columns.ids[row], ())
        later = _first_after(row, removing)
        if later is not None:
            yield Removal(later, documents.source(row).partition, view.first + row)


def _first_after(row: int, rows: Sequence[int]) -> int | None:
    at = bisect_right(rows, row)
    return rows[at] if at < len(rows) else None
