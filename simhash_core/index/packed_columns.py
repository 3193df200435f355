"""Compact columns of a segment: row numbers, sequence numbers, ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

# ---- Ranges of different lengths, expanded in one step.


def spread(
    starts: NDArray[np.intp], lengths: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return for each position in some ranges the number of its range, and the position."""
    of = np.repeat(np.arange(len(starts)), lengths)
    # Where a range begins, minus the number of positions before it.
    at = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    at += np.arange(len(at))
    return of, at


# ---- Row numbers in three bytes each: a segment has fewer than 2²⁴ documents.


ROWS_LIMIT: Final = 1 << 24
_BYTES: Final = 3
_NUMBER: Final = np.dtype("<u4")


def pack_rows(rows: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return row numbers, uint32 (rows,), as little-endian bytes, uint8 (rows, 3)."""
    as_bytes = rows.astype(_NUMBER, copy=False).view(np.uint8).reshape(-1, _NUMBER.itemsize)
    return np.ascontiguousarray(as_bytes[:, :_BYTES])


def unpack_rows(packed: NDArray[np.uint8]) -> NDArray[np.uint32]:
    as_bytes = np.zeros((len(packed), _NUMBER.itemsize), dtype=np.uint8)
    as_bytes[:, :_BYTES] = packed
    return as_bytes.reshape(-1).view(_NUMBER)


# ---- Sequence numbers in two bytes a document instead of eight.
#
#  Those of one packet stand together, so the offset of the packet is kept once::
#
#     indexes   uint16 (documents,)      the last 16 bits of each
#     firsts    uint32 (packets,)        the row of the first document of each packet
#     packets   uint64 (packets,)        the bits before the last 16


_INDEX_BITS: Final = np.uint64(16)
_INDEX_MASK: Final = np.uint64(0xFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class SequenceColumn:
    """Sequence numbers in rising order; equal ones may follow each other."""

    indexes: NDArray[np.uint16]
    firsts: NDArray[np.uint32]
    packets: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.indexes)

    @classmethod
    def of(cls, sequences: NDArray[np.uint64]) -> SequenceColumn:
        """Pack sorted sequence numbers, uint64 (documents,)."""
        packets = sequences >> _INDEX_BITS
        is_first = np.ones(len(packets), dtype=np.bool_)
        np.not_equal(packets[1:], packets[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        indexes = (sequences & _INDEX_MASK).astype(np.uint16)
        return cls(indexes, firsts.astype(np.uint32), packets[firsts])

    def take(self, rows: NDArray[np.intp] | NDArray[np.uint32]) -> NDArray[np.uint64]:
        packet = np.searchsorted(self.firsts, rows.astype(np.uint32), side="right") - 1
        sequences: NDArray[np.uint64] = self.packets[packet] << _INDEX_BITS | self.indexes[rows]
        return sequences

    def all(self) -> NDArray[np.uint64]:
        ends = np.append(self.firsts[1:], np.uint32(len(self.indexes)))
        packets = np.repeat(self.packets, ends - self.firsts)
        whole: NDArray[np.uint64] = packets << _INDEX_BITS | self.indexes
        return whole

    def count_below(self, sequence: int) -> int:
        """Return how many sequence numbers are lower: the first row that is not."""
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
        """Return whether all sequence numbers are from ``first`` to ``last``, and there is one."""
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
