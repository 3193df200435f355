"""The latest duplicates, as ``GET /api/duplicates`` lists them, and one of them with its texts.

Beside them the latest dead letters, as ``GET /api/dead-letters`` lists them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.rejections import RejectionReason
from simhash_core.verdicts import Method
from streams.documents.raw_documents import DocumentReader
from streams.documents.timestamps import format_rfc3339
from streams.offline.pages.text_differences import Piece, side_by_side
from streams.ops_page.check_answer import Position
from streams.ops_page.recent_documents import RecentDocuments, RecentDuplicate
from streams.ops_page.text_check import position_of

DUPLICATES_SCHEMA: Final = "firstseen.recent-duplicates/2"
DEAD_LETTERS_SCHEMA: Final = "firstseen.recent-dead-letters/1"

_EXCERPT_CHARACTERS: Final = 120


class DuplicateView(msgspec.Struct, frozen=True):
    """A duplicate and why it is one.

    ``number`` counts those of this worker, from 1. ``excerpt``: how its text begins, where it is
    kept.
    """

    number: int
    decided: str
    id: str
    source: Position
    original_id: str
    original: Position
    distance: int
    bits: int
    block: int | None
    agreement: float | None
    method: Method
    reason: str
    excerpt: str


class DuplicateList(msgspec.Struct, frozen=True):
    """The latest, the last one first."""

    duplicates: list[DuplicateView]
    schema: str = DUPLICATES_SCHEMA


class DeadLetterView(msgspec.Struct, frozen=True):
    """A dead letter. ``excerpt``: how its value begins."""

    decided: str
    source: Position
    reason: RejectionReason
    detail: str
    excerpt: str


class DeadLetterList(msgspec.Struct, frozen=True):
    """The latest of each reason, those of one reason together."""

    dead_letters: list[DeadLetterView]
    schema: str = DEAD_LETTERS_SCHEMA


class DuplicateTexts(msgspec.Struct, frozen=True):
    """One with its texts side by side; ``missing`` says of which the text is not held, and why."""

    duplicate: DuplicateView
    title: str
    original_title: str
    original_text: list[Piece]
    text: list[Piece]
    missing: str | None


class DuplicateViews:
    """Makes views of what was kept."""

    def __init__(
        self, recent: RecentDocuments, reader: DocumentReader, scheme: BlockScheme
    ) -> None:
        """``reader`` reads records as the worker does; it has no state."""
        self._recent = recent
        self._reader = reader
        self._scheme = scheme

    def latest(self) -> DuplicateList:
        """Return all that are kept, without texts."""
        return DuplicateList([self._view(each) for each in self._recent.duplicates()])

    def dead_letters(self) -> DeadLetterList:
        """Return the dead letters that are kept."""
        return DeadLetterList(
            [
                DeadLetterView(
                    format_rfc3339(each.decided_ms),
                    position_of(each.source),
                    each.reason,
                    each.detail,
                    each.excerpt,
                )
                for each in self._recent.rejections()
            ]
        )

    def texts(self, number: int) -> DuplicateTexts | None:
        """Return one with its texts; None where it is no longer kept."""
        recent = self._recent.duplicate(number)
        if recent is None:
            return None
        view = self._view(recent)
        original = self._document(recent.verdict.original, recent.original)
        document = self._document(recent.source, recent.record)
        shown = side_by_side(original.text if original else "", document.text if document else "")
        return DuplicateTexts(
            duplicate=view,
            title=document.title if document else "",
            original_title=original.title if original else "",
            original_text=shown.left if original else [],
            text=shown.right if document else [],
            missing=_missing(original, document),
        )

    def text_of(self, source: SourcePosition) -> str | None:
        """Return the text of a document that was put out as unique lately, where it is kept."""
        document = self._document(source, self._recent.record(source))
        return None if document is None else document.text

    def _document(self, source: SourcePosition, record: RawRecord | None) -> Document | None:
        read = None if record is None else self._reader.read(source, record)
        return read if isinstance(read, Document) else None

    def _view(self, recent: RecentDuplicate) -> DuplicateView:
        verdict = recent.verdict
        return DuplicateView(
            number=recent.number,
            decided=format_rfc3339(recent.decided_ms),
            id=recent.document_id,
            source=position_of(recent.source),
            original_id=verdict.original_id,
            original=position_of(verdict.original),
            distance=verdict.distance,
            bits=self._scheme.bits,
            block=verdict.block,
            agreement=None if verdict.agreement is None else round(verdict.agreement, 6),
            method=verdict.method,
            reason=self._reason(recent),
            excerpt=self._excerpt(recent),
        )

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
    """Return which texts cannot be shown, and why."""
    if original is not None and document is not None:
        return None
    both = original is None and document is None
    which = "neither text is" if both else "this text is not"
    if not both and original is None:
        which = "the original's text is not"
    return (
        f"{which} held by this worker: it keeps those that it put out lately, as far as "
        "web.recent_bytes allows. The source position says where the record is"
    )
