"""Entries of an index as lines of JSON: what ``index export`` writes and ``index load`` reads.

::

    {"schema": "firstseen.index-export/1", "index": "firstseen-index/1 bits=64 …", …}
    {"id": "…", "source": {…}, "time": "…", "fingerprint": "9c3f00e1a7d2485b", "content": "…", …}

The first line says of which index the others are. Lines that nobody exported need an id and a
fingerprint; then what is missing stands for: the line's place in its file, no time, no other text.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np

from simhash_core.document_columns import REASON_CODES, BytesColumn, DocumentColumns
from simhash_core.documents import SourcePosition
from simhash_core.entries import Entry
from simhash_core.errors import UsageError
from simhash_core.scopes import masked
from streams.care.loaded_batches import Place
from streams.documents.timestamps import format_rfc3339, parse_rfc3339

EXPORT_SCHEMA: Final = "firstseen.index-export/1"

_DIGEST_BYTES: Final = 16
_WORD_BITS: Final = 64
_TIMES_KEPT: Final = 4096
_REASONS: Final = {str(reason): code for code, reason in enumerate(REASON_CODES) if reason}


class ExportHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an export. ``index``: the identity; ``shards``: by number of partition."""

    schema: str
    index: str
    application: str
    shards: list[int]


class SourceFields(msgspec.Struct, frozen=True):
    """A source position."""

    topic: str
    partition: int
    offset: int


class EntryLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry.

    ``fingerprint`` and ``content`` (digest of the normalised content, in its scope) in hexadecimal,
    ``sketch`` in base64. ``undecidable``: why there is no fingerprint. ``sequence``: its place in
    the log.
    """

    id: str
    source: SourceFields | None = None
    time: str | None = None
    fingerprint: str = ""
    undecidable: str = ""
    content: str = ""
    sketch: str = ""
    scope: str = ""
    sequence: int | None = None


_encode = msgspec.json.Encoder().encode
_parsed = lru_cache(_TIMES_KEPT)(parse_rfc3339)
_decode_line = msgspec.json.Decoder(EntryLine).decode
_decode_header = msgspec.json.Decoder(ExportHeader).decode


def encode_header(header: ExportHeader) -> bytes:
    """Return the first line, with its end."""
    return _encode(header) + b"\n"


def encode_entry(sequence: int, entry: Entry, undecidable: str) -> bytes:
    """Return the line of an entry, with its end; ``undecidable``: why, "" where it is not."""
    source = entry.source
    line = EntryLine(
        id=entry.document_id,
        source=SourceFields(source.topic, source.partition, source.offset),
        time=format_rfc3339(entry.event_time_ms),
        fingerprint=masked(entry.fingerprint, entry.scope).hex(),
        undecidable=undecidable,
        content=entry.content_digest.hex(),
        sketch=b64encode(entry.sketch).decode(),
        scope=entry.scope,
        sequence=sequence,
    )
    return _encode(line) + b"\n"


def header_in(line: bytes) -> ExportHeader | None:
    """Return what the first line of an export says; None for a line that is none."""
    try:
        header = _decode_header(line)
    except msgspec.DecodeError:
        return None
    return header if header.schema == EXPORT_SCHEMA else None


class EntryLines:
    """Turns lines into columns, of an index whose fingerprints have so many bits."""

    def __init__(self, bits: int, *, needs_sketches: bool) -> None:
        """``needs_sketches``: the index confirms candidates by them."""
        self._bytes = bits // 8
        self._words = bits // _WORD_BITS
        self._needs_sketches = needs_sketches

    def columns(
        self, lines: Sequence[tuple[int, bytes]], name: str
    ) -> tuple[list[Place], DocumentColumns]:
        """Return places and columns of lines, given with their numbers from 0.

        ``name``: of the file, the source of lines that name none. Raises ``UsageError``, which
        names the line.
        """
        rows = [(number, self._line(number, line, name)) for number, line in lines]
        sources = [
            SourcePosition(name, 0, number)
            if line.source is None
            else SourcePosition(line.source.topic, line.source.partition, line.source.offset)
            for number, line in rows
        ]
        count = len(rows)
        none = "00" * self._bytes
        # Digits are looked at all together: one by one they take as long as all the rest.
        for number, line in rows if not _are_hex([line for _, line in rows]) else ():
            if not _are_hex([line]):
                raise _wrong(name, number, "fingerprint or content has other than hex digits")
        prints = bytes.fromhex("".join([_in_scope(line) or none for _, line in rows]))
        scopes = BytesColumn.of([line.scope.encode() for _, line in rows])
        digests = b"".join([_digest(line) for _, line in rows])
        columns = DocumentColumns(
            offsets=np.fromiter((each.offset for each in sources), np.int64, count),
            times_ms=np.fromiter((_time_ms(number, line, name) for number, line in rows), np.int64),
            ids=BytesColumn.of([line.id.encode() for _, line in rows]),
            digests=np.frombuffer(digests, dtype=np.uint8).reshape(count, _DIGEST_BYTES),
            fingerprints=np.frombuffer(prints, dtype=np.uint64).reshape(count, self._words),
            undecidable=np.fromiter((_code(line) for _, line in rows), np.uint8, count),
            sketches=BytesColumn.of([b64decode(line.sketch) for _, line in rows]),
            scopes=scopes if scopes.joined else None,
        )
        return [(each.topic, each.partition) for each in sources], columns

    def _line(self, number: int, line: bytes, name: str) -> EntryLine:
        try:
            decoded = _decode_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _wrong(name, number, str(error)) from None
        problem = self._problem(decoded)
        if problem:
            raise _wrong(name, number, problem)
        return decoded

    def _problem(self, line: EntryLine) -> str:
        """Return what is wrong with a line, "" for nothing."""
        if line.content and len(line.content) != 2 * _DIGEST_BYTES:
            return f"content is {line.content[:40]!r}: it must have 32 hexadecimal digits"
        if line.source is not None and min(line.source.partition, line.source.offset) < 0:
            return "its source has a number below 0"
        return (
            self._problem_undecidable(line) if line.undecidable else self._problem_decidable(line)
        )

    def _problem_undecidable(self, line: EntryLine) -> str:
        if line.undecidable not in _REASONS:
            return f"undecidable is {line.undecidable!r}: one of {', '.join(_REASONS)}"
        return "" if line.content else "without a fingerprint it needs the digest of its content"

    def _problem_decidable(self, line: EntryLine) -> str:
        if len(line.fingerprint) != 2 * self._bytes:
            digits = 2 * self._bytes
            return f"fingerprint is {line.fingerprint[:40]!r}: it must have {digits} hex digits"
        if self._needs_sketches and not line.sketch:
            return "it has no sketch, by which this index confirms: load the texts instead"
        return ""


def numbered(lines: Iterator[bytes], first: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their numbers, those without anything left out."""
    return ((number, line) for number, line in enumerate(lines, first) if line.strip())


def _are_hex(lines: Sequence[EntryLine]) -> bool:
    """Whether fingerprints and contents of lines are hexadecimal digits and nothing else."""
    joined = "".join([each for line in lines for each in (line.fingerprint, line.content)])
    try:
        return len(bytes.fromhex(joined)) == len(joined) // 2
    except ValueError:
        return False


def _in_scope(line: EntryLine) -> str:
    """Return the fingerprint as it stands in the index."""
    if not line.scope:
        return line.fingerprint
    return masked(bytes.fromhex(line.fingerprint), line.scope).hex()


def _digest(line: EntryLine) -> bytes:
    """Return the content's digest, or one that no content has."""
    if line.content:
        return bytes.fromhex(line.content)
    unknown = f"{EXPORT_SCHEMA}\0{line.id}\0{line.fingerprint}".encode()
    return blake2b(unknown, digest_size=_DIGEST_BYTES).digest()


def _code(line: EntryLine) -> int:
    return _REASONS[line.undecidable] if line.undecidable else 0


def _time_ms(number: int, line: EntryLine, name: str) -> int:
    if line.time is None:
        return 0
    try:
        return _parsed(line.time)
    except ValueError as error:
        raise _wrong(name, number, str(error)) from None


def _wrong(name: str, number: int, what: str) -> UsageError:
    return UsageError(f"{name}, line {number + 1}: {what}")
