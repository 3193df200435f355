"""Sequence numbers as a column that takes two bytes a document, not eight.

A sequence number is the place of a document in the log: the offset of its packet, and its index in
it. Sorted, those of one packet stand together, so its offset is kept once::

    indexes   uint16 (documents,)      the last 16 bits of each
    firsts    uint32 (packets,)        the row of the first document of each packet
    packets   uint64 (packets,)        what stands before the last 16 bits
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.index.ragged import spread

_INDEX_BITS: Final = np.uint64(16)
_INDEX_MASK: Final = np.uint64(0xFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class SequenceColumn:
    """Sequence numbers that rise from row to row, or stay equal."""

    indexes: NDArray[np.uint16]
    firsts: NDArray[np.uint32]
    packets: NDArray[np.uint64]

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.indexes)

    @classmethod
    def of(cls, sequences: NDArray[np.uint64]) -> SequenceColumn:
        """Pack sequence numbers, uint64 (documents,), sorted."""
        packets = sequences >> _INDEX_BITS
        is_first = np.ones(len(packets), dtype=np.bool_)
        np.not_equal(packets[1:], packets[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        indexes = (sequences & _INDEX_MASK).astype(np.uint16)
        return cls(indexes, firsts.astype(np.uint32), packets[firsts])

    def take(self, rows: NDArray[np.intp] | NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Return the sequence numbers of some rows, uint64."""
        packet = np.searchsorted(self.firsts, rows.astype(np.uint32), side="right") - 1
        sequences: NDArray[np.uint64] = self.packets[packet] << _INDEX_BITS | self.indexes[rows]
        return sequences

    def all(self) -> NDArray[np.uint64]:
        """Return all sequence numbers, uint64 (documents,)."""
        ends = np.append(self.firsts[1:], np.uint32(len(self.indexes)))
        packets = np.repeat(self.packets, ends - self.firsts)
        whole: NDArray[np.uint64] = packets << _INDEX_BITS | self.indexes
        return whole

    def count_below(self, sequence: int) -> int:
        """Return how many sequence numbers are lower than one: the first row that is not."""
        packet = np.uint64(sequence >> 16)
        at = int(np.searchsorted(self.packets, packet))
        if at == len(self.packets):
            return len(self.indexes)
        start = int(self.firsts[at])
        if self.packets[at] != packet:
            return start
        stop = int(self.firsts[at + 1]) if at + 1 < len(self.firsts) else len(self.indexes)
        own = self.indexes[start:stop]
        return start + int(np.searchsorted(own, np.uint16(sequence & 0xFFFF)))

    def is_between(self, first: int, last: int) -> bool:
        """Return whether all sequence numbers are from ``first`` to ``last``, and there are any."""
        return (
            len(self) > 0
            and self.count_below(first) == 0
            and self.count_below(last + 1) == len(self)
        )

    def rows_of(self, sequences: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the rows that have one of some sequence numbers, in order."""
        wanted = np.unique(sequences)
        packets = wanted >> _INDEX_BITS
        first = np.searchsorted(self.packets, packets)
        last = np.searchsorted(self.packets, packets, side="right")
        bounds = np.append(self.firsts, np.uint32(len(self))).astype(np.intp)
        of, rows = spread(bounds[first], bounds[last] - bounds[first])
        matching: NDArray[np.intp] = rows[self.indexes[rows] == wanted[of] & _INDEX_MASK]
        return matching
