"""What was sent and what came out of it: every arrival must end in exactly one output."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from simhash_core.documents import SourcePosition

_NONE: Final = 0
_MANY: Final = 255


class Ledger:
    """Counts outputs by source position: a byte or two an arrival, so that millions are no matter.

    The two sides of an arrival may be noted in either order: an output can be seen before the
    acknowledgement of what it came of.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.tombstones = 0
        self.outputs = 0
        self._decided = 0
        self._open_bytes = 0
        self._sizes: dict[SourcePosition, int] = {}
        self._awaited: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._outputs: defaultdict[int, bytearray] = defaultdict(bytearray)

    @property
    def decided(self) -> int:
        """Arrivals that have ended: in an output, or as a tombstone, of which none comes."""
        return self._decided + self.tombstones

    @property
    def lost(self) -> int:
        """Arrivals without an output: until the end, those under way."""
        return self.sent - self.decided

    @property
    def repeated(self) -> int:
        """Outputs beyond one for each arrival, those of arrivals that never were among them."""
        return self.outputs - self._decided

    @property
    def open_bytes(self) -> int:
        """The bytes of arrivals without an output."""
        return self._open_bytes

    def note_sent(self, source: SourcePosition, size_bytes: int, *, is_tombstone: bool) -> None:
        """Note a record that the broker has acknowledged."""
        self.sent += 1
        if is_tombstone:
            self.tombstones += 1
            return
        _mark(self._awaited[source.partition], source.offset)
        if _marks(self._outputs[source.partition], source.offset):
            self._decided += 1
        else:
            self._sizes[source] = size_bytes
            self._open_bytes += size_bytes

    def note_output(self, source: SourcePosition) -> None:
        """Note an output that names ``source`` as what it came of."""
        self.outputs += 1
        _mark(self._outputs[source.partition], source.offset)
        is_first = _marks(self._outputs[source.partition], source.offset) == 1
        if is_first and _marks(self._awaited[source.partition], source.offset):
            self._decided += 1
            self._open_bytes -= self._sizes.pop(source)


def _mark(marks: bytearray, offset: int) -> None:
    if len(marks) <= offset:
        marks.extend(bytes(offset + 1 - len(marks)))
    marks[offset] = min(marks[offset] + 1, _MANY)


def _marks(marks: bytearray, offset: int) -> int:
    return marks[offset] if offset < len(marks) else _NONE
