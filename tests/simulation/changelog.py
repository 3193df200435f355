"""The changelog of one shard, with compaction, and a disk that follows it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simhash_core.entries import Change, Progress, PutEntry, PutParked, PutPending
from tests.simulation.protocol import ChangelogWriting


@dataclass(frozen=True, slots=True)
class Journal:
    """A whole batch in one record, where there are no transactions."""

    changes: tuple[Change, ...]


class LoggedChange(NamedTuple):
    """A record of the changelog, at its offset."""

    offset: int
    change: Change | Journal


def key_of(change: Change | Journal) -> Hashable:
    """Return the key under which compaction keeps the last change."""
    match change:
        case PutEntry(order):
            return "entry", order
        case PutPending(source):
            return "pending", source
        case PutParked(ticket):
            return "parked", ticket
        case Progress():
            return "progress"
        case Journal():
            return "journal"


def is_tombstone(change: Change | Journal) -> bool:
    """Whether the change says that there is nothing under its key."""
    match change:
        case PutPending(_, None) | PutParked(_, _, None):
            return True
        case _:
            return False


class Disk:
    """What a worker has of one shard in RocksDB: changes by key, and the offset they go up to."""

    def __init__(self) -> None:
        """Begin empty."""
        self.offset = 0
        self._state: dict[Hashable, Change] = {}

    def write(self, offset: int, changes: Iterable[Change]) -> None:
        """Apply a batch, whole, and with it the changelog offset that it ends at."""
        for change in changes:
            if is_tombstone(change):
                self._state.pop(key_of(change), None)
            else:
                self._state[key_of(change)] = change
        self.offset = offset

    def clear(self) -> None:
        """Forget everything."""
        self.offset = 0
        self._state.clear()

    def changes(self) -> list[Change]:
        """Return the changes that make this state out of nothing."""
        return list(self._state.values())


class Changelog:
    """The log of one shard's changes; ``end`` is the offset after its last record."""

    def __init__(self) -> None:
        """Begin empty."""
        self.end = 0
        self.purged = 0
        """Tombstones below this offset may be gone: a disk older than it does not learn of them."""
        self._records: list[LoggedChange] = []

    def append(self, changes: Iterable[Change | Journal]) -> None:
        """Add records at the end."""
        for change in changes:
            self._records.append(LoggedChange(self.end, change))
            self.end += 1

    def tail(self, offset: int) -> Sequence[LoggedChange]:
        """Return the records from ``offset`` on."""
        return self._records[bisect_left(self._records, offset, key=lambda record: record.offset) :]

    def tail_and_journal(self, offset: int) -> Sequence[LoggedChange]:
        """Return the records from ``offset`` on, and before them the last journal if it is older.

        What it holds may be under way again at ``offset``, after a crash that cut that short.
        """
        tail, journal = self.tail(offset), self.last_journal()
        if journal is None or any(isinstance(record.change, Journal) for record in tail):
            return tail
        return [LoggedChange(offset, journal), *tail]

    def last_journal(self) -> Journal | None:
        """Return the last batch that was written as one record, if any was."""
        changes = (record.change for record in reversed(self._records))
        return next((change for change in changes if isinstance(change, Journal)), None)

    def compact(self, end: int, *, purge: bool) -> None:
        """Keep the last record of each key below ``end``; with ``purge``, no tombstones."""
        last = {key_of(r.change): r.offset for r in self._records if r.offset < end}
        self._records = [
            record
            for record in self._records
            if record.offset >= end
            or (
                last[key_of(record.change)] == record.offset
                and not (purge and is_tombstone(record.change))
            )
        ]
        if purge:
            self.purged = max(self.purged, end)


def replay(tail: Sequence[LoggedChange], writing: ChangelogWriting) -> list[Change]:
    """Return the changes to apply; see ``ChangelogWriting`` for what comes after the last batch."""
    changes: list[Change] = []
    journal: tuple[Change, ...] = ()
    closed = 0
    for _, change in tail:
        if isinstance(change, Journal):
            journal = change.changes
            continue
        changes.append(change)
        if isinstance(change, Progress):
            closed = len(changes)
    if writing is ChangelogWriting.CLOSED_BY_PROGRESS:
        del changes[closed:]
    return [*changes, *journal]
