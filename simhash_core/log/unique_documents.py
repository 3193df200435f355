"""Unique documents in memory: those of a shard, and those that a leader decided recently."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Entry
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.known_sketches import MANY, KnownSketches
from simhash_core.index.look_up import Nearness
from simhash_core.index.pairs import Pairs
from simhash_core.index.prints import Prints, joined_prints, prints_of
from simhash_core.log.records import (
    Bundle,
    Packet,
    entry_of,
    log_offset_of,
    sequence_number,
    sequence_numbers,
)


def unique_rows(columns: DocumentColumns, duplicates: Iterable[int]) -> NDArray[np.bool_]:
    """Return which rows are unique documents, bool (rows,); deletes are not."""
    unique = columns.are_documents
    unique[list(duplicates)] = False
    return unique


class UniqueRows:
    """The unique documents of one packet or bundle; ``rows`` rise, and removals shorten them."""

    __slots__ = ("_first", "_numbers", "documents", "log_offset", "rows")

    def __init__(self, log_offset: int, documents: Packet | Bundle, rows: NDArray[np.intp]) -> None:
        self.log_offset = log_offset
        self.documents = documents
        self.rows = rows
        self._first = sequence_number(log_offset, documents.first)
        # The row numbers in the whole packet; None: ``rows`` has them.
        self._numbers: NDArray[np.intp] | None = None

    @classmethod
    def compact(cls, log_offset: int, packet: Packet, rows: NDArray[np.intp]) -> UniqueRows:
        """Return the unique documents of a packet, without the columns of its other rows."""
        if len(rows) == len(packet):
            return cls(log_offset, packet, rows)
        kept = replace(packet, columns=packet.columns.take(rows))
        compact = cls(log_offset, kept, np.arange(len(rows)))
        compact._numbers = rows
        return compact

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> DocumentColumns:
        return self.documents.columns

    @property
    def decidable(self) -> NDArray[np.intp]:
        """The rows of documents that have a fingerprint."""
        rows: NDArray[np.intp] = self.rows[self.columns.undecidable[self.rows] == 0]
        return rows

    def sequences(self, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        return sequence_numbers(self._first, self._numbers_of(rows))

    def _numbers_of(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        return rows if self._numbers is None else self._numbers[rows]

    def row_of(self, sequence: int) -> int | None:
        """Return the row of a unique document; None if it is not in this packet or bundle."""
        numbers = self._numbers_of(self.rows)
        at = int(np.searchsorted(numbers, sequence - self._first))
        is_here = at < len(numbers) and int(numbers[at]) == sequence - self._first
        return int(self.rows[at]) if is_here else None

    def repeatable(self) -> Iterator[tuple[bytes, int]]:
        columns = self.columns
        rows = self.rows[columns.undecidable[self.rows] != 0]
        for row, number in zip(rows.tolist(), self._numbers_of(rows).tolist(), strict=True):
            yield columns.digest(row), self._first + number

    def remove(self, row: int) -> None:
        self.rows = self.rows[self.rows != row]

    def with_ids(self) -> Iterator[tuple[bytes, int]]:
        ids, numbers = self.columns.ids, self._numbers_of(self.rows)
        for row, number in zip(self.rows.tolist(), numbers.tolist(), strict=True):
            yield ids[row], self._first + number


class UniqueDocuments:
    """The unique documents of several packets or bundles, added in the order of the log."""

    def __init__(self) -> None:
        self._rows: dict[int, UniqueRows] = {}
        self._contents: dict[bytes, list[int]] = {}
        self._ids: dict[bytes, list[int]] | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, log_offset: int) -> bool:
        return log_offset in self._rows

    def each(self) -> Iterable[UniqueRows]:
        return self._rows.values()

    def add(self, unique: UniqueRows) -> None:
        self._rows[unique.log_offset] = unique
        self._count += len(unique)
        for digest, sequence in unique.repeatable():
            self._contents.setdefault(digest, []).append(sequence)
        if self._ids is not None:
            _note(self._ids, unique.with_ids())

    def forget(self, log_offset: int) -> None:
        unique = self._rows.pop(log_offset)
        self._count -= len(unique)
        for digest, sequence in unique.repeatable():
            _forget(self._contents, digest, sequence)
        if self._ids is not None:
            for name, sequence in unique.with_ids():
                _forget(self._ids, name, sequence)

    def remove(self, sequence: int) -> None:
        unique = self._rows.get(log_offset_of(sequence))
        row = None if unique is None else unique.row_of(sequence)
        if unique is None or row is None:
            return
        columns = unique.columns
        if columns.undecidable[row]:
            _forget(self._contents, columns.digest(row), sequence)
        if self._ids is not None:
            _forget(self._ids, columns.ids[row], sequence)
        unique.remove(row)
        self._count -= 1

    def entry(self, sequence: int) -> Entry | None:
        unique = self._rows.get(log_offset_of(sequence))
        row = None if unique is None else unique.row_of(sequence)
        return None if unique is None or row is None else entry_of(unique.documents, row)

    def by_content(self, digest: bytes) -> list[int]:
        return self._contents.get(digest, [])

    def with_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        if self._ids is None:  # most streams never remove a document
            self._ids = {}
            for unique in self._rows.values():
                _note(self._ids, unique.with_ids())
        known = self._ids
        return [known.get(name, [])[:] for name in ids]


def _note(known: dict[bytes, list[int]], named: Iterable[tuple[bytes, int]]) -> None:
    for name, sequence in named:
        known.setdefault(name, []).append(sequence)


def _forget(known: dict[bytes, list[int]], name: bytes, sequence: int) -> None:
    sequences = known[name]
    sequences.remove(sequence)
    if not sequences:
        del known[name]


# Documents that may be forgotten, before they are removed from the index.
_FORGOTTEN_LIMIT: Final = 1024


class _Block(NamedTuple):
    unique: UniqueRows
    control: int | None  # the record that decides them; None: it is not appended yet


class RecentUniques(UniqueDocuments):
    """The latest unique documents, which a shard may not have known when it looked up."""

    def __init__(self, nearness: Nearness) -> None:
        super().__init__()
        self._scheme = nearness.scheme
        self._known = KnownSketches(nearness.verifier)
        self._blocks: deque[_Block] = deque()
        self._forgotten = 0
        self._index = DocumentIndex(nearness.scheme)
        self._slot = self._index.open_slot()
        self._not_indexed: list[UniqueRows] = []

    def add_rows(self, log_offset: int, bundle: Bundle, rows: NDArray[np.intp]) -> None:
        """Add unique documents of a bundle whose control record is about to be appended."""
        if not len(rows):
            return
        unique = UniqueRows(log_offset, bundle, rows)
        self._blocks.append(_Block(unique, None))
        self.add(unique)
        self._not_indexed.append(unique)

    def appended(self, control: int) -> None:
        for at in range(len(self._blocks) - 1, -1, -1):
            if self._blocks[at].control is not None:
                return
            self._blocks[at] = self._blocks[at]._replace(control=control)

    def forget_through(self, control: int) -> None:
        """Forget what every worker knows that has applied the control record at this offset."""
        while self._blocks:
            unique, known_from = self._blocks[0]
            if not _is_known(known_from, control):
                break
            self._blocks.popleft()
            self.forget(unique.log_offset)
            self._forgotten += len(unique)
        if self._forgotten > max(_FORGOTTEN_LIMIT, len(self)):
            self._drop_forgotten(control)
            self._forgotten = 0

    def _drop_forgotten(self, control: int) -> None:
        first = self._blocks[0].unique.log_offset if self._blocks else control
        self._index.drop_before(sequence_number(first, 0))

    def near(self, prints: Prints, words: NDArray[np.uint64] | None) -> list[tuple[int, int, int]]:
        """Return rows, distances and sequence numbers of the pairs within the distance, sorted.

        With the ``words`` of the sketches, some pairs that are not similar are left out.
        """
        if not self._blocks:
            return []
        self._put()
        pairs = self._index.pairs(prints)
        if words is not None and len(pairs) > MANY * prints.documents:
            pairs = self._maybe_similar(pairs, words)
        near = zip(
            pairs.rows.tolist(), pairs.distances.tolist(), pairs.sequences.tolist(), strict=True
        )
        return [each for each in near if log_offset_of(each[2]) in self]

    def _maybe_similar(self, pairs: Pairs, words: NDArray[np.uint64]) -> Pairs:
        for sequence in np.unique(pairs.sequences).tolist():
            if sequence not in self._known and (entry := self.entry(sequence)) is not None:
                self._known.note(sequence, entry.sketch)
        return self._known.without_dissimilar(pairs, words)

    def _put(self) -> None:
        """Index the documents added since the last call; many bundles at once are faster."""
        added = [each for each in self._not_indexed if each.log_offset in self]
        self._not_indexed.clear()
        if not added:
            return
        rows = [each.decidable for each in added]
        sequences = [each.sequences(some) for each, some in zip(added, rows, strict=True)]
        prints = [
            prints_of(self._scheme, each.columns, some)
            for each, some in zip(added, rows, strict=True)
        ]
        self._index.add(self._slot, np.concatenate(sequences), joined_prints(prints))


def _is_known(known_from: int | None, control: int) -> bool:
    return known_from is not None and known_from <= control
