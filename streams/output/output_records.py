"""Verdicts and rejections to the records that go out; equal input gives equal bytes.

Headers whose name begins with ``firstseen-`` belong to the filter: those that a record brings (it
has been through a filter before, or is sent again) are taken off, and this verdict's are put on
after the record's own. All other headers stay as they are, in their order, with two exceptions
where they would be untrue: ``content-type`` beside a value that we wrote, and the error headers of
an earlier dead letter.
"""

from __future__ import annotations

import base64
import hashlib
import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from simhash_core.documents import Headers, RawRecord, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.log.packets import Packet
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.scopes import masked
from simhash_core.verdicts import DuplicateOf, Method, Undecidable, Unique
from streams.documents.timestamps import format_rfc3339

FILTER_HEADER_PREFIX: Final = "firstseen-"
ERROR_HEADER_PREFIX: Final = "__connect.errors."
REDELIVERIES_HEADER: Final = "firstseen-redeliveries"
"""How often a dead letter was sent again; the one header of ours that a dead letter keeps."""

DUPLICATE_SCHEMA: Final = "firstseen.duplicate-of/1"

_INDEX_DIGEST_BYTES: Final = 6
# What JSON writes in six bytes instead of one. Text without them grows to twice its size at most.
_LONG_ESCAPES: Final = re.compile(rb"[\x00-\x07\x0b\x0e-\x1f]")


class OutputKind(StrEnum):
    """The three outputs; which topic each goes to is configuration."""

    UNIQUE = "unique"
    DUPLICATE_OF = "duplicate_of"
    DEAD_LETTER = "dead_letter"


class Gone(StrEnum):
    """Why there is a tombstone on ``unique``."""

    DELETED = "deleted"
    """A raw tombstone took the document out."""
    REPLACED = "replaced"
    """A later document with its id did, and repeats another."""


class Arrival(NamedTuple):
    """A raw record, and what its output says of the document in it.

    ``fingerprint``: empty for an undecidable document. ``event_time_ms``: milliseconds since 1970.
    """

    record: RawRecord
    source: SourcePosition
    document_id: str
    event_time_ms: int
    fingerprint: bytes


class OutputRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to be produced; ``timestamp_ms`` is the raw record's."""

    kind: OutputKind
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


class _Position(msgspec.Struct, frozen=True):
    """A source position with names, as it stands in JSON."""

    topic: str
    partition: int
    offset: int


class _Original(msgspec.Struct, frozen=True):
    id: str
    source: _Position
    timestamp: str


class _Duplicate(msgspec.Struct, frozen=True):
    """The value of a ``duplicate-of`` record; the order of the fields is that of the JSON."""

    schema: str
    id: str
    source: _Position
    original: _Original
    distance: int
    bits: int
    similarity: float
    block: int | None
    method: Method
    agreement: float | None
    index: str
    timestamp: str
    body: str | msgspec.UnsetType = msgspec.UNSET
    body_base64: str | msgspec.UnsetType = msgspec.UNSET


_encode = msgspec.json.Encoder().encode


def arrival_of(record: RawRecord, packet: Packet, row: int) -> Arrival:
    """Return a raw record with what its packet says of the document in it."""
    columns = packet.columns
    return Arrival(
        record,
        packet.source(row),
        columns.document_id(row),
        columns.times_ms.item(row),
        b""
        if columns.undecidable.item(row)
        else masked(columns.fingerprints[row].tobytes(), columns.scope(row)),
    )


def unique_record(arrival: Arrival, verdict: Unique | Undecidable, identity: str) -> OutputRecord:
    """Return the raw record unchanged, with the verdict in headers.

    ``identity`` is the index identity, whole.
    """
    record, source, document_id, _, fingerprint = arrival
    place = f"{source.topic}/{source.partition}@{source.offset}"
    ours: Headers
    if isinstance(verdict, Undecidable):
        ours = (
            ("firstseen-verdict", b"undecidable"),
            ("firstseen-reason", verdict.reason.encode()),
            ("firstseen-id", document_id.encode()),
            ("firstseen-source", place.encode()),
            _index_header(identity),
        )
    else:
        ours = (
            ("firstseen-verdict", b"unique"),
            ("firstseen-id", document_id.encode()),
            ("firstseen-source", place.encode()),
            ("firstseen-fingerprint", fingerprint.hex().encode()),
            _index_header(identity),
        )
    headers = (*_kept(record.headers), *ours) if record.headers else ours
    return OutputRecord(OutputKind.UNIQUE, record.key, record.value, record.timestamp_ms, headers)


def deleted_record(
    record: RawRecord, source: SourcePosition, document_id: str, reason: Gone, identity: str
) -> OutputRecord:
    """Return the tombstone by which a topic that is compacted lets go of a document."""
    ours: Headers = (
        ("firstseen-verdict", reason.encode()),
        ("firstseen-id", document_id.encode()),
        ("firstseen-source", str(source).encode()),
        _index_header(identity),
    )
    headers = (*_kept(record.headers), *ours)
    return OutputRecord(OutputKind.UNIQUE, record.key, None, record.timestamp_ms, headers)


