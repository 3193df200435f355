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


class SourceFields(msgspec.Struct, frozen=True, gc=False):
    """A source position."""

    topic: str
    partition: int
    offset: int


class EntryLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One entry. Lines are read by the thousands, and have no cycles to be collected.

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
        self, first: int, content: bytes, name: str
    ) -> tuple[list[TopicPartition], DocumentColumns]:
        """Return sources and columns of whole lines, each with its end; blank ones are left out.

        ``first``: the number of the first line, from 0. ``name``: of the file, the source of lines
        that name none. Raises ``UsageError``, which names the line.
        """
        numbers, lines = self._decoded(first, content, name)
        scopes = None
        if {line.scope for line in lines} - {""}:
            scopes = BytesColumn.of([line.scope.encode() for line in lines])
        columns = DocumentColumns(
            offsets=_offsets(lines, numbers),
            times_ms=_times_ms(lines, numbers, name),
            ids=BytesColumn.of([line.id.encode() for line in lines]),
            digests=np.frombuffer(_digests(lines), np.uint8).reshape(len(lines), _DIGEST_BYTES),
            fingerprints=self._fingerprints(lines),
            undecidable=_codes(lines),
            sketches=BytesColumn.of([line.sketch for line in lines]),
            scopes=scopes,
        )
        return _sources(lines, name), columns

    def _fingerprints(self, lines: Sequence[EntryLine]) -> NDArray[np.uint64]:
        """Return fingerprints as the index has them; zero where there is none."""
        none = "00" * self._bytes
        prints = [
            masked(bytes.fromhex(line.fingerprint), line.scope).hex()
            if line.scope and line.fingerprint
            else line.fingerprint or none
            for line in lines
        ]
        joined = np.frombuffer(bytes.fromhex("".join(prints)), np.uint64)
        return joined.reshape(len(lines), self._words)

    def _decoded(
        self, first: int, content: bytes, name: str
    ) -> tuple[Sequence[int], list[EntryLine]]:
        """Return lines and their numbers: read and checked together, else one by one."""
        try:
            lines = _decode_lines(content)
        except (msgspec.DecodeError, UnicodeDecodeError):
            lines = []
        count = content.count(b"\n")
        if len(lines) == count and self._are_usual(lines) and _are_hex(lines):
            return range(first, first + count), lines
        texts = [each for each in enumerate(content.split(b"\n"), first) if each[1].strip()]
        numbers = [number for number, _ in texts]
        lines = [self._line(number, text, name) for number, text in texts]
        # Digits are looked at all together: one by one they take as long as all the rest.
        for number, line in zip(numbers, lines, strict=True) if not _are_hex(lines) else ():
            if not _are_hex([line]):
                raise _wrong(name, number, "fingerprint or content has other than hex digits")
        return numbers, lines

    def _are_usual(self, lines: Sequence[EntryLine]) -> bool:
        """Whether all lines have a fingerprint, and nothing is wrong with them."""
        sources = [line.source for line in lines if line.source is not None]
        return (
            {len(line.fingerprint) for line in lines} <= {2 * self._bytes}
            and {len(line.content) for line in lines} <= {0, 2 * _DIGEST_BYTES}
            and {line.undecidable for line in lines} <= {""}
            and (not self._needs_sketches or all(line.sketch for line in lines))
            and min([each.offset for each in sources], default=0) >= 0
            and min([each.partition for each in sources], default=0) >= 0
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


def _offsets(lines: Sequence[EntryLine], numbers: Sequence[int]) -> NDArray[np.int64]:
    """Return the offsets of lines in their sources; their numbers where the file is the source."""
    return np.array(
        [
            number if line.source is None else line.source.offset
            for number, line in zip(numbers, lines, strict=True)
        ],
        dtype=np.int64,
    )


def _sources(lines: Sequence[EntryLine], name: str) -> list[TopicPartition]:
    """Return the source of each line; equal ones are one object."""
    sources = [
        (name, 0) if line.source is None else (line.source.topic, line.source.partition)
        for line in lines
    ]
    named = {each: TopicPartition(*each) for each in set(sources)}
    if len(named) == 1:
        return [*named.values()] * len(sources)
    return [named[each] for each in sources]


def _codes(lines: Sequence[EntryLine]) -> NDArray[np.uint8]:
    """Return why documents are undecidable, as ``REASON_CODES`` numbers it."""
    return np.array(
        [_REASONS[line.undecidable] if line.undecidable else 0 for line in lines], dtype=np.uint8
    )


def _times_ms(lines: Sequence[EntryLine], numbers: Sequence[int], name: str) -> NDArray[np.int64]:
    """Return the times of entries; raises ``UsageError``, which names the line."""
    texts = [line.time for line in lines]
    rows = [row for row, text in enumerate(texts) if text is not None]
    present = [text for text in texts if text is not None]
    times = np.zeros(len(lines), dtype=np.int64)
    try:
        times[rows] = times_ms(present)
    except TimestampError:
        for row, text in zip(rows, present, strict=True):
            try:
                times_ms([text])
            except TimestampError as error:
                raise _wrong(name, numbers[row], str(error)) from None
    return times


def _wrong(name: str, number: int, what: str) -> UsageError:
    return UsageError(f"{name}, line {number + 1}: {what}")
