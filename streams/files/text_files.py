"""Single texts, and single documents out of files, for commands that inspect them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.verdicts import Rejection
from streams.documents.json_values import UnreadableError, decode_text
from streams.documents.raw_documents import DocumentReader
from streams.files.input_lines import DAMAGED_ERRORS, STANDARD_INPUT, InputLines, unpacked
from streams.settings.settings import Settings


class Unreadable(NamedTuple):
    """A line that is no document; ``number`` counts from 0."""

    number: int
    why: str


def read_text(file: str, longest_bytes: int) -> str:
    """Return the UTF-8 text of a file (unpacked by its name; ``-`` is standard input).

    Raises ``UsageError`` for a file that is unreadable, too long or not UTF-8.
    """
    shown = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            content = sys.stdin.buffer.read(longest_bytes + 1)
        else:
            with Path(file).open("rb") as raw:
                content = unpacked(raw, file).read(longest_bytes + 1)
    except DAMAGED_ERRORS as error:
        raise UsageError(f"cannot read {shown}: the packed data is damaged ({error})") from None
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror or error}") from None
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
        for document in documents_in(file, settings):
            if isinstance(document, Unreadable):
                continue
            looked_at += 1
            if document.id in missing:
                missing.discard(document.id)
                documents[document.id] = document
            if not missing:
                return documents
    raise UsageError(
        f"no document {', '.join(map(repr, sorted(missing)))} among the {looked_at:,} of "
        f"{', '.join(files)}: is its id in another field (--set fields.id=…)?"
    )


def documents_in(file: str, settings: Settings) -> Iterator[Document | Unreadable]:
    """Yield the document or problem of each line that is not blank.

    Raises ``UsageError`` for a file that cannot be opened, ``InputFileError`` for a damaged one.
    """
    reader = DocumentReader(settings.fields, settings.max_record_bytes)
    with InputLines(file, settings.max_record_bytes) as lines:
        for line in lines:
            if line.content is None:
                yield Unreadable(line.number, f"{line.size} bytes are over max_record_bytes")
            elif not line.is_blank:
                source = SourcePosition(lines.name, 0, line.number)
                item = reader.read(source, RawRecord(None, line.content, 0))
                if isinstance(item, Document):
                    yield item
                elif isinstance(item, Rejection):
                    yield Unreadable(line.number, f"{item.reason}: {item.detail}")
