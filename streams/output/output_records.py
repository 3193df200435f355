"""Verdicts and rejections to the records that go out; equal input gives equal bytes.

Headers of a raw record stay as they are, in their order, before those of the verdict
(``streams.output.verdict_headers``), with two exceptions where they would be untrue:
``content-type`` beside a value that we wrote, and the error headers of an earlier dead letter.
"""

from __future__ import annotations

import base64
import re
from enum import StrEnum
from typing import Final

import msgspec

from simhash_core.documents import Headers, RawRecord, SourcePosition
from simhash_core.index_digest import index_digest
from simhash_core.rejections import Rejection, RejectionReason
from simhash_core.verdicts import DuplicateOf, Undecidable, Unique, Verdict
from streams.documents.timestamps import format_rfc3339
from streams.output.duplicate_value import (
    DUPLICATE_SCHEMA,
    DuplicateValue,
    OriginalValue,
    PositionValue,
    encode_duplicate,
)
from streams.output.verdict_headers import (
    FILTER_HEADER_PREFIX,
    Arrival,
    index_header,
    match_headers,
    own_headers,
    similarity,
    verdict_headers,
)

ERROR_HEADER_PREFIX: Final = "__connect.errors."
REDELIVERIES_HEADER: Final = "firstseen-redeliveries"
"""How often a dead letter was sent again; the one header of ours that a dead letter keeps."""

# What JSON writes in six bytes instead of one. Text without them grows to twice its size at most.
_LONG_ESCAPES: Final = re.compile(rb"[\x00-\x07\x0b\x0e-\x1f]")


class OutputKind(StrEnum):
    """What an output is; which topic each goes to is configuration."""

    UNIQUE = "unique"
    DUPLICATE_OF = "duplicate_of"
    TAGGED = "tagged"
    """Any document or tombstone, with ``mode=tag``."""
    DEAD_LETTER = "dead_letter"


class Gone(StrEnum):
    """Why there is a tombstone on ``unique``."""

    DELETED = "deleted"
    """A raw tombstone took the document out."""
    REPLACED = "replaced"
    """A later document with its id did, and repeats another."""


class OutputRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to be produced; ``timestamp_ms`` is the raw record's."""

    kind: OutputKind
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


def unique_record(arrival: Arrival, verdict: Unique | Undecidable, identity: str) -> OutputRecord:
    """Return the raw record unchanged, with the verdict in headers.

    ``identity`` is the index identity, whole.
    """
    return _raw_record(OutputKind.UNIQUE, arrival, verdict_headers(arrival, verdict, identity))


def tagged_record(
    arrival: Arrival, verdict: Verdict, identity: str, bits: int, *, replaced: bool = False
) -> OutputRecord:
    """Return the raw record unchanged, with the verdict in headers, duplicates as well.

    ``replaced``: a unique document of this id left the index for this duplicate. Raises
    ``UsageError`` for a distance that ``bits`` cannot have.
    """
    headers = verdict_headers(arrival, verdict, identity)
    if isinstance(verdict, DuplicateOf):
        headers += match_headers(verdict, bits)
    if replaced:
        headers += (("firstseen-replaced", b"true"),)
    return _raw_record(OutputKind.TAGGED, arrival, headers)


def _raw_record(kind: OutputKind, arrival: Arrival, ours: Headers) -> OutputRecord:
    record = arrival.record
    headers = (*own_headers(record.headers), *ours) if record.headers else ours
    return OutputRecord(kind, record.key, record.value, record.timestamp_ms, headers)


def deleted_record(
    record: RawRecord,
    source: SourcePosition,
    document_id: str,
    reason: Gone,
    identity: str,
    kind: OutputKind = OutputKind.UNIQUE,
) -> OutputRecord:
    """Return the tombstone by which a topic that is compacted lets go of a document."""
    ours: Headers = (
        ("firstseen-verdict", reason.encode()),
        ("firstseen-id", document_id.encode()),
        ("firstseen-source", str(source).encode()),
        index_header(identity),
    )
    headers = (*own_headers(record.headers), *ours)
    return OutputRecord(kind, record.key, None, record.timestamp_ms, headers)


def duplicate_record(
    arrival: Arrival, verdict: DuplicateOf, identity: str, bits: int, *, include_body: bool
) -> OutputRecord:
    """Return the record that names the original of a document, key unchanged.

    ``bits`` is the width of the index's fingerprints. With ``include_body`` the raw value goes
    along: see docs/formats.md for how large that makes the record. Raises ``UsageError`` for a
    distance that ``bits`` cannot have.
    """
    record, source, document_id, event_time_ms, _ = arrival
    text, encoded = _body(record.value) if include_body else (msgspec.UNSET, msgspec.UNSET)
    value = DuplicateValue(
        schema=DUPLICATE_SCHEMA,
        id=document_id,
        source=PositionValue.of(source),
        original=OriginalValue(
            id=verdict.original_id,
            source=PositionValue.of(verdict.original),
            timestamp=format_rfc3339(verdict.original_event_time_ms),
        ),
        distance=verdict.distance,
        bits=bits,
        similarity=similarity(verdict, bits),
        block=verdict.block,
        method=verdict.method,
        agreement=None if verdict.agreement is None else round(verdict.agreement, 6),
        index=index_digest(identity),
        timestamp=format_rfc3339(event_time_ms),
        body=text,
        body_base64=encoded,
    )
    own = tuple(pair for pair in own_headers(record.headers) if pair[0].lower() != "content-type")
    ours: Headers = (
        # The value is ours: a reader that goes by the type of the raw value would fail on it.
        ("content-type", b"application/json"),
        *verdict_headers(arrival, verdict, identity),
    )
    return OutputRecord(
        OutputKind.DUPLICATE_OF,
        record.key,
        encode_duplicate(value),
        record.timestamp_ms,
        own + ours,
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


def _exception_name(reason: RejectionReason) -> str:
    """Return a reason as the name of a class, which is what Connect's tools group by."""
    return "".join(word.capitalize() for word in reason.split("_"))


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
