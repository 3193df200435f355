"""Turns each raw record into a document, a tombstone, or a rejection."""

from __future__ import annotations

from typing import Final

import msgspec

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.verdicts import Rejection, RejectionReason
from streams.documents.cloudevents import TEXT_PLAIN, Content, unwrap
from streams.documents.fields import (
    Field,
    FieldSettings,
    checked_id,
    checked_time_ms,
    identifier_of,
)
from streams.documents.json_values import (
    UnreadableError,
    decode_json,
    decode_text,
    type_named,
    without_surrogates,
)
from streams.documents.schema_framing import (
    NO_SCHEMAS,
    SCHEMA_FORMATS,
    SchemaDecoder,
    SchemaDecoders,
)

MAX_RECORD_BYTES: Final = 1 << 20  # the default limit of a record: key, value and headers together


class Tombstone(msgspec.Struct, frozen=True, array_like=True):
    """A null value with a key: the document with that id is to be deleted."""

    source: SourcePosition
    record: RawRecord
    document_id: str


class DocumentReader:
    """Reads raw records; it has no state, and never raises for a record's content."""

    def __init__(
        self,
        fields: FieldSettings,
        max_record_bytes: int = MAX_RECORD_BYTES,
        schemas: SchemaDecoders = NO_SCHEMAS,
        *,
        kept_bytes: int | None = None,
    ) -> None:
        """``schemas`` decode ``SCHEMA_FORMATS``; without them such a format acts as ``auto``.

        ``kept_bytes`` is how much a rejection keeps of a larger record; by default the same.
        """
        if max_record_bytes < 1:
            raise UsageError(f"max_record_bytes is {max_record_bytes}: it must be 1 or more")
        self.fields = fields
        self.max_record_bytes = max_record_bytes
        self._kept_bytes = max_record_bytes if kept_bytes is None else kept_bytes
        self._schemas = schemas.value if fields.format in SCHEMA_FORMATS else None
        self._key_schemas = schemas.key if fields.key_format in SCHEMA_FORMATS else None
        self._format = "auto" if fields.format in SCHEMA_FORMATS else fields.format
        self._text = Field(fields.text)
        self._id = Field(fields.id)
        self._title = Field(fields.title)
        self._keywords = Field(fields.keywords)
        self._tags = Field(fields.tags)
        self._references = Field(fields.references)
        self._timestamp = Field(fields.timestamp)
        self._scope = Field(fields.scope)
        optional = (self._title, self._keywords, self._tags, self._references)
        self._optional: Final[frozenset[str]] = frozenset().union(
            *(each.roots for each in (*optional, self._timestamp, self._scope))
        )

    def read(self, source: SourcePosition, record: RawRecord) -> Document | Rejection | Tombstone:
        """Read ``record``; all strings in the result can be encoded as UTF-8."""
        size = record_bytes(record)
        if size > self.max_record_bytes:
            return self._too_large(source, record, size)
        try:
            if record.value is None:
                return self._tombstone(source, record)
            content = unwrap(record, record.value)
            fields = self._decode(content, record)
            if isinstance(fields, str):
                return Document(
                    id=self._fallback_id(source, record, content),
                    text=fields,
                    source=source,
                    event_time_ms=_fallback_time_ms(record, content),
                )
            return self._document(source, record, content, fields)
        except UnreadableError as error:
            return Rejection(source, record, error.reason, error.detail)

    def without_headers(self, source: SourcePosition, record: RawRecord) -> Rejection:
        """Refuse a record whose headers the client cannot read; ``record`` has none of them."""
        size = record_bytes(record)
        if size > self.max_record_bytes:
            return self._too_large(source, record, size, lost_headers=True)
        return Rejection(
            source,
            record,
            RejectionReason.NOT_UTF8,
            "the name of a header is not UTF-8: encode names in UTF-8 (headers left out; the whole "
            f"record is at {source})",
        )

    def _decode(self, content: Content, record: RawRecord) -> dict[str, object] | str:
        data = content.data
        wanted = self._format
        if data is None:
            raise UnreadableError(RejectionReason.MISSING_TEXT, "the CloudEvent has no data")
        if self._schemas is not None:
            return self._decode_by_schema(self._schemas, data, record)
        if wanted == "text" or (wanted == "auto" and content.media_type == TEXT_PLAIN):
            if isinstance(data, bytes):
                return decode_text(data)
            # The data of an envelope is read as a field named "data".
            text = Field("data").string({"data": data})
            assert text is not None
            return text
        fields = decode_json(data) if isinstance(data, bytes) else data
        if not isinstance(fields, dict):
            raise UnreadableError(
                RejectionReason.NOT_AN_OBJECT,
                f"the value is {type_named(fields)}: send an object with the field "
                f'"{self._text.name}", or plain text with fields.format = "text"',
            )
        return fields

    def _decode_by_schema(
        self, schemas: SchemaDecoder, data: object, record: RawRecord
    ) -> dict[str, object] | str:
        if not isinstance(data, bytes):
            raise UnreadableError(
                RejectionReason.NO_SCHEMA_ID,
                "a structured CloudEvent is JSON, which has no id of a schema: send binary events",
            )
        decoded = schemas.decode(record.headers, data)
        if isinstance(decoded, str):
            return without_surrogates(decoded)
        if isinstance(decoded, dict):
            return decoded
        raise UnreadableError(
            RejectionReason.NOT_AN_OBJECT,
            f"the value is {type_named(decoded)}: its schema must be of named fields, or of a text",
        )

    def _document(
        self, source: SourcePosition, record: RawRecord, content: Content, fields: dict[str, object]
    ) -> Document:
        text = self._text.string(fields)
        if text is None:
            raise UnreadableError(
                RejectionReason.MISSING_TEXT,
                f'no field "{self._text.name}", or its value is null: '
                "send one, or set fields.text to the field that holds the text",
            )
        has_more = not self._optional.isdisjoint(fields)  # most documents have no other field
        event_time_ms = self._timestamp.time_ms(fields) if has_more else None
        if event_time_ms is None:
            event_time_ms = _fallback_time_ms(record, content)
        document_id = self._id.identifier(fields) or self._fallback_id(source, record, content)
        if not has_more:
            return Document(document_id, text, source, event_time_ms)
        return Document(
            id=document_id,
            text=text,
            source=source,
            event_time_ms=event_time_ms,
            title=self._title.string(fields) or "",
            keywords=self._keywords.strings(fields),
            tags=self._tags.strings(fields),
            references=self._references.strings(fields),
            scope=self._scope.identifier(fields) or "",
        )

    def _tombstone(self, source: SourcePosition, record: RawRecord) -> Tombstone:
        document_id = self._key_as_id(record)
        if document_id is None:
            raise UnreadableError(
                RejectionReason.NULL_VALUE,
                "null value, and no key that could be a document's id: to delete a document, "
                "send its id as the key; otherwise send a value",
            )
        _record_time_ms(record)
        return Tombstone(source, record, document_id)

    def _fallback_id(self, source: SourcePosition, record: RawRecord, content: Content) -> str:
        if content.event_id is not None:
            return checked_id(content.event_id, "the CloudEvent's id")
        return self._key_as_id(record) or str(source)

    def _key_as_id(self, record: RawRecord) -> str | None:
        """Return the key as an id, None where it is absent, empty, or not UTF-8."""
        if not record.key:
            return None
        if self._key_schemas is not None:
            key = self._key_schemas.decode(record.headers, record.key)
            if isinstance(key, dict):
                return self._id.identifier(key)
            return identifier_of(key, "the key, which is the id,")
        try:
            return checked_id(record.key.decode(), "the key, which is the id,")
        except UnicodeDecodeError:
            return None

    def _too_large(
        self, source: SourcePosition, record: RawRecord, size: int, *, lost_headers: bool = False
    ) -> Rejection:
        """Return a rejection with key and headers if they fit, then what fits of the value."""
        kept = msgspec.structs.replace(record, value=None)
        cut = ["headers left out"] if lost_headers else []
        if kept.headers and record_bytes(kept) > self._kept_bytes:
            kept = msgspec.structs.replace(kept, headers=())
            cut.append("headers left out")
        if record_bytes(kept) > self._kept_bytes:
            kept = msgspec.structs.replace(kept, key=None)
            cut.append("key left out")
        if record.value is not None:
            first = record.value[: self._kept_bytes - record_bytes(kept)]
            kept = msgspec.structs.replace(kept, value=first or None)
            if len(first) < len(record.value):
                cut.append(f"value cut to its first {len(first)} of {len(record.value)} bytes")
        here = f"{', '.join(cut)}; the whole record is at {source}" if cut else "complete"
        return Rejection(
            source,
            kept,
            RejectionReason.TOO_LARGE,
            f"{size} bytes in key, value and headers, max_record_bytes is {self.max_record_bytes}: "
            f"raise it, or send less ({here})",
            record_bytes(kept),
            size,
        )


def record_bytes(record: RawRecord) -> int:
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name if name.isascii() else name.encode(errors="surrogatepass"))
        size += len(value or b"")
    return size


def _fallback_time_ms(record: RawRecord, content: Content) -> int:
    if content.event_time is not None:
        return checked_time_ms(content.event_time, "the CloudEvent's time")
    return _record_time_ms(record)


def _record_time_ms(record: RawRecord) -> int:
    """Return the record's own time; raise ``UnreadableError`` outside the years 1 to 9999."""
    return checked_time_ms(record.timestamp_ms, "the record's own timestamp")
