"""The latest duplicates and dead letters of a worker, and documents that it put out lately.

Entries of the index hold no texts. So that a duplicate can be shown beside its original, records
that were put out as unique are kept for a while, those that duplicates name the longest. All of it
stays within a limit of memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.verdicts import DuplicateOf, Verdict
from streams.documents.raw_documents import record_bytes
from streams.output.verdict_headers import Arrival

DUPLICATES_LIMIT: Final = 50
REJECTIONS_LIMIT: Final = 3
"""Dead letters that are kept of each reason."""

_EXCERPT_BYTES: Final = 240

_OVERHEAD_BYTES: Final = 400
"""Memory of a record that is kept, beside its bytes, roughly."""

_LARGEST_SHARE: Final = 128
"""A record above this part of the limit is not kept, so all duplicates with both records fit."""


class RecentDuplicate(NamedTuple):
    """A duplicate and, where they were kept, both records. ``number`` counts from 1."""

    number: int
    decided_ms: int
    source: SourcePosition
    document_id: str
    verdict: DuplicateOf
    record: RawRecord | None
    original: RawRecord | None


class RecentRejection(NamedTuple):
    """A dead letter. ``excerpt``: how its value begins, whatever its bytes are."""

    decided_ms: int
    source: SourcePosition
    reason: RejectionReason
    detail: str
    excerpt: str


class Held(msgspec.Struct, frozen=True):
    """How much is kept; ``duplicates`` and ``dead_letters`` are all that were ever noted."""

    documents: int
    size_bytes: int
    limit_bytes: int
    duplicates: int
    dead_letters: int


class RecentDocuments:
    """Filled as a worker puts out, read by its pages; both from any thread."""

    def __init__(self, limit_bytes: int) -> None:
        """Keep records of up to ``limit_bytes``; with 0, no records, only verdicts."""
        self._limit_bytes = limit_bytes
        self._records: OrderedDict[SourcePosition, RawRecord] = OrderedDict()
        self._records_bytes = 0
        self._duplicates: deque[RecentDuplicate] = deque()
        self._duplicates_bytes = 0
        self._count = 0
        self._rejections: dict[RejectionReason, deque[RecentRejection]] = {}
        self._rejections_count = 0
        self._lock = threading.Lock()

    def note(self, decided: Iterable[tuple[Arrival, Verdict]], now_ms: int) -> None:
        """Take in documents and their verdicts, once their outputs are committed."""
        with self._lock:
            for arrival, verdict in decided:
                if isinstance(verdict, DuplicateOf):
                    self._add_duplicate(arrival, verdict, now_ms)
                else:
                    self._keep(arrival.source, arrival.record)

    def note_rejections(self, rejections: Iterable[Rejection], now_ms: int) -> None:
        """Take in dead letters; the latest of each reason are kept."""
        with self._lock:
            for each in rejections:
                kept = self._rejections.setdefault(each.reason, deque(maxlen=REJECTIONS_LIMIT))
                excerpt = self._excerpt(each.record)
                kept.append(RecentRejection(now_ms, each.source, each.reason, each.detail, excerpt))
                self._rejections_count += 1

    def rejections(self) -> list[RecentRejection]:
        """Return the latest dead letters, those of one reason together, the last one first."""
        with self._lock:
            return [each for kept in self._rejections.values() for each in reversed(kept)]

    def duplicates(self) -> list[RecentDuplicate]:
        """Return the latest duplicates, the last one first."""
        with self._lock:
            return list(reversed(self._duplicates))

    def duplicate(self, number: int) -> RecentDuplicate | None:
        """Return one of them; None where it is no longer kept."""
        with self._lock:
            return next((each for each in self._duplicates if each.number == number), None)

    def record(self, source: SourcePosition) -> RawRecord | None:
        """Return a record that was put out as unique lately; None where it is not kept."""
        with self._lock:
            return self._records.get(source)

    def held(self) -> Held:
        """Return how much is kept."""
        with self._lock:
            return Held(
                len(self._records),
                self._records_bytes + self._duplicates_bytes,
                self._limit_bytes,
                self._count,
                self._rejections_count,
            )

    def _excerpt(self, record: RawRecord) -> str:
        """Return how a value begins; nothing where no texts are to be kept."""
        if not self._limit_bytes or record.value is None:
            return ""
        return record.value[:_EXCERPT_BYTES].decode("utf-8", "replace")

    def _keep(self, source: SourcePosition, record: RawRecord) -> None:
        if source not in self._records and self._fits(record):
            self._records[source] = record
            self._records_bytes += _size_of(record)
            self._make_room()

    def _add_duplicate(self, arrival: Arrival, verdict: DuplicateOf, now_ms: int) -> None:
        original = self._records.get(verdict.original)
        if original is not None:
            self._records.move_to_end(verdict.original)
        record = arrival.record if self._fits(arrival.record) else None
        self._count += 1
        duplicate = RecentDuplicate(
            self._count, now_ms, arrival.source, arrival.document_id, verdict, record, original
        )
        self._duplicates.append(duplicate)
        self._duplicates_bytes += _size_of(record) + _size_of(original)
        if len(self._duplicates) > DUPLICATES_LIMIT:
            oldest = self._duplicates.popleft()
            self._duplicates_bytes -= _size_of(oldest.record) + _size_of(oldest.original)
        self._make_room()

    def _fits(self, record: RawRecord) -> bool:
        return _size_of(record) <= self._limit_bytes // _LARGEST_SHARE

    def _make_room(self) -> None:
        """Forget the records that were put out, or named, longest ago."""
        while self._records and self._records_bytes + self._duplicates_bytes > self._limit_bytes:
            _, oldest = self._records.popitem(last=False)
            self._records_bytes -= _size_of(oldest)


def _size_of(record: RawRecord | None) -> int:
    return 0 if record is None else record_bytes(record) + _OVERHEAD_BYTES
