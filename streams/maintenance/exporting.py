"""Entries of shards as lines of JSON in log order, which ``index export`` writes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from itertools import islice, repeat
from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import REASON_CODES, BytesColumn, DocumentColumns
from simhash_core.documents import Entry, TopicPartition, masked
from simhash_core.errors import IndexMismatchError, UsageError
from streams.documents.timestamps import TimestampError, format_rfc3339, times_ms
from streams.files.output_files import OutputFile
from streams.maintenance import Report
from streams.store.row_codec import ENTRIES, undecidable_code
from streams.store.shard_directory import LocalShard, ShardView, shard_view

# ---- The lines, which ``index load`` reads too.
#
# ::
#
#     {"schema": "firstseen.index-export/1", "index": "firstseen-index/1 bits=64 …", …}
#     {"id": "…", "source": {…}, "time": "…", "fingerprint": "9c3f00e1a7d2485b", "content": "…", …}
#
# The first line names the index. Lines of other origin need only an id and a fingerprint; then the
# source is the line's position in its file, and content and time are unknown.

EXPORT_SCHEMA: Final = "firstseen.index-export/1"

_DIGEST_BYTES: Final = 16
_WORD_BITS: Final = 64
_REASONS: Final = {str(reason): code for code, reason in enumerate(REASON_CODES) if reason}


class ExportHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an export; ``index`` is the identity, ``shards`` are partitions."""

    schema: str
    index: str
    application: str
    shards: list[int]


_Natural = Annotated[int, msgspec.Meta(ge=0)]


