"""Reads single texts and documents from files, for commands that inspect them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.verdicts import Rejection, RejectionReason
from streams.documents.json_values import UnreadableError, decode_text
from streams.documents.raw_documents import DocumentReader
from streams.files.input_lines import STANDARD_INPUT, InputLines, Line, readable, unpacked
from streams.settings.settings import Settings

PARTITION: Final = 0
NO_TIME_MS: Final = 0  # a file's own time changes with each copy


class Refused(NamedTuple):
    """The reason why a line is no document."""

    reason: RejectionReason
    detail: str


def read_line(reader: DocumentReader, topic: str, line: Line) -> Document | Refused:
    """Read a line that is not blank; ``topic`` is for its source position."""
    if line.content is None:
        limit = reader.max_record_bytes
        detail = f"the line has {line.size} bytes, max_record_bytes is {limit}: raise it"
        return Refused(RejectionReason.TOO_LARGE, detail)
    record = RawRecord(None, line.content, NO_TIME_MS)
    item = reader.read(SourcePosition(topic, PARTITION, line.number), record)
    if isinstance(item, Rejection):
        return Refused(item.reason, item.detail)
    # A tombstone has a null value, and no line is null.
    assert isinstance(item, Document)
    return item


def documents_in(file: str, settings: Settings) -> Iterator[tuple[Line, Document | Refused]]:
    """Yield each line that is not blank, and its document.

    Raises ``UsageError`` for a file that cannot be opened, ``InputFileError`` for a damaged one.
    """
    reader = DocumentReader(settings.fields, settings.max_record_bytes)
    with InputLines(file, settings.max_record_bytes) as lines:
        for line in lines:
            if not line.is_blank:
                yield line, read_line(reader, lines.name, line)


def read_text(file: str, longest_bytes: int) -> str:
    """Return the UTF-8 text of a file (unpacked by its name; ``-`` is standard input).

    Raises ``UsageError`` for a file that is unreadable, too long or not UTF-8.
    """
    shown = "standard input" if file == STANDARD_INPUT else file
    with readable(shown):
        if file == STANDARD_INPUT:
            content = sys.stdin.buffer.read(longest_bytes + 1)
        else:
            with Path(file).open("rb") as raw:
                content = unpacked(raw, file).read(longest_bytes + 1)
    if len(content) > longest_bytes:
        raise UsageError(
            f"{shown} has more than {longest_bytes} bytes: raise max_record_bytes, or cut it"
        )
    try:
        return decode_text(content)
    except UnreadableError as error:
        raise UsageError(f"cannot read {shown}: {error.detail}") from None


def find_documents(
    files: Iterable[str], wanted: Iterable[str], settings: Settings
) -> dict[str, Document]:
    """Return the first document with each wanted id; raise ``UsageError`` for a missing one."""
    files, missing = list(files), set(wanted)
    documents: dict[str, Document] = {}
    looked_at = 0
    for file in files:
        for _, document in documents_in(file, settings):
            if isinstance(document, Refused):
                continue
            looked_at += 1
            if document.id in missing:
                missing.discard(document.id)
                documents[document.id] = document
            if not missing:
                return documents
    raise UsageError(
        f"no document {', '.join(map(repr, sorted(missing)))} among the {looked_at:,} of "
        f"{', '.join(files)}: is the id in another field (--set fields.id=…)?"
    )
