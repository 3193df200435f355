"""What everybody who reads the log knows of it: the undecided packets and the chain of control.

Every worker reads the whole log from some position on. What it concludes depends on nothing else,
so all conclude the same.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from simhash_core.log.log_clock import Horizons, LogClock
from simhash_core.log.packets import Heads, Packet
from simhash_core.log.records import NO_CONTROL, Control, Decision, LogRecord, Query
from simhash_core.log.sequence import sequence_number


class Decided(NamedTuple):
    """A packet or query with what the log says of it."""

    offset: int
    item: Packet | Query
    decision: Decision


class Heeded(NamedTuple):
    """A control record that continues the chain, and what it decides of what was read here."""

    offset: int
    control: Control
    decided: list[Decided]


class Replica:
    """The state of one reader of the log."""

    def __init__(self, position: int, control: int, horizons: Horizons | None = None) -> None:
        """Begin to read at ``position``, where the control record at ``control`` is in force.

        That control record is read first: ``start`` is where reading begins. ``horizons``: as they
        are there; None where nothing expires.
        """
        self.position = position if control == NO_CONTROL else min(control, position)
        self.start = self.position
        self.control = NO_CONTROL
        self.latest: Control | None = None
        self.undecided: dict[int, Packet | Query] = {}
        self._awaited = control
        self._heeded: list[int] = []
        self._horizons = Horizons(None) if horizons is None else horizons

    def read(self, offset: int, record: LogRecord, appended_ms: int = 0) -> Heeded | None:
        """Take in the next record of the log; return the control record if it is to be heeded.

        ``appended_ms``: when the log took it in.
        """
        self.position = offset + 1
        if not isinstance(record, Control):
            self.undecided[offset] = record
            if isinstance(record, Packet):
                self._horizons.packet(offset, record.columns, appended_ms)
            return None
        if offset == self._awaited:
            self._awaited = NO_CONTROL
        elif self._awaited != NO_CONTROL or record.previous != self.control:
            return None  # of a leader that has a successor
        self.control, self.latest = offset, record
        self._heeded.append(offset)
        decided = []
        for decision in record.decisions:
            item = self.undecided.pop(decision.offset, None)
            if item is not None:  # else it was decided before this reader's position
                decided.append(Decided(decision.offset, item, decision))
        return Heeded(offset, record, decided)

    def skip(self, offset: int) -> None:
        """Pass over a record that is not of this index."""
        self.position = offset + 1

    @property
    def decided_before(self) -> int:
        """Everything before this offset of the log is decided."""
        return self.start if self.latest is None else self.latest.next

    @property
    def heads(self) -> Heads | None:
        """The heads of all chains where the undecided begins.

        None while they are not known: the latest control record is older than ``start``.
        """
        if self.latest is None or self.latest.next < self.start:
            return None
        return Heads(self.latest.heads)

    def control_before(self, position: int) -> int:
        """Return the last heeded control record before ``position``.

        ``NO_CONTROL`` where there is none; known from ``start`` on.
        """
        at = bisect_left(self._heeded, position)
        return self._heeded[at - 1] if at else NO_CONTROL

    def expired_for(self, offset: int) -> int:
        """Return what has expired for a packet or query: all before this sequence number."""
        return sequence_number(self._horizons.at(offset), 0)

    @property
    def expired(self) -> int:
        """What has expired for all that is undecided: everything before this sequence number."""
        return self.expired_for(self.decided_before - 1)

    def clock_before(self, position: int) -> LogClock | None:
        """Return the watermark of all that is before ``position``; known from ``start`` on."""
        return self._horizons.before(position)

    def forget_before(self, position: int) -> None:
        """Forget what no position at or after ``position`` needs, nor anything undecided."""
        position = min(position, self.decided_before)
        self._horizons.forget_before(position)
        at = bisect_left(self._heeded, position)
        if at > 1:
            del self._heeded[: at - 1]