class SourceFields(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: _Natural
    offset: _Natural


class EntryLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One entry. ``gc=False``, because thousands are read and they have no cycles."""

    id: str
    source: SourceFields | None = None
    time: str | None = None
    fingerprint: str = ""  # hexadecimal
    undecidable: str = ""  # why there is no fingerprint
    content: str = ""  # digest of the normalised content, in its scope; hexadecimal
    sketch: bytes = b""  # base64
    scope: str = ""
    sequence: int | None = None  # the offset in the log


_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(EntryLine).decode
_decode_lines = msgspec.json.Decoder(EntryLine).decode_lines
_decode_header = msgspec.json.Decoder(ExportHeader).decode


def encode_header(header: ExportHeader) -> bytes:
    return _encode(header) + b"\n"


def encode_entry(sequence: int, entry: Entry, undecidable: str) -> bytes:
    """Return the line of an entry; ``undecidable`` is the reason, or ""."""
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
    try:
        header = _decode_header(line)
    except msgspec.DecodeError:
        return None
    return header if header.schema == EXPORT_SCHEMA else None


class EntryLines:
    def __init__(self, bits: int, *, needs_sketches: bool, sketch_bytes: int | None = None) -> None:
        """``sketch_bytes``: the length of all sketches of the index, if it is fixed."""
        self._bytes = bits // 8
        self._words = bits // _WORD_BITS
        self._needs_sketches = needs_sketches
        self._sketch_bytes = sketch_bytes

    def columns(
        self, first: int, content: bytes, name: str
    ) -> tuple[list[TopicPartition], DocumentColumns]:
        """Return sources and columns of complete lines; blank ones are skipped.

        ``first`` is the number of the first line, from 0; ``name`` is the file's, the default
        source. Raises ``UsageError``, which names the line.
        """
        numbers, lines = self._decoded(first, content, name)
        scopes = None
        if any(line.scope for line in lines):
            scopes = BytesColumn.of([line.scope.encode() for line in lines])
        numbered = zip(numbers, lines, strict=True)
        offsets = [line.source.offset if line.source else number for number, line in numbered]
        reasons = [_REASONS.get(line.undecidable, 0) for line in lines]
        columns = DocumentColumns(
            offsets=np.array(offsets, dtype=np.int64),
            times_ms=_times_ms(lines, numbers, name),
            ids=BytesColumn.of([line.id.encode() for line in lines]),
            digests=np.frombuffer(_digests(lines), np.uint8).reshape(len(lines), _DIGEST_BYTES),
            fingerprints=self._fingerprints(lines),
            undecidable=np.array(reasons, dtype=np.uint8),
            sketches=BytesColumn.of([line.sketch for line in lines]),
            scopes=scopes,
        )
        return _sources(lines, name), columns

    def _fingerprints(self, lines: Sequence[EntryLine]) -> NDArray[np.uint64]:
        """Return fingerprints as in the index, uint64 (n, words); zero if there is none."""
        none = bytes(self._bytes)
        prints = [masked(bytes.fromhex(line.fingerprint), line.scope) or none for line in lines]
        return np.frombuffer(b"".join(prints), np.uint64).reshape(len(lines), self._words)

    def _decoded(
        self, first: int, content: bytes, name: str
    ) -> tuple[Sequence[int], list[EntryLine]]:
        """Return lines and their numbers; if one is invalid, decode them one by one to name it."""
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
        # Check all digits together: one by one takes as long as everything else.
        for number, line in zip(numbers, lines, strict=True) if not _are_hex(lines) else ():
            if not _are_hex([line]):
                raise _wrong(name, number, "fingerprint or content has other than hex digits")
        return numbers, lines

    def _are_usual(self, lines: Sequence[EntryLine]) -> bool:
        """Return whether all lines have a fingerprint and are valid."""
        return (
            {len(line.fingerprint) for line in lines} <= {2 * self._bytes}
            and {len(line.content) for line in lines} <= {0, 2 * _DIGEST_BYTES}
            and {line.undecidable for line in lines} <= {""}
            and (not self._needs_sketches or all(line.sketch for line in lines))
            and all(self._sketch_bytes in {None, len(line.sketch)} for line in lines)
        )

    def _line(self, number: int, line: bytes, name: str) -> EntryLine:
        try:
            decoded = _decode_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _wrong(name, number, str(error)) from None
        for is_wrong, what in self._checks(decoded):
            if is_wrong:
                raise _wrong(name, number, what)
        return decoded

    def _checks(self, line: EntryLine) -> Iterator[tuple[bool, str]]:
        content, digits = line.content, 2 * self._bytes
        what = f"content is {content[:40]!r}: it must have 32 hexadecimal digits"
        yield len(content) not in {0, 2 * _DIGEST_BYTES}, what
        if line.undecidable:
            what = f"undecidable is {line.undecidable!r}: one of {', '.join(_REASONS)}"
            yield line.undecidable not in _REASONS, what
            yield not content, "without a fingerprint it needs the digest of its content"
            return
        what = f"fingerprint is {line.fingerprint[:40]!r}: it must have {digits} hex digits"
        yield len(line.fingerprint) != digits, what
        what = (
            "it has no sketch, which this index needs to compare candidates: load the texts instead"
        )
        yield self._needs_sketches and not line.sketch, what
        # Its bands would be read from other bytes, so no document would be found by it.
        what = (
            f"its sketch has {len(line.sketch)} bytes, those of this index have "
            f"{self._sketch_bytes}: it was made with other settings (index.bands, "
            "index.band_bins). Use these, or load the texts instead"
        )
        yield self._sketch_bytes not in {None, len(line.sketch)}, what


def _are_hex(lines: Sequence[EntryLine]) -> bool:
    joined = "".join([each for line in lines for each in (line.fingerprint, line.content)])
    try:
        return len(bytes.fromhex(joined)) == len(joined) // 2
    except ValueError:
        return False


def _digests(lines: Sequence[EntryLine]) -> bytes:
    """Return the contents' digests; for an unknown one, a digest of id and fingerprint."""
    contents = [line.content for line in lines]
    if not all(contents):
        for row, line in enumerate(lines):
            if not line.content:
                unknown = f"{EXPORT_SCHEMA}\0{line.id}\0{line.fingerprint}".encode()
                contents[row] = blake2b(unknown, digest_size=_DIGEST_BYTES).hexdigest()
    return bytes.fromhex("".join(contents))


def _sources(lines: Sequence[EntryLine], name: str) -> list[TopicPartition]:
    """Return the source of each line; equal sources are the same object."""
    sources = [
        (name, 0) if line.source is None else (line.source.topic, line.source.partition)
        for line in lines
    ]
    named = {each: TopicPartition(*each) for each in set(sources)}
    return [named[each] for each in sources]


def _times_ms(lines: Sequence[EntryLine], numbers: Sequence[int], name: str) -> NDArray[np.int64]:
    """Return the times of entries; raise ``UsageError``, which names the line."""
    known = {row: line.time for row, line in enumerate(lines) if line.time is not None}
    times = np.zeros(len(lines), dtype=np.int64)
    try:
        times[[*known]] = times_ms([*known.values()])
    except TimestampError:
        for row, text in known.items():
            try:
                times_ms([text])
            except TimestampError as error:
                raise _wrong(name, numbers[row], str(error)) from None
    return times


def _wrong(name: str, number: int, what: str) -> UsageError:
    return UsageError(f"{name}, line {number + 1}: {what}")


_LINES_AT_ONCE = 2_000


def export_entries(
    application: str, stores: Sequence[LocalShard], output: OutputFile, report: Report
) -> int:
    """Write a header and a line for each entry; return the number of entries.

    Each store is read in the state in which it was opened. Raises ``StoreError``, and
    ``IndexMismatchError`` if the shards belong to different indexes.
    """
    with ExitStack() as opened:
        views = [opened.enter_context(shard_view(shard.path)) for shard in stores]
        identity = views[0].owner.index_identity
        for shard, view in zip(stores, views, strict=True):
            if view.owner.index_identity != identity:
                raise IndexMismatchError(str(shard.path), view.owner.index_identity, identity)
        header = ExportHeader(
            schema=EXPORT_SCHEMA,
            index=identity,
            application=application,
            shards=[shard.partition for shard in stores],
        )
        output.write(encode_header(header))
        total = sum(len(view.store) for view in views)
        count = 0
        numbered = [zip(_all_entries(view), repeat(view)) for view in views]
        merged = heapq.merge(*numbered, key=lambda each: each[0][0])
        while lines := [
            encode_entry(sequence, entry, _reason(view, sequence, entry))
            for (sequence, entry), view in islice(merged, _LINES_AT_ONCE)
        ]:
            output.write(b"".join(lines))
            count += len(lines)
            report("exporting", count, total)
    return count


def _all_entries(view: ShardView) -> Iterator[tuple[int, Entry]]:
    count = 0
    for each in view.store.all_entries():
        yield each
        count += 1
    view.refuse_missing(count)


def _reason(view: ShardView, sequence: int, entry: Entry) -> str:
    if entry.fingerprint:
        return ""
    row = view.rows.get(ENTRIES.key(sequence)) or b""
    return str(REASON_CODES[undecidable_code(row)])
