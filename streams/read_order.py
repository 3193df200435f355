"""What follows what in a partition's log, and which of the records that arrive continue it.

Offsets of records that follow each other may have gaps: the ends of transactions, and what
compaction removed, have offsets too. So a gap says nothing by itself; whoever fetched the two
records knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

Place = tuple[str, int]
"""A topic and a partition of it."""

BEGINS_ANEW: Final = -1
"""Stands for what a record follows whose partition was deleted and made again."""


class Standing(NamedTuple):
    """Where the group stands in a partition, None where it has no offset, and its log's ends."""

    committed: int | None
    earliest: int
    end: int


class ReadOrder:
    """Notes what each fetched record follows.

    Written by the consumer's thread and read by the event loop: single operations on dictionaries.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._began: dict[Place, int] = {}
        self._reached: dict[Place, int] = {}
        self._after: dict[Place, int] = {}
        self._gaps: dict[Place, dict[int, int]] = {}

    def fetched(self, place: Place, offsets: Sequence[int]) -> bool:
        """Note records that one fetch brought, in order; they follow those of the fetch before.

        Return whether offsets turned back, though nobody sought.
        """
        after = self._after.get(place)
        if after is None and offsets:
            self._began[place] = offsets[0]
        gaps = self._gaps.setdefault(place, {})
        turned_back = False
        for offset in offsets:
            if after is not None and offset < after:
                gaps[offset] = BEGINS_ANEW
                turned_back = True
            elif after is not None and offset > after:
                gaps[offset] = after
            after = offset + 1
        if after is not None:
            self._after[place] = after
        return turned_back

    def restarted(self, place: Place, offset: int) -> None:
        """Note that the next fetch begins at ``offset``."""
        self._after[place] = self._began[place] = self._reached[place] = offset
        self._gaps.pop(place, None)

    def forget(self) -> None:
        """Note that nobody knows where the next fetches begin."""
        self._after.clear()
        self._began.clear()
        self._reached.clear()

    def reached(self, place: Place, offset: int) -> None:
        """Note where the next fetch begins: behind the records, and behind what has none.

        Ends of transactions and aborted records have offsets too, and are handed to nobody.
        """
        self._reached[place] = offset

    def done(self, place: Place, passed: int | None) -> int | None:
        """Return up to where a partition is done of which all records before ``passed`` are.

        None where nothing is known of it.
        """
        after, reached = self._after.get(place), self._reached.get(place)
        if after is None or (passed is not None and passed >= after):
            known = [offset for offset in (passed, reached) if offset is not None]
            return max(known, default=None)
        return self._began.get(place) if passed is None else passed

    def drained(self) -> dict[Place, int]:
        """Return the offsets behind the last record that was fetched of each partition."""
        return dict(self._after)

    def follows(self, place: Place, offset: int) -> int:
        """Return the least offset from which on no record stands before the one at ``offset``.

        ``offset`` itself where nothing is known, ``BEGINS_ANEW`` for the first of a new log.
        """
        return self._gaps.get(place, {}).get(offset, offset)

    def passed(self, place: Place, offset: int) -> None:
        """Forget the gaps before ``offset``, which nobody will ask for again."""
        gaps = self._gaps.get(place, {})
        for known in list(gaps):
            if known < offset:
                gaps.pop(known, None)


class Continuation(NamedTuple):
    """Which of the records that arrived are to be processed.

    ``accepted``: their indices; ``next_offset``: where the partition stands after them; ``hole``:
    whether one came that did not follow, so that records were lost on the way.
    """

    accepted: list[int]
    next_offset: int
    hole: bool


def continuing(next_offset: int, arrivals: Iterable[tuple[int, int]]) -> Continuation:
    """Choose the records that continue a partition in which ``next_offset`` is next.

    ``arrivals``: of each record its offset, and what it follows. Repeated ones are left out, and so
    is everything from a hole on, until the missing ones have come.
    """
    accepted: list[int] = []
    hole = False
    for index, (offset, follows) in enumerate(arrivals):
        if follows == BEGINS_ANEW or follows <= next_offset <= offset:
            accepted.append(index)
            next_offset = offset + 1
            hole = False
        elif offset > next_offset:
            hole = True
    return Continuation(accepted, next_offset, hole)
