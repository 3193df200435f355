"""The texts of recent documents by source position, so that a copy can be set beside its original.

Bounded: the oldest are forgotten first.
"""

from __future__ import annotations

from typing import Final

from simhash_core.documents import Document, RawRecord, SourcePosition
from streams.documents.raw_documents import DocumentReader

_BYTES_MAX: Final = 64 * 1024 * 1024


class TextMemory:
    """Remembers texts; ``bytes_max`` bounds them, counted as four bytes a character."""

    def __init__(self, reader: DocumentReader, bytes_max: int = _BYTES_MAX) -> None:
        self._reader = reader
        self._bytes_left = bytes_max
        self._texts: dict[SourcePosition, str] = {}

    def remember(self, key: bytes | None, value: bytes | None, source: SourcePosition) -> None:
        """Remember the text of a record, if it is a document."""
        read = self._reader.read(source, RawRecord(key, value, 0))
        if not isinstance(read, Document):
            return
        self._texts[source] = read.text
        self._bytes_left -= _bytes(read.text)
        while self._bytes_left < 0:
            oldest = next(iter(self._texts))
            self._bytes_left += _bytes(self._texts.pop(oldest))

    def text_of(self, source: SourcePosition) -> str | None:
        """Return the text of a document, None where it is not remembered."""
        return self._texts.get(source)


def _bytes(text: str) -> int:
    return 4 * len(text)
