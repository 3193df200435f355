"""From term codes to rows, a batch at a time: an open-addressing table in numpy arrays.

Each code has its place at its hash, or at one of the next few; there are four times as many places
as codes. What finds no place is not kept: whoever asks must have another way to the row. That
keeps every look-up within a fixed number of steps, whatever codes somebody thinks up.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

NO_ROW: Final = 0
"""What ``find`` says of a code that is not there; no code may have this row."""

Codes = NDArray[np.uint64]
Rows = NDArray[np.int64]

_STEPS_MAX: Final = 16
_PLACES_A_ROW: Final = 4
_CODE_BITS: Final = 64
# Odd numbers whose product mixes well upwards: 2⁶⁴ over the golden ratio; a prime of XXH64.
_LOW_FACTOR: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_HIGH_FACTOR: Final = np.uint64(0xC2B2_AE3D_27D4_EB4F)


class CodeIndex:
    """Codes of 128 bits, as two columns, to rows. The code (0, 0) is never found."""

    def __init__(self, rows: int) -> None:
        """Begin empty, with room for so many rows; more room is made when it is needed."""
        # The system gives memory to what is used, so room costs less than to make it later.
        self._low: Codes = np.zeros(rows, dtype=np.uint64)
        self._high: Codes = np.zeros(rows, dtype=np.uint64)
        self._places_log2 = (rows * _PLACES_A_ROW - 1).bit_length()
        self._places: NDArray[np.int32] = np.zeros(1 << self._places_log2, dtype=np.int32)

    def find(self, low: Codes, high: Codes) -> Rows:
        """Return the row of each code, ``NO_ROW`` where there is none."""
        at = self._first_places(low, high)
        rows = self._places[at].astype(np.int64)
        # Few are left after the first step, so the further ones go over these alone.
        left = np.flatnonzero(self._differ(rows, low, high))
        for step in range(1, _STEPS_MAX):
            left = left[rows[left] != NO_ROW]
            if not left.size:
                break
            rows[left] = self._places[(at[left] + step) & self._last_place]
            left = left[self._differ(rows[left], low[left], high[left])]
        rows[left] = NO_ROW
        return rows

    def add(self, low: Codes, high: Codes, rows: Rows) -> None:
        """Keep the row of each code, where there is a place for it; (0, 0) is left out.

        A code that ``find`` finds must not be added again, nor a row be given to two codes; the
        same code and row may be given several times at once.
        """
        rows, first = np.unique(rows, return_index=True)
        low, high = low[first], high[first]
        coded = (low | high) != 0
        self.add_new(low[coded], high[coded], rows[coded])

    def add_new(self, low: Codes, high: Codes, rows: Rows) -> None:
        """The same for codes other than (0, 0) and rows that ascend, each of them given once."""
        if not rows.size:
            return
        self._make_room(int(rows[-1]) + 1)
        self._low[rows], self._high[rows] = low, high
        self._place(rows)

    @property
    def _last_place(self) -> int:
        return len(self._places) - 1

    def _first_places(self, low: Codes, high: Codes) -> NDArray[np.int64]:
        mixed = (low ^ (high * _HIGH_FACTOR)) * _LOW_FACTOR
        return (mixed >> np.uint64(_CODE_BITS - self._places_log2)).astype(np.int64)

    def _differ(self, rows: Rows, low: Codes, high: Codes) -> NDArray[np.bool_]:
        differ: NDArray[np.bool_] = self._low[rows] != low
        differ |= self._high[rows] != high
        return differ

    def _make_room(self, rows: int) -> None:
        """Lengthen the columns to ``rows``; with more rows there are more places."""
        if rows > len(self._low):
            more = np.zeros(max(rows, 2 * len(self._low)) - len(self._low), dtype=np.uint64)
            self._low = np.concatenate([self._low, more])
            self._high = np.concatenate([self._high, more])
        if rows * _PLACES_A_ROW > len(self._places):
            self._places_log2 = (rows * _PLACES_A_ROW - 1).bit_length()
            self._places = np.zeros(1 << self._places_log2, dtype=np.int32)
            self._place(np.flatnonzero(self._low | self._high))

    def _place(self, rows: Rows) -> None:
        """Put rows, whose codes are in the columns, at the first free place from their hash on."""
        at = self._first_places(self._low[rows], self._high[rows])
        for _ in range(_STEPS_MAX):
            if not rows.size:
                break
            free = self._places[at] == NO_ROW
            self._places[at[free]] = rows[free]  # of several at one place the last one stays
            left = self._places[at] != rows
            rows, at = rows[left], (at[left] + 1) & self._last_place
