"""Values by their schemas: types become what fields take, and no bytes do harm."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.verdicts import Rejection, RejectionReason
from streams.documents.fields import FieldSettings
from streams.documents.json_values import UnreadableError
from streams.documents.raw_documents import DocumentReader
from streams.documents.schema_framing import SchemaDecoders, SchemaId
from streams.registry.schema_cache import SchemaCache
from streams.registry.schemas import Decode, FetchedSchema, Reference, json_decoder
from tests.rigs.registry.schema_registry import SchemaRegistry
from tests.rigs.registry.serialized_records import SERIALIZERS

HERE = SourcePosition("raw", 0, 0)
ARTICLE = {
    "id": "a-1",
    "text": "北京今天下雪了",
    "title": "初雪",
    "keywords": ["北京", "雪"],
    "time_ms": 1_714_536_000_123,
    "tenant": "t1",
}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as opened:
        yield opened


def reader(value_format: Any, fetched: FetchedSchema, **fields: Any) -> DocumentReader:  # noqa: ANN401 - a literal
    names = FieldSettings(format=value_format, **fields)
    cache = SchemaCache(names)
    cache.keep(SchemaId(1, ""), fetched)
    return DocumentReader(names, schemas=SchemaDecoders(cache))


def read(
    value_format: str, fetched: FetchedSchema, content: bytes, **fields: str
) -> Document | Rejection:
    record = RawRecord(b"key", b"\x00\x00\x00\x00\x01" + content, 5)
    found = reader(value_format, fetched, **fields).read(HERE, record)
    assert isinstance(found, Document | Rejection)
    return found


def avro(schema: Any, value: Any) -> tuple[FetchedSchema, bytes]:  # noqa: ANN401 - as Avro has them
    stream = BytesIO()
    schemaless_writer(stream, parse_schema(schema), value)
    return FetchedSchema("AVRO", json.dumps(schema)), stream.getvalue()


def record_of(**types: Any) -> dict[str, Any]:  # noqa: ANN401 - as Avro has them
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return {"type": "record", "name": "R", "fields": fields}


def article(registry: SchemaRegistry, value_format: str) -> tuple[bytes, FetchedSchema]:
    """The content of an article that Confluent's serializer made, and its schema."""
    value = SERIALIZERS[value_format](registry.client)(ARTICLE)
    body = registry.schemas[int.from_bytes(value[1:5], "big") - 1].body
    imported = next((each.body for each in registry.schemas if _is_meta(each.body)), body)
    references = tuple(Reference(each["name"], imported["schema"]) for each in body["references"])
    return value[5:], FetchedSchema(body["schemaType"], body["schema"], references)


def _is_meta(body: Mapping[str, Any]) -> bool:
    """Whether a schema is of the file that the other Protobuf file imports."""
    return body["schemaType"] == "PROTOBUF" and not body["references"]


@pytest.mark.parametrize("value_format", SERIALIZERS)
def test_article_of_a_real_serializer_has_every_field(
    registry: SchemaRegistry, value_format: str
) -> None:
    value, fetched = article(registry, value_format)
    found = read(value_format, fetched, value, scope="meta.tenant")
    assert found == Document(
        id="a-1",
        text="北京今天下雪了",
        source=HERE,
        event_time_ms=1_714_536_000_123,
        title="初雪",
        keywords=("北京", "雪"),
        scope="t1",
    )


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (record_of(text="string"), {"text": "雪"}, ("key", "雪", 5)),
        (
            record_of(text="string", id={"type": "string", "logicalType": "uuid"}),
            {"text": "雪", "id": UUID(int=1)},
            ("00000000-0000-0000-0000-000000000001", "雪", 5),
        ),
        (record_of(text="string", id="long"), {"text": "雪", "id": 7}, ("7", "雪", 5)),
        (
            record_of(text="string", timestamp={"type": "long", "logicalType": "timestamp-micros"}),
            {"text": "雪", "timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)},
            ("key", "雪", -1),
        ),
        (
            record_of(text="string", id={"type": "enum", "name": "E", "symbols": ["RED", "BLUE"]}),
            {"text": "雪", "id": "BLUE"},
            ("BLUE", "雪", 5),
        ),
        ("string", "雪", ("key", "雪", 5)),
        (["null", record_of(text=["null", "string"])], {"text": "雪"}, ("key", "雪", 5)),
    ],
)
def test_types_of_avro_become_ids_texts_and_times(
    schema: object, value: object, expected: tuple[str, str, int]
) -> None:
    found = read("avro", *avro(schema, value))
    assert isinstance(found, Document), found
    assert (found.id, found.text, found.event_time_ms) == expected


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (record_of(text="bytes"), {"text": b"x"}, RejectionReason.WRONG_TYPE),
        (record_of(other="string"), {"other": "x"}, RejectionReason.MISSING_TEXT),
        (
            record_of(
                text="string", timestamp={"type": "long", "logicalType": "local-timestamp-millis"}
            ),
            {"text": "x", "timestamp": datetime(2024, 1, 1)},  # noqa: DTZ001 - a local time
            RejectionReason.BAD_TIMESTAMP,
        ),
        ("int", 7, RejectionReason.NOT_AN_OBJECT),
        ("null", None, RejectionReason.NOT_AN_OBJECT),
    ],
)
def test_avro_that_no_field_can_hold_is_refused_as_json_is(
    schema: object, value: object, reason: RejectionReason
) -> None:
    found = read("avro", *avro(schema, value))
    assert isinstance(found, Rejection)
    assert found.reason is reason


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '"nothing"',
        '{"type": "record"}',
        # A value of some thousand bytes would overflow the decoder's stack, and end the process.
        json.dumps(record_of(next=["null", "R"])),
        json.dumps(record_of(more={"type": "array", "items": "R"})),
        json.dumps(record_of(inner={"type": "map", "values": ["int", "R"]})),
        # A value of ten bytes would be a list of a trillion items.
        json.dumps(record_of(text={"type": "array", "items": "null"})),
        json.dumps(record_of(a={"type": "array", "items": record_of(b="null") | {"name": "B"}})),
        json.dumps(
            record_of(a={"type": "array", "items": {"type": "fixed", "size": 0, "name": "F"}})
        ),
    ],
)
def test_invalid_or_harmful_avro_schemas_are_refused_before_decoding(text: str) -> None:
    found = read("avro", FetchedSchema("AVRO", text), b"\x02" * 10_000)
    assert isinstance(found, Rejection)
    assert found.reason is RejectionReason.BAD_SCHEMA


