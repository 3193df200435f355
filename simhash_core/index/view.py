"""Which entries a packet may match: those that are still there at its offset in the log.

An index is looked up in before all that precedes a packet is decided. Whether an entry that it has
will have been taken out or have expired by then is known all the same: the log says it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

_NONE: Final[Mapping[bytes, int]] = MappingProxyType({})
_NO_ROWS: Final[Mapping[bytes, Sequence[int]]] = MappingProxyType({})


class View(NamedTuple):
    """What a packet or query sees of an index.

    ``first``: the sequence number of its own row 0. ``expired_before``: sequence number; entries
    before it have expired. ``removed``: ids that undecided packets take out, with the sequence
    number of the first row that does; the index may still have them. ``removing``: ids that its own
    rows take out, with these rows, rising.
    """

    first: int
    expired_before: int = 0
    removed: Mapping[bytes, int] = _NONE
    removing: Mapping[bytes, Sequence[int]] = _NO_ROWS

    def hides(self, row: int, sequence: int, document_id: str) -> bool:
        """Return whether the entry at ``sequence`` is not there any more for a row."""
        if sequence < self.expired_before:
            return True
        if not self.removed and not self.removing:
            return False
        name = document_id.encode()
        if self.removed.get(name, self.first) < self.first:
            return True
        own = sequence - self.first
        return any(own < each <= row for each in self.removing.get(name, ()))


WHOLE: Final = View(0)
"""Of a packet before which nothing was taken out, in an index where nothing expires."""
