"""Keys with a schema, which serve as ids of documents and of tombstones."""

from __future__ import annotations

from typing import Any

import pytest

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.verdicts import Rejection, RejectionReason
from streams.documents.fields import FieldSettings
from streams.documents.raw_documents import DocumentReader, Tombstone
from streams.documents.schema_framing import KEY, VALUE, SchemaDecoders, SchemaId
from streams.registry.schema_cache import SchemaCache
from streams.registry.schemas import FetchedSchema

HERE = SourcePosition("raw", 0, 7)
STRING = FetchedSchema("AVRO", '"string"')
LONG = FetchedSchema("AVRO", '"long"')
UUID_TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"
FRAME = b"\x00\x00\x00\x00\x01"
"""The id of schema 1, before a key."""


def read(
    schema: FetchedSchema,
    key: bytes | None,
    value: bytes | None = b'{"text": "x"}',
    **headers: bytes,
) -> Document | Rejection | Tombstone:
    """What a record is read as whose key has schema 1, which is Avro or JSON Schema."""
    key_format: Any = "avro" if schema.kind == "AVRO" else "json-schema"
    fields = FieldSettings(key_format=key_format)
    cache = SchemaCache(fields, KEY)
    cache.keep(SchemaId(1, ""), schema)
    reader = DocumentReader(fields, schemas=SchemaDecoders(key=cache))
    return reader.read(HERE, RawRecord(key, value, 5, tuple(headers.items())))


@pytest.mark.parametrize(
    ("schema", "content", "document_id"),
    [
        (STRING, b"\x06a-1", "a-1"),
        (LONG, b"\x0e", "7"),
        (
            FetchedSchema("AVRO", '{"type": "string", "logicalType": "uuid"}'),
            b"\x48" + UUID_TEXT.encode(),
            UUID_TEXT,
        ),
        (
            FetchedSchema(
                "AVRO",
                '{"type": "record", "name": "K", "fields": [{"name": "id", "type": "string"}]}',
            ),
            b"\x06a-1",
            "a-1",
        ),
        (FetchedSchema("JSON", "{}"), b'"a-1"', "a-1"),
    ],
    ids=["string", "number", "uuid", "record", "json"],
)
def test_key_is_the_id_of_a_document_and_of_a_tombstone(
    schema: FetchedSchema, content: bytes, document_id: str
) -> None:
    document = read(schema, FRAME + content)
    tombstone = read(schema, FRAME + content, None)
    assert isinstance(document, Document)
    assert document.id == document_id
    assert isinstance(tombstone, Tombstone)
    assert tombstone.document_id == document_id


def test_schema_id_may_be_in_the_header_of_keys() -> None:
    found = read(STRING, b"\x06a-1", **{KEY.id_header: FRAME})
    assert isinstance(found, Document)
    assert found.id == "a-1"
    other = read(STRING, b"\x06a-1", **{VALUE.id_header: FRAME})
    assert isinstance(other, Rejection)


@pytest.mark.parametrize(
    ("schema", "key", "reason"),
    [
        (STRING, b"a-1", RejectionReason.NO_SCHEMA_ID),
        (STRING, FRAME + b"\x06a", RejectionReason.NOT_OF_SCHEMA),
        (STRING, b"\x00\x00\x00\x00\x02a", RejectionReason.UNKNOWN_SCHEMA),
        (FetchedSchema("AVRO", '"boolean"'), FRAME + b"\x01", RejectionReason.WRONG_TYPE),
        (FetchedSchema("AVRO", '{"type": "fi'), FRAME + b"\x01", RejectionReason.BAD_SCHEMA),
    ],
)
def test_record_with_an_unreadable_key_is_refused(
    schema: FetchedSchema, key: bytes, reason: RejectionReason
) -> None:
    for value in (b'{"text": "x"}', None):
        found = read(schema, key, value)
        assert isinstance(found, Rejection)
        assert found.reason is reason


def test_key_is_not_read_where_it_is_not_needed() -> None:
    found = read(STRING, b"anything", b'{"text": "x", "id": "b-2"}')
    assert isinstance(found, Document)
    assert found.id == "b-2"
    without = read(STRING, None)
    assert isinstance(without, Document)
    assert without.id == str(HERE)


def test_message_names_the_setting_of_keys() -> None:
    found = read(STRING, b"a-1")
    assert isinstance(found, Rejection)
    assert "the key does not begin" in found.detail
    assert "fields.key_format" in found.detail
