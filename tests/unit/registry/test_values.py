"""Values and keys are decoded by schemas: types fit the fields, and no bytes do harm."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from fastavro import parse_schema, schemaless_writer
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from msgspec.structs import replace

from simhash_core.documents import Document, RawRecord, SourcePosition
from simhash_core.verdicts import Rejection
from simhash_core.verdicts import RejectionReason as R
from streams.documents.fields import FieldSettings
from streams.documents.json_values import UnreadableError
from streams.documents.raw_documents import DocumentReader, Tombstone
from streams.documents.schema_framing import KEY, VALUE, SchemaDecoders, SchemaId
from streams.registry.schema_cache import SchemaCache
from streams.registry.schemas import Decode, FetchedSchema, Reference, json_decoder
from tests.rigs.registry.schema_registry import SchemaRegistry
from tests.rigs.registry.serialized_records import SERIALIZERS

HERE = SourcePosition("raw", 0, 7)
KIB = 1024
FRAME = b"\x00\x00\x00\x00\x01"
"""The id of schema 1, before a value or a key."""
FORMATS: dict[str, Any] = {"AVRO": "avro", "JSON": "json-schema", "PROTOBUF": "protobuf"}
LOCAL_TIME = {"type": "long", "logicalType": "local-timestamp-millis"}
MICROSECONDS = {"type": "long", "logicalType": "timestamp-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
UUID_STRING = {"type": "string", "logicalType": "uuid"}
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


def read(fetched: FetchedSchema, content: bytes, **fields: str) -> Document | Rejection | Tombstone:
    names = replace(FieldSettings(format=FORMATS[fetched.kind]), **fields)
    cache = SchemaCache(names)
    cache.keep(SchemaId(1, ""), fetched)
    reader = DocumentReader(names, schemas=SchemaDecoders(cache))
    return reader.read(HERE, RawRecord(b"key", FRAME + content, 5))


def document(found: Document | Rejection | Tombstone) -> Document:
    assert isinstance(found, Document), found
    return found


def refusal(found: Document | Rejection | Tombstone) -> R:
    assert isinstance(found, Rejection), found
    return found.reason


def avro(schema: Any, value: Any) -> tuple[FetchedSchema, bytes]:  # noqa: ANN401 - as Avro has them
    stream = BytesIO()
    schemaless_writer(stream, parse_schema(schema), value)
    return FetchedSchema("AVRO", json.dumps(schema)), stream.getvalue()


def record_of(**types: Any) -> dict[str, Any]:  # noqa: ANN401 - as Avro has them
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return {"type": "record", "name": "R", "fields": fields}


def article(registry: SchemaRegistry, value_format: str) -> tuple[bytes, FetchedSchema]:
    """Return the content of an article from Confluent's serializer, and its schema."""
    value = SERIALIZERS[value_format](registry.client)(ARTICLE)
    body = registry.schemas[int.from_bytes(value[1:5], "big") - 1].body
    imported = next((each.body for each in registry.schemas if _is_meta(each.body)), body)
    references = tuple(Reference(each["name"], imported["schema"]) for each in body["references"])
    return value[5:], FetchedSchema(body["schemaType"], body["schema"], references)


def _is_meta(body: Mapping[str, Any]) -> bool:
    return body["schemaType"] == "PROTOBUF" and not body["references"]


