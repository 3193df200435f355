"""The whole group of workers; the broker is asked only while somebody looks at a page."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from streams.topics.consumer_group import GroupState, Member

# ---- The note that a worker commits with its offsets, so that the other workers can show it.
#
# Kafka keeps a text, the metadata, with each committed offset. It is committed with the outputs
# that it counts, so the figures are exact; and one request reads the texts of all workers.

METADATA_BYTES_LIMIT: Final = 2048
"""A broker accepts 4,096 bytes (``offset.metadata.max.bytes``) by default."""

_MILLISECONDS: Final = 1000


class OffsetMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    worker: str
    since_ms: int
    at_ms: int  # of the commit
    documents: dict[str, int] = {}  # outputs since ``since_ms``, by verdict
    page: str = ""  # the address of its ops page


class OffsetMetadataWriter:
    def __init__(self, worker: str, page: str | None) -> None:
        self._worker = worker
        self._page = page or ""
        self._since_ms = _now_ms()
        self._documents: Counter[str] = Counter()

    def note(self, documents: Mapping[str, int]) -> str:
        """Return the text for a commit of these documents, or "" where it is too long."""
        counts = {name: self._documents[name] + count for name, count in documents.items()}
        note = OffsetMetadata(
            self._worker, self._since_ms, _now_ms(), dict(self._documents) | counts, self._page
        )
        text = msgspec.json.encode(note).decode()
        return text if len(text.encode()) <= METADATA_BYTES_LIMIT else ""

    def committed(self, documents: Mapping[str, int]) -> None:
        self._documents.update(documents)


def decode_offset_metadata(text: str | None) -> OffsetMetadata | None:
    try:
        return msgspec.json.decode(text or "", type=OffsetMetadata)
    except msgspec.DecodeError:
        return None


def _now_ms() -> int:
    return int(time.time() * _MILLISECONDS)


EVERY_SECONDS: Final = 5.0
_WANTED_SECONDS: Final = 30.0


class GroupWorker(NamedTuple):
    """A worker of the group; ``note`` is None before its first commit."""

    name: str
    host: str
    partitions: tuple[int, ...]
    note: OffsetMetadata | None


class Group(NamedTuple):
    age_seconds: float
    described: bool  # otherwise the members are those with committed offsets; some may be gone
    partitions: int
    lag: int | None
    workers: list[GroupWorker]


class GroupWatch:
    def __init__(
        self, read: Callable[[], GroupState], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted_at = self._read_at = -math.inf
        self._state: GroupState | None = None

    def group(self) -> Group | None:
        """Return the last known state, and keep it fresh for a while; None before the first one.

        A state that was read for an earlier visitor is old, so a new visitor waits for the broker.
        """
        with self._lock:
            now = self._clock()
            if now - self._wanted_at >= _WANTED_SECONDS:
                self._state = None
            self._wanted_at = now
            return None if self._state is None else _group(self._state, now - self._read_at)

    def refresh(self) -> None:
        """Query the broker if the state is due for a refresh; raise ``BrokerUnavailableError``."""
        now = self._clock()
        with self._lock:
            wanted = now - self._wanted_at < _WANTED_SECONDS
            fresh = self._state is not None and now - self._read_at < EVERY_SECONDS
        if not wanted or fresh:
            return
        state = self._read()
        with self._lock:
            self._state, self._read_at = state, self._clock()


def _age(note: OffsetMetadata) -> tuple[int, int]:
    """Return a key that orders notes by time; in one millisecond, by number of documents."""
    return note.at_ms, sum(note.documents.values())


def _group(state: GroupState, age_seconds: float) -> Group:
    notes: dict[str, OffsetMetadata] = {}
    owned: dict[str, list[int]] = {}
    for partition, text in sorted(state.notes.items()):
        note = decode_offset_metadata(text)
        if note is not None:
            owned.setdefault(note.worker, []).append(partition)
            notes[note.worker] = max(note, notes.get(note.worker, note), key=_age)
    members = state.members
    if members is None:
        members = [Member(name, "", tuple(partitions)) for name, partitions in owned.items()]
    workers = [GroupWorker(*member, notes.get(member.name)) for member in members]
    workers.sort(key=lambda each: (each.partitions or (state.partitions,), each.name))
    return Group(age_seconds, state.members is not None, state.partitions, state.lag, workers)