def test_avro_type_that_two_fields_have_is_not_recursive() -> None:
    inner = record_of(text="string") | {"name": "Inner"}
    schema, content = avro(
        record_of(one=inner, two="Inner"), {"one": {"text": "a"}, "two": {"text": "b"}}
    )
    found = read("avro", schema, content, text="two.text")
    assert isinstance(found, Document), found
    assert found.text == "b"


def test_bytes_after_an_avro_value_are_not_of_the_schema() -> None:
    schema, content = avro(record_of(text="string"), {"text": "x"})
    found = read("avro", schema, content + b"\x00")
    assert isinstance(found, Rejection)
    assert (found.reason, "1 bytes are left" in found.detail) == (
        RejectionReason.NOT_OF_SCHEMA,
        True,
    )


@pytest.mark.parametrize("value_format", SERIALIZERS)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(
    registry: SchemaRegistry, value_format: str, data: st.DataObject
) -> None:
    value, fetched = article(registry, value_format)
    content = bytearray(value)
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=4)
    ):
        content[place] = byte
    cut = data.draw(st.integers(0, len(content)))
    tail = data.draw(st.binary(max_size=8))
    read(value_format, fetched, bytes(content[:cut]) + tail)


def reason_of(decode: Decode, content: bytes) -> tuple[RejectionReason, str]:
    with pytest.raises(UnreadableError) as caught:
        decode(content)
    return caught.value.reason, caught.value.detail


def test_json_schema_refuses_by_rule_without_quoting_unless_not_validated() -> None:
    text = json.dumps({"properties": {"text": {"$ref": "low.json"}}, "required": ["text"]})
    schema = FetchedSchema("JSON", text, (Reference("low.json", '{"type": "string"}'),))
    decode = json_decoder(schema, validate=True)
    assert decode(b'{"text": "a"}') == {"text": "a"}
    assert reason_of(decode, b"[}")[0] is RejectionReason.NOT_JSON
    reason, detail = reason_of(decode, b'{"text": 4711}')
    assert (reason, "4711" in detail) == (RejectionReason.NOT_OF_SCHEMA, False)
    assert "properties/text/type" in detail
    assert json_decoder(schema, validate=False)(b'{"text": 4711}') == {"text": 4711}


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("{", b"{}"),
        ('{"type": 7}', b"{}"),
        ('{"$ref": "http://127.0.0.1:1/elsewhere"}', b"{}"),
        ('{"$ref": "#/nowhere"}', b"{}"),
    ],
)
def test_unusable_json_schemas_are_refused_and_no_other_server_is_asked(
    text: str, content: bytes
) -> None:
    found = read("json-schema", FetchedSchema("JSON", text), content)
    assert isinstance(found, Rejection)
    assert found.reason is RejectionReason.BAD_SCHEMA


@pytest.mark.parametrize(
    "content",
    [b"", b"\x02", b"\x02\x09", b"\xff" * 1_000_000, b"\x7f", b"\x02\x01", b"\x00\xff\xff"],
    ids=len,
)
def test_bytes_of_no_protobuf_message_are_refused_at_once(
    registry: SchemaRegistry, content: bytes
) -> None:
    _, fetched = article(registry, "protobuf")
    found = read("protobuf", fetched, content)
    assert isinstance(found, Rejection)
    assert found.reason is RejectionReason.NOT_OF_SCHEMA


@pytest.mark.parametrize("text", ['syntax = "proto3";', "", base64.b64encode(b"\xff").decode()])
def test_protobuf_without_a_descriptor_is_refused(text: str) -> None:
    found = read("protobuf", FetchedSchema("PROTOBUF", text), b"\x00")
    assert isinstance(found, Rejection)
    assert found.reason in {RejectionReason.BAD_SCHEMA, RejectionReason.NOT_OF_SCHEMA}
