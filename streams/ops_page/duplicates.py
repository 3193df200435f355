"""The latest duplicates and dead letters of a worker, for the ops page."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.verdicts import DuplicateOf, Method, Rejection, RejectionReason
from streams.documents.output_records import PositionValue
from streams.documents.raw_documents import DocumentReader, record_bytes
from streams.documents.timestamps import format_rfc3339
from streams.offline.pages.text_differences import side_by_side
from streams.worker.fingerprint import PendingRecord

# ---- A memory of the latest duplicates, dead letters and unique documents.
#
# Index entries have no texts. To show a duplicate beside its original, unique records are kept for
# a while, within a memory limit. Those that duplicates name are kept longest.

DUPLICATES_LIMIT: Final = 50
REJECTIONS_LIMIT: Final = 3  # dead letters that are kept for each reason
_EXCERPT_BYTES: Final = 240

_OVERHEAD_BYTES: Final = 400  # approximate memory of a kept record, beside its bytes
_LARGEST_SHARE: Final = 128
"""A record above this part of the limit is not kept, so that all duplicates fit."""


class RecentDuplicate(NamedTuple):
    """A duplicate with both records, if they were kept; ``number`` counts from 1."""

    number: int
    decided_ms: int
    source: SourcePosition
    document_id: str
    verdict: DuplicateOf
    record: RawRecord | None
    original: RawRecord | None


class DeadLetterView(msgspec.Struct, frozen=True):
    """A dead letter, as it is shown; ``excerpt`` is of the record's value."""

    decided: str
    source: PositionValue
    reason: RejectionReason
    detail: str
    excerpt: str


class Held(msgspec.Struct, frozen=True):
    """The kept documents; ``duplicates`` and ``dead_letters`` count all that were ever noted."""

    documents: int
    size_bytes: int
    limit_bytes: int
    duplicates: int
    dead_letters: int


