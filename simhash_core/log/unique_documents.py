"""Unique documents in memory, as the packets that they came in, without those taken out since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simhash_core.entries import Entry
from simhash_core.log.packets import Packet, entry_of
from simhash_core.log.sequence import index_of, log_offset_of, sequence_number, sequence_numbers


class UniqueRows:
    """Those of one packet. ``rows``: in the packet, rising; they become fewer."""

    def __init__(self, log_offset: int, packet: Packet, rows: NDArray[np.intp]) -> None:
        """``log_offset``: of the packet."""
        self.log_offset = log_offset
        self.packet = packet
        self.rows = rows
        self._by_id: dict[bytes, list[int]] | None = None

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.rows)

    @property
    def decidable(self) -> NDArray[np.intp]:
        """The rows of documents that have a fingerprint."""
        rows: NDArray[np.intp] = self.rows[self.packet.columns.undecidable[self.rows] == 0]
        return rows

    def sequences(self, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return the sequence numbers of rows, uint64."""
        return sequence_numbers(self.log_offset, len(self.packet))[rows]

    def repeatable(self) -> Iterator[tuple[bytes, int]]:
        """Yield the undecidable documents: content digest and sequence number."""
        columns = self.packet.columns
        for row in self.rows[columns.undecidable[self.rows] != 0].tolist():
            yield columns.digest(row), sequence_number(self.log_offset, row)

    def holds(self, sequence: int) -> bool:
        """Return whether a document of this packet is among them."""
        row = index_of(sequence)
        at = int(np.searchsorted(self.rows, row))
        return at < len(self.rows) and int(self.rows[at]) == row

    def remove(self, sequence: int) -> None:
        """Leave a document out."""
        self.rows = self.rows[self.rows != index_of(sequence)]
        self._by_id = None

    def with_id(self, document_id: bytes) -> list[int]:
        """Return the sequence numbers of the documents that have an id."""
        if self._by_id is None:
            self._by_id = {}
            ids = self.packet.columns.ids
            for row in self.rows.tolist():
                self._by_id.setdefault(ids[row], []).append(row)
        return [sequence_number(self.log_offset, row) for row in self._by_id.get(document_id, ())]


class UniqueDocuments:
    """Those of several packets, added in the order of the log."""

    def __init__(self) -> None:
        """Begin empty."""
        self._packets: dict[int, UniqueRows] = {}
        self._contents: dict[bytes, list[int]] = {}

    def __len__(self) -> int:
        """Return the number of documents."""
        return sum(map(len, self._packets.values()))

    def __contains__(self, log_offset: int) -> bool:
        """Return whether the packet at an offset is among them."""
        return log_offset in self._packets

    def packets(self) -> Iterable[UniqueRows]:
        """Return the documents by packet, the earliest first; a copy."""
        return list(self._packets.values())

    def add(self, unique: UniqueRows) -> None:
        """Add those of a packet."""
        self._packets[unique.log_offset] = unique
        for digest, sequence in unique.repeatable():
            self._contents.setdefault(digest, []).append(sequence)

    def forget(self, log_offset: int) -> None:
        """Forget those of a packet."""
        for digest, sequence in self._packets.pop(log_offset).repeatable():
            self._forget_content(digest, sequence)

    def remove(self, sequence: int) -> None:
        """Leave a document out; without effect for one that is not here."""
        unique = self._packets.get(log_offset_of(sequence))
        if unique is None or not unique.holds(sequence):
            return
        columns, row = unique.packet.columns, index_of(sequence)
        if columns.undecidable[row]:
            self._forget_content(columns.digest(row), sequence)
        unique.remove(sequence)

    def entry(self, sequence: int) -> Entry | None:
        """Return the entry of a document, None for one that is not here."""
        unique = self._packets.get(log_offset_of(sequence))
        if unique is None or not unique.holds(sequence):
            return None
        return entry_of(unique.packet, index_of(sequence))

    def by_content(self, digest: bytes) -> list[int]:
        """Return the sequence numbers of the undecidable documents of a content, rising."""
        return self._contents.get(digest, [])

    def with_ids(self, ids: Sequence[bytes]) -> list[list[int]]:
        """Return the sequence numbers of the documents of each id, rising."""
        packets = self._packets.values()
        return [[entry for each in packets for entry in each.with_id(name)] for name in ids]

    def _forget_content(self, digest: bytes, sequence: int) -> None:
        known = self._contents[digest]
        known.remove(sequence)
        if not known:
            del self._contents[digest]
