"""A record as one line of text: its verdict, or the beginning of its text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.text import Text

from simhash_core.documents import Document, RawRecord
from streams.documents.output_records import (
    DeadLetterOutput,
    DuplicateOutput,
    TombstoneOutput,
    UniqueOutput,
    received_output,
)
from streams.documents.raw_documents import DocumentReader
from streams.kafka.topic_follower import ReadRecord
from streams.registry.schema_cache import command_reader
from streams.registry.schemas import RegistryUnavailableError
from streams.settings.settings import Settings
from streams.terminal.layout import one_line

UNIQUE_STYLE: Final = "green"
UNDECIDABLE_STYLE: Final = "cyan"
DUPLICATE_STYLE: Final = "yellow"
DEAD_LETTER_STYLE: Final = "red"
QUIET_STYLE: Final = "dim"

_LABEL_CELLS: Final = 11
_ID_CELLS: Final = 40
_READ_BYTES_MAX: Final = 1 << 24
_GAP: Final = "  "


class RecordLines:
    """Formats records; ``width`` is the terminal's, in cells."""

    def __init__(self, settings: Settings, width: int) -> None:
        self._reader = command_reader(settings, _READ_BYTES_MAX)
        self._reader_without_schemas = DocumentReader(settings.fields, _READ_BYTES_MAX)
        self._raw_topic = settings.topics.raw
        self._width = width

    def line(self, record: ReadRecord) -> Text:
        match received_output(record.value, record.headers):
            case UniqueOutput(id=document_id, undecidable=""):
                parts = self._document("unique", UNIQUE_STYLE, document_id, record)
            case UniqueOutput(id=document_id):
                parts = self._document("undecidable", UNDECIDABLE_STYLE, document_id, record)
            case TombstoneOutput(id=document_id, reason=reason):
                parts = [("tombstone", QUIET_STYLE), (document_id, ""), (reason, QUIET_STYLE)]
            case DuplicateOutput() as duplicate:
                parts = [("duplicate", DUPLICATE_STYLE), *_why(duplicate)]
            case DeadLetterOutput() as letter:
                parts = [
                    ("dead letter", DEAD_LETTER_STYLE),
                    (_key(record) or str(letter.source), ""),
                    (letter.reason, DEAD_LETTER_STYLE),
                    (letter.detail, QUIET_STYLE),
                ]
            case _:
                shown_id = _key(record) or str(record.position)
                topic = record.position.topic
                label = "raw" if topic == self._raw_topic else topic
                parts = self._document(label, "blue", shown_id, record)
        return _joined(parts, self._width)

    def _document(
        self, label: str, style: str, document_id: str, record: ReadRecord
    ) -> list[tuple[str, str]]:
        return [(label, style), (document_id, ""), (self._excerpt(record), QUIET_STYLE)]

    def _excerpt(self, record: ReadRecord) -> str:
        """Return title and text of a document; else the bytes, decoded."""
        if record.value is None:
            return "(null)"
        raw = RawRecord(record.key, record.value, 0, record.headers)
        try:
            read = self._reader.read(record.position, raw)
        except RegistryUnavailableError:  # do not wait for the registry at each record
            self._reader = self._reader_without_schemas
            read = self._reader.read(record.position, raw)
        if isinstance(read, Document):
            text = f"{read.title} · {read.text}" if read.title else read.text
            return text or "(empty)"
        return record.value[: 8 * self._width].decode(errors="replace")


def _why(duplicate: DuplicateOutput) -> Iterable[tuple[str, str]]:
    yield f"{_short(duplicate.id)} ← {_short(duplicate.original_id)}", ""
    yield f"distance {duplicate.distance}/{duplicate.bits}", ""
    yield f"similarity {duplicate.similarity:.3f}", ""
    yield duplicate.method, QUIET_STYLE


def _key(record: ReadRecord) -> str:
    return "" if record.key is None else record.key.decode(errors="replace")


def _short(document_id: str) -> str:
    return one_line(document_id, _ID_CELLS)


def _joined(parts: Iterable[tuple[str, str]], width: int) -> Text:
    label, *rest = parts
    line = Text(one_line(label[0]), style=label[1])
    line.truncate(_LABEL_CELLS, overflow="ellipsis", pad=True)
    for number, (content, style) in enumerate(rest):
        room = width - line.cell_len - len(_GAP)
        line.append(_GAP)
        line.append(one_line(content, room if number else min(room, 2 * _ID_CELLS + 3)), style)
    line.rstrip()
    line.truncate(width)
    return line