@pytest.mark.parametrize("value_format", SERIALIZERS)
def test_article_of_a_serializer_has_every_field(
    registry: SchemaRegistry, value_format: str
) -> None:
    value, fetched = article(registry, value_format)
    found = read(fetched, value, scope="meta.tenant")
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
    ("types", "fields", "expected"),
    [
        ({}, {}, ("key", 5)),
        ({"id": UUID_STRING}, {"id": UUID(int=1)}, (str(UUID(int=1)), 5)),
        ({"id": "long"}, {"id": 7}, ("7", 5)),
        ({"id": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}, {"id": "B"}, ("B", 5)),
        (
            {"timestamp": MICROSECONDS},
            {"timestamp": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)},
            ("key", -1),
        ),
    ],
)
def test_types_of_avro_become_ids_and_times(
    types: dict[str, Any], fields: dict[str, Any], expected: tuple[str, int]
) -> None:
    found = document(read(*avro(record_of(text="string", **types), {"text": "x", **fields})))
    assert (found.id, found.event_time_ms) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [("string", "雪"), (["null", record_of(text=["null", "string"])], {"text": "雪"})],
)
def test_avro_may_be_a_text_alone_or_a_union(schema: object, value: object) -> None:
    assert document(read(*avro(schema, value))).text == "雪"


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (record_of(text="bytes"), {"text": b"x"}, R.WRONG_TYPE),
        (record_of(text=DECIMAL), {"text": Decimal("1.25")}, R.WRONG_TYPE),
        (record_of(text="string", id=DECIMAL), {"text": "x", "id": Decimal(1)}, R.WRONG_TYPE),
        (
            record_of(text="string", timestamp=["null", DECIMAL]),
            {"text": "x", "timestamp": Decimal(1)},
            R.BAD_TIMESTAMP,
        ),
        (DECIMAL, Decimal("1.25"), R.NOT_AN_OBJECT),
        (record_of(other="string"), {"other": "x"}, R.MISSING_TEXT),
        (
            record_of(text="string", timestamp=LOCAL_TIME),
            {"text": "x", "timestamp": datetime(2024, 1, 1)},  # noqa: DTZ001 - a local time
            R.BAD_TIMESTAMP,
        ),
        ("int", 7, R.NOT_AN_OBJECT),
        ("null", None, R.NOT_AN_OBJECT),
    ],
)
def test_avro_that_no_field_can_hold_is_refused(schema: object, value: object, reason: R) -> None:
    assert refusal(read(*avro(schema, value))) is reason


@pytest.mark.parametrize(
    "schema",
    [
        *("{", '"nothing"', '{"type": "record"}'),
        # A value of some thousand bytes would overflow the decoder's stack, and end the process.
        record_of(next=["null", "R"]),
        record_of(more={"type": "array", "items": "R"}),
        record_of(inner={"type": "map", "values": ["int", "R"]}),
        # A value of ten bytes would be a list of a trillion items.
        record_of(text={"type": "array", "items": "null"}),
        record_of(a={"type": "array", "items": record_of(b="null") | {"name": "B"}}),
        record_of(a={"type": "array", "items": {"type": "fixed", "size": 0, "name": "F"}}),
    ],
)
def test_invalid_or_harmful_avro_schemas_are_refused_before_decoding(schema: object) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    assert refusal(read(FetchedSchema("AVRO", text), b"\x02" * 10_000)) is R.BAD_SCHEMA


def test_avro_decimals_of_any_length_are_passed_over() -> None:
    """As numbers, these three would take 15 seconds, and one of a megabyte a minute."""
    fixed = {**DECIMAL, "type": "fixed", "name": "F", "size": 256 * KIB}
    schema = record_of(text="string", price=DECIMAL, paid=["null", fixed], due=["null", "F"])
    content = b"\x7f" * (256 * KIB)
    written = avro(schema, {"text": "x", "price": content, "paid": content, "due": content})
    began = time.process_time()
    document(read(*written))
    assert time.process_time() - began < 2.0


def avro_chain(length: int, *, twice: bool, leaf: str) -> str:
    """Return a union of records, each of which has the one before it once or twice."""
    schemas = [record_of(a=leaf) | {"name": "R0"}]
    for number in range(1, length):
        fields = {"a": f"R{number - 1}"} | ({"b": f"R{number - 1}"} if twice else {})
        schemas.append(record_of(**fields) | {"name": f"R{number}"})
    return json.dumps(schemas)


