"""New documents of an index, unsorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import Prints, joined_prints


class Rows(NamedTuple):
    sequences: NDArray[np.uint64]
    slots: NDArray[np.uint16]
    prints: Prints

    @property
    def documents(self) -> int:
        return len(self.sequences)

    def take(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        return Rows(self.sequences[rows], self.slots[rows], self.prints.take(rows))

    def live(self, live: NDArray[np.bool_]) -> Rows:
        return self.take(live[self.slots])


def joined(parts: Sequence[Rows]) -> Rows:
    """Join one part or more; a single one is not copied, as it may have millions of documents."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([each.sequences for each in parts]),
        np.concatenate([each.slots for each in parts]),
        joined_prints([each.prints for each in parts]),
    )


class Memtable:
    def __init__(self, scheme: BlockScheme, capacity: int) -> None:
        self.count = 0
        self._sequences = np.empty(capacity, dtype=np.uint64)
        self._slots = np.empty(capacity, dtype=np.uint16)
        self._prints = Prints(
            np.empty((capacity, scheme.bits // 64), dtype=np.uint64),
            np.empty((capacity, scheme.bands), dtype=np.uint32),
            np.empty(capacity, dtype=np.int64),
        )

    def append(self, part: Rows) -> None:
        rows = slice(self.count, self.count + part.documents)
        self._sequences[rows] = part.sequences
        self._slots[rows] = part.slots
        self._prints.fingerprints[rows] = part.prints.fingerprints
        self._prints.bands[rows] = part.prints.bands
        self._prints.times_ms[rows] = part.prints.times_ms
        self.count += part.documents

    def rows(self) -> Rows:
        """Return a copy of the documents, which ``clear`` does not affect."""
        rows = np.arange(self.count)
        return Rows(self._sequences[rows], self._slots[rows], self._prints.take(rows))

    def clear(self) -> None:
        self.count = 0
