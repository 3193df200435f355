"""What has expired at each place of the log, where an index has a window.

The **watermark** of a place is the highest time of all documents up to it, each held by the time at
which the log took its packet in: a date in the future moves it no further. The watermark is cut in
slices. Two documents can be near only if the slices of their packets are at most ``SLICES`` apart,
so everything before one offset of the log has expired. ``SLICES`` slices are window and lateness
together: where the later of two documents is no later than ``lateness``, and their times are within
the window, their slices are never further apart. So this cuts off nothing but documents that come
too late, and it is a fact of two places of the log, the same for every reader.
"""

from __future__ import annotations

from bisect import bisect_left

import msgspec
import numpy as np

from simhash_core.document_columns import DocumentColumns
from simhash_core.errors import ProtocolError
from simhash_core.window import SLICES, Window


class LogClock(msgspec.Struct, frozen=True, array_like=True):
    """The watermark at a place of the log.

    ``watermark``: milliseconds. ``slices``: the number of each slice that has not expired, and the
    first offset of the log whose watermark is in it; rising.
    """

    watermark: int
    slices: list[tuple[int, int]]

    @property
    def horizon(self) -> int:
        """The offset of the log before which everything has expired."""
        return self.slices[0][1]


class Horizons:
    """The watermark at each place of the log that is of use, for one reader of it."""

    def __init__(self, window: Window | None, clock: LogClock | None = None) -> None:
        """``clock``: at the place where reading begins; None: no document is before it."""
        self._window = window
        self._offsets = [-1]
        self._clocks = [clock]

    def packet(self, offset: int, columns: DocumentColumns, appended_ms: int) -> None:
        """Take in the next packet of the log."""
        if self._window is None:
            return
        times = columns.times_ms
        if columns.operations is not None:
            times = times[columns.are_documents]
        if not len(times):
            return
        time_ms = int(np.minimum(times, appended_ms).max())
        clock = self._clocks[-1]
        if clock is not None and time_ms <= clock.watermark:
            return
        number = time_ms // self._window.slice_ms
        slices = [] if clock is None else clock.slices
        if not slices or slices[-1][0] < number:
            slices = [each for each in slices if each[0] >= number - SLICES]
            slices.append((number, offset))
        self._offsets.append(offset)
        self._clocks.append(LogClock(time_ms, slices))

    def at(self, offset: int) -> int:
        """Return what has expired for the packet or query at ``offset``: all before an offset."""
        clock = self.before(offset + 1)
        return 0 if clock is None else clock.horizon

    def before(self, offset: int) -> LogClock | None:
        """Return the watermark of everything before ``offset``; None: there is no document.

        Raises ``ProtocolError`` for a place that was forgotten.
        """
        at = bisect_left(self._offsets, offset)
        if not at:
            raise ProtocolError(f"the watermark before offset {offset} of the log was forgotten")
        return self._clocks[at - 1]

    def forget_before(self, offset: int) -> None:
        """Forget what only places before ``offset`` need."""
        kept = bisect_left(self._offsets, offset) - 1
        if kept > 0:
            del self._offsets[:kept], self._clocks[:kept]
