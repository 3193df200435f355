"""A segment as the index keeps it: with a mask of the rows that nobody is to see any more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhash_core.index.segment import Segment


class KeptSegment:
    """A segment, and which of its rows are hidden.

    ``slot``: of all its rows, for one that was attached; None: it was made here.
    """

    def __init__(self, segment: Segment, slot: int | None = None) -> None:
        self.segment = segment
        self.slot = slot
        self.hidden: NDArray[np.bool_] | None = None
        self.left = len(segment)
        self._slots: set[int] | None = None if slot is None else {slot}

    def slots(self) -> set[int]:
        """Return the slots that rows have."""
        if self._slots is None:
            self._slots = set(np.unique(self.segment.slots).tolist())
        return self._slots

    def hide(self, rows: NDArray[np.intp]) -> int:
        """Hide rows; return how many were not."""
        if not len(rows):
            return 0
        if self.hidden is None:
            self.hidden = np.zeros(len(self.segment), dtype=np.bool_)
        fresh = np.unique(rows[~self.hidden[rows]])
        self.hidden[fresh] = True
        self.left -= len(fresh)
        return len(fresh)

    def shown(self, rows: NDArray[np.intp] | NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Return which of some rows are not hidden."""
        if self.hidden is None:
            return np.ones(len(rows), dtype=np.bool_)
        shown: NDArray[np.bool_] = ~self.hidden[rows]
        return shown