def duplicate_record(
    arrival: Arrival, verdict: DuplicateOf, identity: str, bits: int, *, include_body: bool
) -> OutputRecord:
    """Return the record that names the original of a document, key unchanged.

    ``bits`` is the width of the index's fingerprints. With ``include_body`` the raw value goes
    along: see docs/formats.md for how large that makes the record. Raises ``UsageError`` for a
    distance that ``bits`` cannot have.
    """
    if not 0 <= verdict.distance <= bits:
        raise UsageError(f"a distance of {verdict.distance} in a fingerprint of {bits} bits")
    record, source, document_id, event_time_ms, _ = arrival
    near = 1.0 if verdict.method is Method.EXACT else round(1 - verdict.distance / bits, 6)
    text, encoded = _body(record.value) if include_body else (msgspec.UNSET, msgspec.UNSET)
    value = _Duplicate(
        schema=DUPLICATE_SCHEMA,
        id=document_id,
        source=_position(source),
        original=_Original(
            id=verdict.original_id,
            source=_position(verdict.original),
            timestamp=format_rfc3339(verdict.original_event_time_ms),
        ),
        distance=verdict.distance,
        bits=bits,
        similarity=near,
        block=verdict.block,
        method=verdict.method,
        agreement=None if verdict.agreement is None else round(verdict.agreement, 6),
        index=identity,
        timestamp=format_rfc3339(event_time_ms),
        body=text,
        body_base64=encoded,
    )
    own = tuple(pair for pair in _kept(record.headers) if pair[0].lower() != "content-type")
    ours: Headers = (
        # The value is ours: a reader that goes by the type of the raw value would fail on it.
        ("content-type", b"application/json"),
        ("firstseen-verdict", b"duplicate"),
        ("firstseen-original", verdict.original_id.encode()),
        ("firstseen-distance", str(verdict.distance).encode()),
    )
    return OutputRecord(
        OutputKind.DUPLICATE_OF, record.key, _encode(value), record.timestamp_ms, own + ours
    )


def dead_letter_record(rejection: Rejection) -> OutputRecord:
    """Return the raw record, with the place it came from and the reason in headers.

    The headers are those that Kafka Connect's dead letter queues have, as UTF-8 strings, so that
    tools for these can read ours (source: ``DeadLetterQueueReporter`` in Apache Kafka). The value
    of a record that is too large is left out.
    """
    source, record, reason = rejection.source, rejection.record, rejection.reason
    own = tuple(
        (name, value)
        for name, value in record.headers
        if name == REDELIVERIES_HEADER
        or not name.startswith((FILTER_HEADER_PREFIX, ERROR_HEADER_PREFIX))
    )
    errors = {
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(source.offset),
        "stage": "VALUE_CONVERTER",
        "class.name": "firstseen.DocumentReader",
        "exception.class.name": f"firstseen.{_exception_name(reason)}",
        "exception.message": rejection.detail,
    }
    ours: Headers = tuple(
        (f"{ERROR_HEADER_PREFIX}{name}", text.encode(errors="replace"))
        for name, text in errors.items()
    )
    return OutputRecord(
        OutputKind.DEAD_LETTER,
        record.key,
        None if reason is RejectionReason.TOO_LARGE else record.value,
        record.timestamp_ms,
        (*own, *ours, ("firstseen-reason", reason.encode())),
    )


@lru_cache(maxsize=16)
def index_digest(identity: str) -> str:
    """Return the short name of an index identity: 12 hexadecimal digits, from BLAKE2b-48."""
    return hashlib.blake2b(identity.encode(), digest_size=_INDEX_DIGEST_BYTES).hexdigest()


@lru_cache(maxsize=16)
def _index_header(identity: str) -> tuple[str, bytes]:
    return ("firstseen-index", index_digest(identity).encode())


def _exception_name(reason: RejectionReason) -> str:
    """Return a reason as the name of a class, which is what Connect's tools group by."""
    return "".join(word.capitalize() for word in reason.split("_"))


def _kept(headers: Headers) -> Headers:
    """Return the headers of a raw record that are not the filter's own."""
    return tuple(pair for pair in headers if not pair[0].startswith(FILTER_HEADER_PREFIX))


def _position(source: SourcePosition) -> _Position:
    return _Position(source.topic, source.partition, source.offset)


def _body(value: bytes | None) -> tuple[str | msgspec.UnsetType, str | msgspec.UnsetType]:
    """Return the raw value as text, or else as base64: exactly one of them is set, unless null."""
    if value is None:
        return msgspec.UNSET, msgspec.UNSET
    if not _LONG_ESCAPES.search(value):
        try:
            return value.decode(), msgspec.UNSET
        except UnicodeDecodeError:
            pass
    return msgspec.UNSET, base64.b64encode(value).decode()