# With 20,000 types in each other, a value of four bytes overflowed the decoder's stack. With thirty
# records, each with the one before it twice, a byte was a billion values without bytes.
@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        (avro_chain(126, twice=False, leaf="int"), avro_chain(127, twice=False, leaf="int")),
        (avro_chain(30, twice=True, leaf="int"), avro_chain(30, twice=True, leaf="null")),
    ],
    ids=["types in each other", "values without bytes"],
)
def test_avro_schemas_of_too_many_types_or_empty_values_are_refused(
    allowed: str, refused: str
) -> None:
    assert refusal(read(FetchedSchema("AVRO", refused), b"\x3a")) is R.BAD_SCHEMA
    assert refusal(read(FetchedSchema("AVRO", allowed), b"\x00\x02")) is R.MISSING_TEXT


def test_reason_does_not_quote_a_large_schema_at_length() -> None:
    """A dead letter has 8 KiB more than its record, and four bytes are the most of a character."""
    schema = record_of(text="string", number="int")
    schema["fields"][1]["default"] = "\U0001f600" * 100_000
    found = read(FetchedSchema("AVRO", json.dumps(schema)), b"")
    assert isinstance(found, Rejection)
    assert found.detail.startswith("no Avro schema")
    assert len(found.detail.encode()) < 6 * KIB


def test_avro_types_may_be_used_twice_and_be_of_references() -> None:
    inner = record_of(text="string") | {"name": "Inner"}
    value = {"one": {"text": "a"}, "two": {"text": "b"}}
    twice, content = avro(record_of(one=inner, two="Inner"), value)
    text = json.dumps(record_of(one="Inner", two="Inner"))
    referring = FetchedSchema("AVRO", text, (Reference("Inner", json.dumps(inner)),))
    for schema in (twice, referring):
        assert document(read(schema, content, text="two.text")).text == "b"


def test_bytes_after_an_avro_value_are_not_of_the_schema() -> None:
    schema, content = avro(record_of(text="string"), {"text": "x"})
    found = read(schema, content + b"\x00")
    assert refusal(found) is R.NOT_OF_SCHEMA
    assert "1 bytes are left" in str(found)


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
    read(fetched, bytes(content[:cut]) + tail)


def reason_of(decode: Decode, content: bytes) -> tuple[R, str]:
    with pytest.raises(UnreadableError) as caught:
        decode(content)
    return caught.value.reason, caught.value.detail


def test_json_schema_refuses_by_rule_without_quoting_unless_not_validated() -> None:
    text = json.dumps({"properties": {"text": {"$ref": "low.json"}}, "required": ["text"]})
    schema = FetchedSchema("JSON", text, (Reference("low.json", '{"type": "string"}'),))
    decode = json_decoder(schema, validate=True)
    assert decode(b'{"text": "a"}') == {"text": "a"}
    assert reason_of(decode, b"[}")[0] is R.NOT_JSON
    reason, detail = reason_of(decode, b'{"text": 4711}')
    assert (reason, "4711" in detail) == (R.NOT_OF_SCHEMA, False)
    assert "properties/text/type" in detail
    assert json_decoder(schema, validate=False)(b'{"text": 4711}') == {"text": 4711}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^a+$"}, "aa"),
        ({"pattern": "^a+$"}, "ab"),
        ({"pattern": "^a+$"}, 7),
        ({"patternProperties": {"^n": {"type": "number"}}}, {"n1": 1, "m": "x"}),
        ({"patternProperties": {"^n": {"type": "number"}}}, {"n1": "x"}),
        ({"patternProperties": {"^n": False}}, ["n"]),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1}),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1, "b": 2}),
        ({"additionalProperties": False, "patternProperties": {"b$": {}}}, {"ab": 1}),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}),
        ({"additionalProperties": True}, {"a": 1}),
        ({"additionalProperties": False}, ["a"]),
    ],
)
def test_rules_with_patterns_mean_what_they_mean_to_jsonschema(
    schema: dict[str, object], value: object
) -> None:
    decode = json_decoder(FetchedSchema("JSON", json.dumps(schema), ()), validate=True)
    is_refused = False
    try:
        decode(json.dumps(value).encode())
    except UnreadableError as error:
        is_refused = error.reason is R.NOT_OF_SCHEMA
    assert is_refused is not Draft7Validator(schema).is_valid(value)


