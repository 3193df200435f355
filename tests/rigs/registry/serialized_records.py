"""Records of Confluent's own serializers, as producers make them; these register the schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass

TOPIC: Final = "articles"
Serialize = Callable[[Mapping[str, Any]], bytes]
"""Makes a value from an article.

It has ``id``, ``text``, ``title``, ``keywords``, ``time_ms`` and ``tenant``.
"""

META_SCHEMA: Final = {
    "type": "record",
    "name": "Meta",
    "fields": [{"name": "tenant", "type": "string"}],
}
AVRO_SCHEMA: Final = {
    "type": "record",
    "name": "Article",
    "namespace": "org.example",
    "fields": [
        {"name": "id", "type": ["null", "string"], "default": None},
        {"name": "text", "type": "string"},
        {"name": "title", "type": ["null", "string"], "default": None},
        {"name": "keywords", "type": {"type": "array", "items": "string"}},
        {
            "name": "timestamp",
            "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        },
        {"name": "meta", "type": META_SCHEMA},
    ],
}

_BY_TOPIC: Final = {"subject.name.strategy.type": "TOPIC"}

JSON_SCHEMA: Final = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Article",
    "type": "object",
    "required": ["text"],
    "properties": {
        "id": {"type": "string"},
        "text": {"type": "string"},
        "title": {"type": "string"},
        "keywords": {"type": "array", "items": {"type": "string"}},
        "timestamp": {"type": "integer"},
        "meta": {"type": "object", "properties": {"tenant": {"type": "string"}}},
    },
}


def avro(client: SchemaRegistryClient) -> Serialize:
    serializer = AvroSerializer(client, json.dumps(AVRO_SCHEMA), conf=_BY_TOPIC)
    return lambda article: _made(
        serializer,
        _fields(article, timestamp=datetime.fromtimestamp(article["time_ms"] / 1000, UTC)),
    )


def json_schema(client: SchemaRegistryClient) -> Serialize:
    serializer = JSONSerializer(json.dumps(JSON_SCHEMA), client, conf=_BY_TOPIC)
    return lambda article: _made(serializer, _fields(article, timestamp=article["time_ms"]))


def protobuf(client: SchemaRegistryClient) -> Serialize:
    """Return a serializer of articles in Protobuf: the second message of a file with an import."""
    article_class = GetMessageClass(_article_descriptor())
    conf = {**_BY_TOPIC, "use.deprecated.format": False}
    serializer = ProtobufSerializer(article_class, client, conf)

    def serialize(article: Mapping[str, Any]) -> bytes:
        message = article_class(**_fields(article))
        message.timestamp.FromMilliseconds(article["time_ms"])
        return _made(serializer, message)

    return serialize


SERIALIZERS: Final[Mapping[str, Callable[[SchemaRegistryClient], Serialize]]] = {
    "avro": avro,
    "protobuf": protobuf,
    "json-schema": json_schema,
}
"""Serializers by ``fields.format``; each takes a registry's client (``SchemaRegistry.client``)."""


def _made(serializer: Any, value: object) -> bytes:  # noqa: ANN401 - one of three classes
    made = serializer(value, SerializationContext(TOPIC, MessageField.VALUE))
    assert isinstance(made, bytes)
    return made


def _fields(article: Mapping[str, Any], **others: object) -> dict[str, Any]:
    fields = {name: article[name] for name in ("id", "text", "title", "keywords")}
    return {**fields, "meta": {"tenant": article["tenant"]}, **others}


@cache
def _article_descriptor() -> Any:  # noqa: ANN401 - Protobuf has no types
    """Return the descriptor of an article, as protoc makes it from two small files."""
    pool = descriptor_pool.Default()
    options = {"package": "org.example", "syntax": "proto3"}
    meta = descriptor_pb2.FileDescriptorProto(name="example/meta.proto", **options)
    _add_field(meta.message_type.add(name="Meta"), "tenant", 1)
    article_file = descriptor_pb2.FileDescriptorProto(name="example/article.proto", **options)
    article_file.dependency.extend([timestamp_pb2.DESCRIPTOR.name, meta.name])
    article_file.message_type.add(name="Unused")
    message = article_file.message_type.add(name="Article")
    for number, name in enumerate(("id", "text", "title"), 1):
        _add_field(message, name, number)
    _add_field(message, "keywords", 4, repeated=True)
    _add_field(message, "timestamp", 5, of=".google.protobuf.Timestamp")
    _add_field(message, "meta", 6, of=".org.example.Meta")
    for file in (meta, article_file):
        pool.Add(file)
    return pool.FindMessageTypeByName("org.example.Article")


def _add_field(
    message: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    *,
    repeated: bool = False,
    of: str | None = None,
) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=number)
    field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
    field.type = kinds.TYPE_STRING if of is None else kinds.TYPE_MESSAGE
    if of is not None:
        field.type_name = of
