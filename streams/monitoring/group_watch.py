"""The whole group beside this worker: who else works, where their pages are, what they put out.

The broker is queried only while somebody looks at a page: then every few seconds, in the thread
of the watch.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from streams.monitoring.worker_notes import WorkerNote, decode_note
from streams.topics.group_state import GroupState, Member

EVERY_SECONDS: Final = 5.0
_WANTED_SECONDS: Final = 30.0


class Reader(Protocol):
    """Asks the broker."""

    def read(self) -> GroupState:
        """Return the state of the group now; raises ``BrokerUnavailableError``."""
        ...


class GroupWorker(NamedTuple):
    """One worker of the group.

    ``host``: "" where the broker did not say. ``note``: its last; None before its first commit.
    """

    name: str
    host: str
    partitions: tuple[int, ...]
    note: WorkerNote | None


class Group(NamedTuple):
    """The group as it was ``age_seconds`` ago.

    ``described``: whether the broker named the members; else they are those with committed
    offsets, of whom some may have gone. ``documents``: the sum of the workers' own counts.
    """

    age_seconds: float
    described: bool
    partitions: int
    lag: int | None
    workers: list[GroupWorker]
    documents: dict[str, int]


class GroupWatch:
    """Refreshed in one thread, read in any."""

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        """``reader`` is called in the thread that calls ``refresh``."""
        self._reader = reader
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted_at: float | None = None
        self._read_at: float | None = None
        self._state: GroupState | None = None

    def group(self) -> Group | None:
        """Return what is known, and have it kept fresh for a while; None before the first."""
        with self._lock:
            now = self._wanted_at = self._clock()
            state, read_at = self._state, self._read_at
        if state is None or read_at is None:
            return None
        return _group(state, now - read_at)

    def refresh(self) -> None:
        """Ask the broker where it is time to. Raises ``BrokerUnavailableError``."""
        now = self._clock()
        with self._lock:
            wanted = self._wanted_at is not None and now - self._wanted_at < _WANTED_SECONDS
            fresh = self._read_at is not None and now - self._read_at < EVERY_SECONDS
        if not wanted or fresh:
            return
        state = self._reader.read()
        with self._lock:
            self._state, self._read_at = state, self._clock()


def _age(note: WorkerNote) -> tuple[int, int]:
    """Order the notes of a worker; two of one millisecond by what they count."""
    return note.at_ms, sum(note.documents.values())


def _group(state: GroupState, age_seconds: float) -> Group:
    notes: dict[str, WorkerNote] = {}
    owned: dict[str, list[int]] = {}
    for partition, text in sorted(state.notes.items()):
        note = decode_note(text)
        if note is not None:
            owned.setdefault(note.worker, []).append(partition)
            notes[note.worker] = max(note, notes.get(note.worker, note), key=_age)
    members = state.members
    if members is None:
        members = [Member(name, "", tuple(partitions)) for name, partitions in owned.items()]
    workers = [GroupWorker(*member, notes.get(member.name)) for member in members]
    workers.sort(key=lambda each: (each.partitions or (state.partitions,), each.name))
    documents: Counter[str] = Counter()
    for worker in workers:
        documents.update(worker.note.documents if worker.note else {})
    return Group(
        age_seconds,
        state.members is not None,
        state.partitions,
        state.lag,
        workers,
        dict(documents),
    )
