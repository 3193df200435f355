"""What recent records held, by source position: a copy is set beside its original by it.

Bounded: the oldest are forgotten first.
"""

from __future__ import annotations

from typing import Final

from simhash_core.documents import Document, RawRecord, SourcePosition
from streams.documents.raw_documents import DocumentReader

_BYTES_MAX: Final = 64 * 1024 * 1024
_REFUSED_MAX: Final = 10_000


class TextMemory:
    """Remembers documents; ``bytes_max`` bounds them, counted as four bytes a character.

    Of records that are no documents it remembers where they came from.
    """

    def __init__(self, reader: DocumentReader, bytes_max: int = _BYTES_MAX) -> None:
        self._reader = reader
        self._bytes_left = bytes_max
        self._documents: dict[SourcePosition, Document] = {}
        self._where: dict[SourcePosition, str] = {}

    def remember(
        self, key: bytes | None, value: bytes | None, source: SourcePosition, where: str = ""
    ) -> None:
        """Remember a record, which came from ``where``: for people, a file and a line."""
        read = self._reader.read(source, RawRecord(key, value, 0))
        if not isinstance(read, Document):
            if len(self._where) < _REFUSED_MAX:
                self._where[source] = where
            return
        self._documents[source] = read
        self._bytes_left -= _bytes(read)
        while self._bytes_left < 0:
            oldest = next(iter(self._documents))
            self._bytes_left += _bytes(self._documents.pop(oldest))

    def document_of(self, source: SourcePosition) -> Document | None:
        """Return a document, None where it is not remembered."""
        return self._documents.get(source)

    def where_from(self, source: SourcePosition) -> str:
        """Return where a record that is no document came from; else its source position."""
        return self._where.get(source) or str(source)


def _bytes(document: Document) -> int:
    return 4 * (len(document.text) + len(document.title))
