"""Entries of an index as lines of JSON: what ``index export`` writes and ``index load`` reads.

::

    {"schema": "firstseen.index-export/1", "index": "firstseen-index/1 bits=64 …", …}
    {"id": "…", "source": {…}, "time": "…", "fingerprint": "9c3f00e1a7d2485b", "content": "…", …}

The first line says of which index the others are. Lines that nobody exported need an id and a
fingerprint; then what is missing stands for: the line's place in its file, no time, no other text.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import REASON_CODES, BytesColumn, DocumentColumns
from simhash_core.documents import TopicPartition
from simhash_core.entries import Entry
from simhash_core.errors import UsageError
from simhash_core.scopes import masked
from streams.documents.timestamp_columns import times_ms
from streams.documents.timestamps import TimestampError, format_rfc3339

EXPORT_SCHEMA: Final = "firstseen.index-export/1"

_DIGEST_BYTES: Final = 16
_WORD_BITS: Final = 64
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
    sketch: bytes = b""
    scope: str = ""
    sequence: int | None = None


_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(EntryLine).decode
_decode_lines = msgspec.json.Decoder(EntryLine).decode_lines
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
        sketch=entry.sketch,
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
    ) -> tuple[list[TopicPartition], DocumentColumns]:
        """Return sources and columns of lines, given with their numbers from 0.

        ``name``: of the file, the source of lines that name none. Raises ``UsageError``, which
        names the line.
        """
        decoded = self._decoded(lines, name)
        count = len(decoded)
        none = "00" * self._bytes
        prints = [line.fingerprint or none for line in decoded]
        scopes = None
        if {line.scope for line in decoded} != {""}:
            scopes = BytesColumn.of([line.scope.encode() for line in decoded])
            for row, line in enumerate(decoded):
                if line.scope and line.fingerprint:
                    prints[row] = masked(bytes.fromhex(line.fingerprint), line.scope).hex()
        ids = [line.id.encode() for line in decoded]
        columns = DocumentColumns(
            offsets=np.array(
                [
                    number if line.source is None else line.source.offset
                    for (number, _), line in zip(lines, decoded, strict=True)
                ],
                dtype=np.int64,
            ),
            times_ms=_times_ms(decoded, lines, name),
            ids=BytesColumn.of(ids),
            digests=np.frombuffer(_digests(decoded), np.uint8).reshape(count, _DIGEST_BYTES),
            fingerprints=np.frombuffer(bytes.fromhex("".join(prints)), np.uint64).reshape(
                count, self._words
            ),
            undecidable=_codes(decoded),
            sketches=BytesColumn.of([line.sketch for line in decoded]),
            scopes=scopes,
        )
        sources = [
            (name, 0) if line.source is None else (line.source.topic, line.source.partition)
            for line in decoded
        ]
        named = {each: TopicPartition(*each) for each in set(sources)}
        return [named[each] for each in sources], columns

    def _decoded(self, lines: Sequence[tuple[int, bytes]], name: str) -> list[EntryLine]:
        """Return what lines hold: read and checked together, or where that fails one by one."""
        try:
            decoded = _decode_lines(b"\n".join([line for _, line in lines]))
        except (msgspec.DecodeError, UnicodeDecodeError):
            decoded = []
        if len(decoded) == len(lines) and self._are_usual(decoded) and _are_hex(decoded):
            return decoded
        decoded = [self._line(number, line, name) for number, line in lines]
        # Digits are looked at all together: one by one they take as long as all the rest.
        for (number, _), line in zip(lines, decoded, strict=True) if not _are_hex(decoded) else ():
            if not _are_hex([line]):
                raise _wrong(name, number, "fingerprint or content has other than hex digits")
        return decoded

    def _are_usual(self, lines: Sequence[EntryLine]) -> bool:
        """Whether all lines have a fingerprint, and nothing is wrong with them."""
        return (
            {len(line.fingerprint) for line in lines} <= {2 * self._bytes}
            and {len(line.content) for line in lines} <= {0, 2 * _DIGEST_BYTES}
            and {line.undecidable for line in lines} <= {""}
            and (not self._needs_sketches or all(line.sketch for line in lines))
            and min([line.source.offset for line in lines if line.source], default=0) >= 0
            and min([line.source.partition for line in lines if line.source], default=0) >= 0
        )

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
            return (
                "it has no sketch, which this index needs to compare candidates: load the texts "
                "instead"
            )
        return ""


def _are_hex(lines: Sequence[EntryLine]) -> bool:
    """Whether fingerprints and contents of lines are hexadecimal digits and nothing else."""
    joined = "".join([each for line in lines for each in (line.fingerprint, line.content)])
    try:
        return len(bytes.fromhex(joined)) == len(joined) // 2
    except ValueError:
        return False


def _digests(lines: Sequence[EntryLine]) -> bytes:
    """Return the contents' digests, or for one that is not known one that no content has."""
    contents = [line.content for line in lines]
    if not all(contents):
        for row, line in enumerate(lines):
            if not line.content:
                unknown = f"{EXPORT_SCHEMA}\0{line.id}\0{line.fingerprint}".encode()
                contents[row] = blake2b(unknown, digest_size=_DIGEST_BYTES).hexdigest()
    return bytes.fromhex("".join(contents))


def _codes(lines: Sequence[EntryLine]) -> NDArray[np.uint8]:
    """Return why documents are undecidable, as ``REASON_CODES`` numbers it."""
    codes = np.zeros(len(lines), dtype=np.uint8)
    for row, line in enumerate(lines):
        if line.undecidable:
            codes[row] = _REASONS[line.undecidable]
    return codes


def _times_ms(
    lines: Sequence[EntryLine], numbered_lines: Sequence[tuple[int, bytes]], name: str
) -> NDArray[np.int64]:
    """Return the times of entries; raises ``UsageError``, which names the line."""
    times = np.zeros(len(lines), dtype=np.int64)
    rows = [row for row, line in enumerate(lines) if line.time is not None]
    texts = [line.time for line in lines if line.time is not None]
    try:
        times[rows] = times_ms(texts)
    except TimestampError:
        for row, text in zip(rows, texts, strict=True):
            try:
                times_ms([text])
            except TimestampError as error:
                raise _wrong(name, numbered_lines[row][0], str(error)) from None
    return times


def _wrong(name: str, number: int, what: str) -> UsageError:
    return UsageError(f"{name}, line {number + 1}: {what}")