class RecentDocuments:
    """Written by the worker and read by its pages; thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        """Keep up to ``limit_bytes`` of records; with 0, keep only verdicts."""
        self._limit_bytes = limit_bytes
        self._records: OrderedDict[SourcePosition, RawRecord] = OrderedDict()
        self._records_bytes = 0
        self._duplicates: deque[RecentDuplicate] = deque()
        self._duplicates_bytes = 0
        self._count = 0
        self._rejections: dict[RejectionReason, deque[DeadLetterView]] = {}
        self._rejections_count = 0
        self._lock = threading.Lock()

    def note(self, decided: Iterable[PendingRecord], now_ms: int) -> None:
        """Add documents with their verdicts, after the commit of their outputs."""
        with self._lock:
            for each in decided:
                if isinstance(each.verdict, DuplicateOf):
                    self._add_duplicate(each, each.verdict, now_ms)
                else:
                    self._keep(each.source, each.record)

    def note_rejections(self, rejections: Iterable[Rejection], now_ms: int) -> None:
        decided = format_rfc3339(now_ms)
        with self._lock:
            for each in rejections:
                kept = self._rejections.setdefault(each.reason, deque(maxlen=REJECTIONS_LIMIT))
                source, excerpt = PositionValue.of(each.source), self._excerpt(each.record)
                kept.append(DeadLetterView(decided, source, each.reason, each.detail, excerpt))
                self._rejections_count += 1

    def rejections(self) -> list[DeadLetterView]:
        with self._lock:
            return [each for kept in self._rejections.values() for each in reversed(kept)]

    def duplicates(self) -> list[RecentDuplicate]:
        with self._lock:
            return list(reversed(self._duplicates))

    def duplicate(self, number: int) -> RecentDuplicate | None:
        with self._lock:
            return next((each for each in self._duplicates if each.number == number), None)

    def record(self, source: SourcePosition) -> RawRecord | None:
        """Return a recent unique record, or None."""
        with self._lock:
            return self._records.get(source)

    def held(self) -> Held:
        with self._lock:
            return Held(
                len(self._records),
                self._records_bytes + self._duplicates_bytes,
                self._limit_bytes,
                self._count,
                self._rejections_count,
            )

    def _excerpt(self, record: RawRecord) -> str:
        if not self._limit_bytes or record.value is None:
            return ""
        return record.value[:_EXCERPT_BYTES].decode("utf-8", "replace")

    def _keep(self, source: SourcePosition, record: RawRecord) -> None:
        if source not in self._records and self._fits(record):
            self._records[source] = record
            self._records_bytes += _size_of(record)
            self._make_room()

    def _add_duplicate(self, decided: PendingRecord, verdict: DuplicateOf, now_ms: int) -> None:
        original = self._records.get(verdict.original)
        if original is not None:
            self._records.move_to_end(verdict.original)
        record = decided.record if self._fits(decided.record) else None
        self._count += 1
        duplicate = RecentDuplicate(
            self._count, now_ms, decided.source, decided.document_id, verdict, record, original
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
        """Drop the records that were output, or named by a duplicate, longest ago."""
        while self._records and self._records_bytes + self._duplicates_bytes > self._limit_bytes:
            _, oldest = self._records.popitem(last=False)
            self._records_bytes -= _size_of(oldest)


def _size_of(record: RawRecord | None) -> int:
    return 0 if record is None else record_bytes(record) + _OVERHEAD_BYTES


# ---- Their JSON for ``GET /api/duplicates`` and ``GET /api/dead-letters``.

DUPLICATES_SCHEMA: Final = "firstseen.recent-duplicates/2"
DEAD_LETTERS_SCHEMA: Final = "firstseen.recent-dead-letters/1"

_EXCERPT_CHARACTERS: Final = 120


JsonObject: TypeAlias = dict[str, object]


class DuplicateViews:
    def __init__(
        self, recent: RecentDocuments, reader: DocumentReader, scheme: BlockScheme
    ) -> None:
        """``reader`` reads records as the worker does; it has no state."""
        self._recent = recent
        self._reader = reader
        self._scheme = scheme

    def latest(self) -> JsonObject:
        views = [self._view(each) for each in self._recent.duplicates()]
        return {"duplicates": views, "schema": DUPLICATES_SCHEMA}

    def dead_letters(self) -> JsonObject:
        return {"dead_letters": self._recent.rejections(), "schema": DEAD_LETTERS_SCHEMA}

    def texts(self, number: int) -> JsonObject | None:
        """Return a duplicate with its texts, or None if it is not kept any more."""
        recent = self._recent.duplicate(number)
        if recent is None:
            return None
        original = self._document(recent.verdict.original, recent.original)
        document = self._document(recent.source, recent.record)
        shown = side_by_side(original.text if original else "", document.text if document else "")
        return {
            "duplicate": self._view(recent),
            "title": document.title if document else "",
            "original_title": original.title if original else "",
            "original_text": shown.left if original else [],
            "text": shown.right if document else [],
            "missing": _missing(original, document),
        }

    def text_of(self, source: SourcePosition) -> str | None:
        """Return the text of a recent unique document, or None."""
        document = self._document(source, self._recent.record(source))
        return None if document is None else document.text

    def _document(self, source: SourcePosition, record: RawRecord | None) -> Document | None:
        read = None if record is None else self._reader.read(source, record)
        return read if isinstance(read, Document) else None

    def _view(self, recent: RecentDuplicate) -> JsonObject:
        verdict = recent.verdict
        return {
            "number": recent.number,  # counts this worker's duplicates
            "decided": format_rfc3339(recent.decided_ms),
            "id": recent.document_id,
            "source": PositionValue.of(recent.source),
            "original_id": verdict.original_id,
            "original": PositionValue.of(verdict.original),
            "distance": verdict.distance,
            "bits": self._scheme.bits,
            "block": verdict.block,
            "agreement": None if verdict.agreement is None else round(verdict.agreement, 6),
            "method": verdict.method,
            "reason": self._reason(recent),
            "excerpt": self._excerpt(recent),
        }

    def _excerpt(self, recent: RecentDuplicate) -> str:
        document = self._document(recent.source, recent.record)
        if document is None:
            return ""
        words = " ".join(document.text[: 2 * _EXCERPT_CHARACTERS].split())
        return f"{words[:_EXCERPT_CHARACTERS]}…" if len(words) > _EXCERPT_CHARACTERS else words

    def _reason(self, recent: RecentDuplicate) -> str:
        verdict = recent.verdict
        if verdict.method is Method.EXACT:
            return "the same text after normalisation"
        bits = "1 bit differs" if verdict.distance == 1 else f"{verdict.distance} bits differ"
        reason = f"{bits} of {self._scheme.bits}"
        if verdict.block is not None:
            reason += f", {self._scheme.bucket_name(verdict.block)} is equal"
        if verdict.agreement is None:
            return reason
        return f"{reason}, text overlap about {verdict.agreement:.0%}"


def _missing(original: Document | None, document: Document | None) -> str | None:
    """Return which text is not kept, and why."""
    if original and document:
        return None
    which = "the original's text is not" if document else "this text is not"
    if not (original or document):
        which = "neither text is"
    return (
        f"{which} held by this worker: it keeps only the texts of its latest outputs, within "
        "web.recent_bytes. The source position shows where the record is"
    )
