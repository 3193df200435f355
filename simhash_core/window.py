"""The window of an index: near are only documents whose times are within it."""

from __future__ import annotations

from typing import Final, NamedTuple

SLICES: Final = 16
"""Documents expire a sixteenth of window and lateness later than they could."""


class Window(NamedTuple):
    """``window_ms``: how far apart the times of near documents are, at most.

    ``lateness_ms``: how far behind the watermark a document may come.
    """

    window_ms: int
    lateness_ms: int

    @property
    def slice_ms(self) -> int:
        """The length of a slice."""
        return max(1, -(-(self.window_ms + self.lateness_ms) // SLICES))
