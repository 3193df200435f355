"""Output records: their form as JSON, the value of a duplicate, and how they are read back."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from simhash_core.documents import Headers, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.text.profiles import index_digest
from simhash_core.verdicts import DuplicateOf, Method
from streams.documents.timestamps import format_rfc3339

# ---- A record as a JSON value: bytes become text, or ``{"base64": "…"}``.

BytesView = str | dict[str, str] | None


def record_view(
    key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
) -> dict[str, object]:
    return {
        "key": bytes_view(key),
        "value": bytes_view(value),
        "timestamp_ms": timestamp_ms,
        "headers": [{"name": name, "value": bytes_view(header)} for name, header in headers],
    }


def bytes_view(raw: bytes | None) -> BytesView:
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


# ---- The value of a ``duplicate-of`` record (docs/formats.md).
#
# Earlier versions of the schema have the same fields.

DUPLICATE_SCHEMA: Final = "firstseen.duplicate-of/2"
READABLE_SCHEMAS: Final = frozenset({"firstseen.duplicate-of/1", DUPLICATE_SCHEMA})

# JSON writes these in six bytes instead of one; other text at most doubles in size.
_LONG_ESCAPES: Final = re.compile(rb"[\x00-\x07\x0b\x0e-\x1f]")


class PositionValue(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, source: SourcePosition) -> PositionValue:
        return cls(source.topic, source.partition, source.offset)

    def position(self) -> SourcePosition:
        return SourcePosition(self.topic, self.partition, self.offset)


class OriginalValue(msgspec.Struct, frozen=True):
    id: str
    source: PositionValue
    timestamp: str


class DuplicateValue(msgspec.Struct, frozen=True):
    """The value of a duplicate; the JSON has its fields in the same order."""

    schema: str
    id: str
    source: PositionValue
    original: OriginalValue
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
decode_duplicate = msgspec.json.Decoder(DuplicateValue).decode


def encode_duplicate(
    source: SourcePosition,
    document_id: str,
    event_time_ms: int,
    verdict: DuplicateOf,
    identity: str,  # of the index, whole
    bits: int,  # of its fingerprints
    *,
    body: bytes | None = None,  # the raw value, if it is included; docs/formats.md has its size
) -> bytes:
    """Return the value of a duplicate; raise ``UsageError`` for an impossible distance."""
    text, encoded = _body(body)
    return _encode(
        DuplicateValue(
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
    )


def similarity(verdict: DuplicateOf, bits: int) -> float:
    """Return 1 − distance / ``bits``, to 6 digits; raise ``UsageError`` beyond ``bits``."""
    if not 0 <= verdict.distance <= bits:
        raise UsageError(f"a distance of {verdict.distance} in a fingerprint of {bits} bits")
    return 1.0 if verdict.method is Method.EXACT else round(1 - verdict.distance / bits, 6)


def _body(value: bytes | None) -> tuple[str | msgspec.UnsetType, str | msgspec.UnsetType]:
    if value is None:
        return msgspec.UNSET, msgspec.UNSET
    if not _LONG_ESCAPES.search(value):
        try:
            return value.decode(), msgspec.UNSET
        except UnicodeDecodeError:
            pass
    return msgspec.UNSET, base64.b64encode(value).decode()


# ---- Records of the output topics, read back (docs/formats.md).
#
# The form of a record shows its kind, independent of its topic, so that copies of an output topic
# can be read.

FILTER_HEADER_PREFIX: Final = "firstseen-"
ERROR_HEADER_PREFIX: Final = "__connect.errors."
REDELIVERIES_HEADER: Final = "firstseen-redeliveries"
"""How often a dead letter was sent again; the only header of ours that a dead letter keeps."""
VERDICT_HEADER: Final = "firstseen-verdict"
APPLICATION_HEADER: Final = "firstseen-application"
"""The application that decided. Dead letters lack it: applications may share their topic."""
KEPT_HEADER: Final = "firstseen-kept-bytes"
WHOLE_HEADER: Final = "firstseen-record-bytes"
"""Bytes of key, value and headers, on the dead letter of a record that was too large: those that
the dead letter keeps (``KEPT_HEADER``) and those of the record (``WHOLE_HEADER``).
"""


class UniqueOutput(msgspec.Struct, frozen=True):
    """``undecidable`` is the reason where the text is too short, else ""."""

    source: SourcePosition
    id: str
    undecidable: str


class DuplicateOutput(msgspec.Struct, frozen=True):
    source: SourcePosition
    id: str
    original: SourcePosition
    original_id: str
    distance: int
    bits: int
    similarity: float
    method: str


class DeadLetterOutput(msgspec.Struct, frozen=True):
    source: SourcePosition
    reason: str
    detail: str


class TombstoneOutput(msgspec.Struct, frozen=True):
    """A document leaves ``unique``; ``reason`` is ``deleted`` or ``replaced``."""

    source: SourcePosition
    id: str
    reason: str


ReceivedOutput = UniqueOutput | TombstoneOutput | DuplicateOutput | DeadLetterOutput


def received_output(
    value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> ReceivedOutput | None:
    named = {name: (content or b"").decode(errors="replace") for name, content in headers}
    try:
        match named.get(VERDICT_HEADER):
            case "unique" | "undecidable" as verdict:
                return UniqueOutput(
                    source_position(named["firstseen-source"]),
                    named["firstseen-id"],
                    named["firstseen-reason"] if verdict == "undecidable" else "",
                )
            case "deleted" | "replaced" as reason:
                position = source_position(named["firstseen-source"])
                return TombstoneOutput(position, named["firstseen-id"], reason)
            case "duplicate" if "firstseen-original-source" in named:
                return _tagged_duplicate(named)
            case "duplicate":
                return _duplicate(decode_duplicate(value or b""))
            case None if f"{ERROR_HEADER_PREFIX}offset" in named and "firstseen-reason" in named:
                return DeadLetterOutput(
                    SourcePosition(
                        named[f"{ERROR_HEADER_PREFIX}topic"],
                        int(named[f"{ERROR_HEADER_PREFIX}partition"]),
                        int(named[f"{ERROR_HEADER_PREFIX}offset"]),
                    ),
                    named["firstseen-reason"],
                    named[f"{ERROR_HEADER_PREFIX}exception.message"],
                )
    except (KeyError, ValueError, msgspec.MsgspecError):
        pass  # it has our headers, but another form
    return None


def _tagged_duplicate(named: Mapping[str, str]) -> DuplicateOutput:
    """Read the headers: with ``mode=tag`` the value is the raw record's."""
    return DuplicateOutput(
        source_position(named["firstseen-source"]),
        named["firstseen-id"],
        source_position(named["firstseen-original-source"]),
        named["firstseen-original"],
        int(named["firstseen-distance"]),
        int(named["firstseen-bits"]),
        float(named["firstseen-similarity"]),
        named["firstseen-method"],
    )


def source_position(shown: str) -> SourcePosition:
    topic, slash, rest = shown.partition("/")
    partition, at, offset = rest.partition("@")
    if not (topic and slash and at and partition.isdecimal() and offset.isdecimal()):
        raise UsageError(f"{shown!r} is not topic/partition@offset")
    return SourcePosition(topic, int(partition), int(offset))


def _duplicate(record: DuplicateValue) -> DuplicateOutput | None:
    if record.schema not in READABLE_SCHEMAS:
        return None
    return DuplicateOutput(
        record.source.position(),
        record.id,
        record.original.source.position(),
        record.original.id,
        record.distance,
        record.bits,
        record.similarity,
        record.method,
    )
