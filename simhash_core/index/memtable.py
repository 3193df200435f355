"""New documents of an index, not sorted yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rows(NamedTuple):
    """Documents: arrays as of ``Segment``."""

    sequences: NDArray[np.uint64]
    slots: NDArray[np.uint16]
    fingerprints: NDArray[np.uint64]

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.sequences)

    def rows(self, kept: slice | NDArray[np.bool_]) -> Rows:
        """Return some of the documents."""
        return Rows(self.sequences[kept], self.slots[kept], self.fingerprints[kept])

    def live(self, live: NDArray[np.bool_]) -> Rows:
        """Return the documents of slots that are open; ``live``: bool (slots,)."""
        return self.rows(live[self.slots])


class Memtable:
    """Documents in arrays with room for more."""

    def __init__(self, words: int, capacity: int) -> None:
        """``words``: bits of a fingerprint / 64. ``capacity``: documents."""
        self.count = 0
        self._sequences = np.empty(capacity, dtype=np.uint64)
        self._slots = np.empty(capacity, dtype=np.uint16)
        self._fingerprints = np.empty((capacity, words), dtype=np.uint64)

    def append(self, part: Rows) -> None:
        """Add documents, for which there is room."""
        rows = slice(self.count, self.count + len(part))
        self._sequences[rows] = part.sequences
        self._slots[rows] = part.slots
        self._fingerprints[rows] = part.fingerprints
        self.count += len(part)

    def rows(self) -> Rows:
        """Return a copy of the documents: what is cleared here stays there."""
        rows = slice(0, self.count)
        return Rows(
            self._sequences[rows].copy(), self._slots[rows].copy(), self._fingerprints[rows].copy()
        )

    def clear(self) -> None:
        """Forget all documents."""
        self.count = 0


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the documents of all parts, in order; there is one part at least."""
    return Rows(*map(np.concatenate, zip(*parts, strict=True)))