def test_patterns_may_name_classes_of_unicode() -> None:
    schema = FetchedSchema("JSON", json.dumps({"pattern": r"^\p{L}+$"}), ())
    decode = json_decoder(schema, validate=True)
    assert decode('"é文"'.encode()) == "é文"
    assert reason_of(decode, b'"a1"')[0] is R.NOT_OF_SCHEMA


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"text": {"pattern": "^(a|aa)+$"}}},
        {"additionalProperties": {"pattern": "^(a|aa)+$"}},
        {"patternProperties": {"^(a|aa)+$": {}}},
    ],
)
def test_a_pattern_that_takes_hours_refuses_the_value(schema: dict[str, object]) -> None:
    decode = json_decoder(FetchedSchema("JSON", json.dumps(schema), ()), validate=True)
    text = "a" * 60 + "b"
    reason, detail = reason_of(decode, json.dumps({"text": text, text: text}).encode())
    assert (reason, detail) == (
        R.NOT_OF_SCHEMA,
        "a pattern of its JSON Schema takes too long on it",
    )


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (
            "JSON",
            ["{", '{"type": 7}', '{"$ref": "http://127.0.0.1:1/elsewhere"}', '{"$ref": "#/no"}'],
        ),
        ("PROTOBUF", ['syntax = "proto3";', base64.b64encode(b"\xff").decode()]),
    ],
)
def test_unusable_schemas_are_refused(kind: str, texts: list[str]) -> None:
    for text in texts:
        assert refusal(read(FetchedSchema(kind, text), b"{}")) is R.BAD_SCHEMA


def test_a_text_alone_in_json_loses_lone_surrogates() -> None:
    """UTF-8 could not encode it, for the page of the worker for example."""
    assert document(read(FetchedSchema("JSON", '{"type": "string"}'), rb'"a\ud800b"')).text == "ab"


@pytest.mark.parametrize("name", ["value.proto", "text.proto"])
def test_protobuf_may_import_a_file_of_any_name(name: str) -> None:
    inner = FileDescriptorProto(name=name)
    field = {"name": "text", "number": 1, "type": FieldDescriptorProto.TYPE_STRING}
    inner.message_type.add(name="Inner").field.add(**field)
    outer = FileDescriptorProto(name="outer.proto", dependency=[name])
    field = {"name": "data", "number": 1, "type": FieldDescriptorProto.TYPE_MESSAGE}
    outer.message_type.add(name="Outer").field.add(**field, type_name=".Inner")
    packed, inner_packed = (
        base64.b64encode(file.SerializeToString()).decode() for file in (outer, inner)
    )
    schema = FetchedSchema("PROTOBUF", packed, (Reference(name, inner_packed),))
    assert document(read(schema, b"\x00\x0a\x03\x0a\x01x", text="data.text")).text == "x"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("items", "differ"),
    [
        ("[]", True),
        ('[1, true, 0, false, null, [], {}, "1", [1], [true]]', True),
        ("[1, 1.0]", False),
        ("[1e300, 1e400, 2e300]", True),
        ('[{"a": [1], "b": 2}, {"b": 2.0, "a": [1.0]}]', False),
        ('[{"a": 1}, {"a": true}]', True),
        ('["a", 1, "a"]', False),
        (json.dumps([each for n in range(50_000) for each in (n, str(n))]), True),
    ],
)
def test_items_of_any_number_and_kind_are_compared(items: str, differ: bool) -> None:
    """Compared each with each, as by jsonschema itself, the last would take ten minutes."""
    schema = FetchedSchema("JSON", '{"properties": {"items": {"uniqueItems": true}}}')
    found = read(schema, b'{"text": "x", "items": %s}' % items.encode())
    if differ:
        assert isinstance(found, Document), found
    else:
        assert refusal(found) is R.NOT_OF_SCHEMA
        assert "properties/items/uniqueItems" in str(found)


