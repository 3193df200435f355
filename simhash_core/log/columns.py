"""Conversions between documents, columns and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import numpy as np

from simhash_core.document_columns import (
    DELETE,
    DOCUMENT,
    REASON_CODES,
    BytesColumn,
    DocumentColumns,
)
from simhash_core.documents import Document, SourcePosition, masked, scoped_digest
from simhash_core.text.fingerprinter import CONTENT_DIGEST_SIZE, Fingerprinted
from simhash_core.verdicts import (
    DuplicateOf,
    Match,
    Method,
    Undecidable,
    UndecidableReason,
    Unique,
    Verdict,
)

_CODES: Final = {reason: code for code, reason in enumerate(REASON_CODES)}
_WORD_BYTES: Final = 8

# The columns of a delete.
DELETED: Final = Fingerprinted(b"", bytes(CONTENT_DIGEST_SIZE), 0, UndecidableReason.EMPTY)

_UNIQUE: Final = Unique()
_UNDECIDABLE: Final = tuple(reason and Undecidable(reason) for reason in REASON_CODES)


def document_columns(
    documents: Sequence[Document], prints: Sequence[Fingerprinted], words: int
) -> DocumentColumns:
    """Documents of one raw partition must be in rising order of offsets; ``words`` is bits / 64."""
    count = len(documents)
    none = bytes(words * _WORD_BYTES)
    pairs = [*zip(documents, prints, strict=True)]
    fingerprints = [masked(print_.fingerprint, each.scope) or none for each, print_ in pairs]
    scopes = None
    if any(each.scope for each in documents):
        scopes = BytesColumn.of([each.scope.encode() for each in documents])
    return DocumentColumns(
        np.fromiter((each.source.offset for each in documents), np.int64, count),
        np.fromiter((each.event_time_ms for each in documents), np.int64, count),
        BytesColumn.of([each.id.encode() for each in documents]),
        _matrix([_digest(*pair) for pair in pairs], CONTENT_DIGEST_SIZE),
        _matrix(fingerprints, len(none)).view(np.uint64),
        np.fromiter((_CODES[each.undecidable] for each in prints), np.uint8, count),
        BytesColumn.of([each.sketch for each in prints]),
        scopes=scopes,
    )


def _digest(document: Document, print_: Fingerprinted) -> bytes:
    """Return the digest that a document matches by; if it must never match, no other has it."""
    digest = print_.content_digest
    if not print_.passes:
        return scoped_digest(digest, document.scope)
    key = blake2b(str(document.source).encode(), digest_size=CONTENT_DIGEST_SIZE).digest()
    return blake2b(digest, digest_size=len(digest), key=key, person=b"arrival digest").digest()


class PacketRows:
    """Documents and deletes of one raw partition, in rising order of their offsets."""

    def __init__(self, words: int) -> None:
        self._words = words
        self._documents: list[Document] = []
        self._prints: list[Fingerprinted] = []
        self._deletes: list[int] = []

    def __len__(self) -> int:
        return len(self._documents)

    def add_document(self, document: Document, fingerprinted: Fingerprinted) -> None:
        self._documents.append(document)
        self._prints.append(fingerprinted)

    def add_delete(self, source: SourcePosition, document_id: str, time_ms: int) -> None:
        self._deletes.append(len(self))
        self.add_document(Document(document_id, "", source, time_ms), DELETED)

    def columns(self) -> DocumentColumns:
        columns = document_columns(self._documents, self._prints, self._words)
        if not self._deletes:
            return columns
        operations = np.full(len(columns), DOCUMENT, dtype=np.uint8)
        operations[self._deletes] = DELETE
        return replace(columns, operations=operations)


def verdict_of(columns: DocumentColumns, row: int, match: Match | None) -> Verdict:
    if match is None:
        return _UNDECIDABLE[columns.undecidable[row]] or _UNIQUE
    return DuplicateOf(
        match.original_id,
        match.source,
        match.event_time_ms,
        match.distance,
        match.block,
        Method.EXACT if match.exact else Method.NEAR,
        match.similarity,
    )


def _matrix(strings: Sequence[bytes], size: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(strings), dtype=np.uint8).reshape(len(strings), size)