def test_bytes_of_no_protobuf_message_are_refused(registry: SchemaRegistry) -> None:
    _, fetched = article(registry, "protobuf")
    contents = (
        b"",
        b"\x02",
        b"\x02\x09",
        b"\xff" * 1_000_000,
        b"\x7f",
        b"\x02\x01",
        b"\x00\xff\xff",
    )
    for content in contents:
        assert refusal(read(fetched, content)) is R.NOT_OF_SCHEMA
    assert refusal(read(FetchedSchema("PROTOBUF", ""), b"\x00")) is R.NOT_OF_SCHEMA


def test_absent_text_of_proto3_is_empty() -> None:
    file = FileDescriptorProto(name="a.proto", syntax="proto3")
    field = {"name": "text", "number": 1, "type": FieldDescriptorProto.TYPE_STRING}
    file.message_type.add(name="A").field.add(**field)
    packed = base64.b64encode(file.SerializeToString()).decode()
    assert document(read(FetchedSchema("PROTOBUF", packed), b"\x00")).text == ""


STRING = FetchedSchema("AVRO", '"string"')


def read_key(
    schema: FetchedSchema,
    key: bytes | None,
    value: bytes | None = b'{"text": "x"}',
    **headers: bytes,
) -> Document | Rejection | Tombstone:
    fields = FieldSettings(key_format=FORMATS[schema.kind])
    cache = SchemaCache(fields, KEY)
    cache.keep(SchemaId(1, ""), schema)
    reader = DocumentReader(fields, schemas=SchemaDecoders(key=cache))
    return reader.read(HERE, RawRecord(key, value, 5, tuple(headers.items())))


@pytest.mark.parametrize(
    ("schema", "content", "document_id"),
    [
        ("string", b"\x06a-1", "a-1"),
        ("long", b"\x0e", "7"),
        (UUID_STRING, b"\x48" + str(UUID(int=1)).encode(), str(UUID(int=1))),
        (record_of(id="string"), b"\x06a-1", "a-1"),
        (None, b'"a-1"', "a-1"),
    ],
    ids=["string", "number", "uuid", "record", "json"],
)
def test_key_is_the_id_of_documents_and_tombstones(
    schema: object, content: bytes, document_id: str
) -> None:
    fetched = FetchedSchema("AVRO", json.dumps(schema)) if schema else FetchedSchema("JSON", "{}")
    assert document(read_key(fetched, FRAME + content)).id == document_id
    tombstone = read_key(fetched, FRAME + content, None)
    assert isinstance(tombstone, Tombstone)
    assert tombstone.document_id == document_id


def test_schema_id_may_be_in_the_header_of_keys() -> None:
    assert document(read_key(STRING, b"\x06a-1", **{KEY.id_header: FRAME})).id == "a-1"
    refusal(read_key(STRING, b"\x06a-1", **{VALUE.id_header: FRAME}))


@pytest.mark.parametrize(
    ("schema", "key", "reason"),
    [
        (STRING, b"a-1", R.NO_SCHEMA_ID),
        (STRING, FRAME + b"\x06a", R.NOT_OF_SCHEMA),
        (STRING, b"\x00\x00\x00\x00\x02a", R.UNKNOWN_SCHEMA),
        (FetchedSchema("AVRO", '"boolean"'), FRAME + b"\x01", R.WRONG_TYPE),
        (FetchedSchema("AVRO", '{"type": "fi'), FRAME + b"\x01", R.BAD_SCHEMA),
    ],
)
def test_records_with_unreadable_keys_are_refused(
    schema: FetchedSchema, key: bytes, reason: R
) -> None:
    for value in (b'{"text": "x"}', None):
        found = read_key(schema, key, value)
        assert refusal(found) is reason
        if reason is R.NO_SCHEMA_ID:
            assert "the key does not begin" in str(found)
            assert "fields.key_format" in str(found)


def test_key_is_not_read_where_it_is_not_needed() -> None:
    assert document(read_key(STRING, b"anything", b'{"text": "x", "id": "b-2"}')).id == "b-2"
    assert document(read_key(STRING, None)).id == str(HERE)
