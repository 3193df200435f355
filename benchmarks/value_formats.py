"""What it takes to read a raw record as a document: JSON, and the formats of a schema registry.

Records are made by Confluent's own serializers, and read as a worker reads them, once their schema
is there. Beside them stand Confluent's deserializers, which decode and make no document. What
counts is the processor's time.

    python -m benchmarks.value_formats [--documents FILE] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from benchmarks.report import Machine, Spread, add_json_option, machine, new_table, publish
from benchmarks.texts import add_text_options, texts_of
from simhash_core.documents import Document, RawRecord, SourcePosition
from streams.documents.fields import FieldSettings
from streams.documents.raw_documents import DocumentReader
from streams.documents.schema_framing import SchemaDecoders
from streams.registry.registry_client import RegistryClient
from streams.registry.schema_cache import SchemaCache, SchemaFetches
from streams.settings.registry import RegistrySettings
from tests.rigs.registry.schema_registry import SchemaRegistry
from tests.rigs.registry.serialized_records import SERIALIZERS, TOPIC

DOCUMENTS: Final = 1_000
ROUNDS: Final = 9

_HERE: Final = SourcePosition("raw", 0, 0)
_MICROSECONDS: Final = 1e6
_CONTEXT: Final = SerializationContext(TOPIC, MessageField.VALUE)
_BY_TOPIC: Final = {"subject.name.strategy.type": "TOPIC"}


class Format(msgspec.Struct, frozen=True):
    """One way to read: CPU µs a record."""

    name: str
    record_us: Spread


class Figures(msgspec.Struct, frozen=True):
    """All that is measured here."""

    machine: Machine
    documents: int
    rounds: int
    formats: list[Format]


def main() -> None:
    """Measure, and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_text_options(parser, DOCUMENTS)
    add_json_option(parser)
    options = parser.parse_args()
    articles = [
        {"id": str(number), "text": text, "title": "标题", "keywords": ["一", "二"]}
        | {"time_ms": 1_714_536_000_000 + number, "tenant": "t"}
        for number, text in enumerate(texts_of(options))
    ]
    with SchemaRegistry() as registry:
        ways = _ways(registry, articles)
        rounds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):  # in turns, so that a busy machine is busy for all
            for name, read in ways.items():
                began = time.process_time()
                read()
                seconds = time.process_time() - began
                rounds[name].append(seconds / len(articles) * _MICROSECONDS)
    formats = [Format(name, Spread.of(values)) for name, values in rounds.items()]
    figures = Figures(machine(), len(articles), ROUNDS, formats)
    table = new_table("Reading", "way to read", "CPU µs a record")
    for each in formats:
        table.add_row(each.name, each.record_us.shown(1))
    publish(figures, [table], options.json)


def _ways(
    registry: SchemaRegistry, articles: Sequence[dict[str, Any]]
) -> dict[str, Callable[[], object]]:
    """Return by name what reads all records once."""
    plain = [_record(_json(article)) for article in articles]
    ways: dict[str, Callable[[], object]] = {
        "json": _reading(DocumentReader(FieldSettings()), plain)
    }
    for value_format, serializer in SERIALIZERS.items():
        serialize = serializer(registry.client)
        records = [_record(serialize(article)) for article in articles]
        for validate in (True, False) if value_format == "json-schema" else (True,):
            name = value_format if validate else f"{value_format}, not validated"
            ways[name] = _reading(_reader(registry, value_format, records, validate), records)
            deserializer = _deserializer(registry, value_format, validate)
            if deserializer is not None:
                ways[f"{name}: Confluent's deserializer"] = _deserializing(deserializer, records)
    return ways


def _reader(
    registry: SchemaRegistry,
    value_format: Any,  # noqa: ANN401 - one of the literals of fields.format
    records: Sequence[RawRecord],
    validate: bool,  # noqa: FBT001 - as the table of ways has it
) -> DocumentReader:
    fields = FieldSettings(format=value_format)
    cache = SchemaCache(fields, validate=validate)
    client = RegistryClient(RegistrySettings(url=registry.url), value_format)
    values = [(record.headers, record.value or b"") for record in records]
    SchemaFetches(client, cache).fetch(cache.missing(values))
    client.close()
    return DocumentReader(fields, schemas=SchemaDecoders(cache))


def _reading(reader: DocumentReader, records: Sequence[RawRecord]) -> Callable[[], object]:
    assert isinstance(reader.read(_HERE, records[0]), Document)
    return lambda: [reader.read(_HERE, record) for record in records]


def _deserializer(registry: SchemaRegistry, value_format: str, validate: bool) -> Any:  # noqa: ANN401, FBT001 - one of two classes; of a table
    """Return Confluent's deserializer; None for Protobuf, where it needs a generated class."""
    if value_format == "avro":
        return AvroDeserializer(registry.client, conf=_BY_TOPIC)
    if value_format == "json-schema":
        conf = _BY_TOPIC | {"validate": validate}
        return JSONDeserializer(None, schema_registry_client=registry.client, conf=conf)
    return None


def _deserializing(deserializer: Any, records: Sequence[RawRecord]) -> Callable[[], object]:  # noqa: ANN401 - one of two classes
    assert deserializer(records[0].value, _CONTEXT)
    return lambda: [deserializer(record.value, _CONTEXT) for record in records]


def _record(value: bytes) -> RawRecord:
    return RawRecord(b"key", value, 0)


def _json(article: dict[str, Any]) -> bytes:
    fields = {name: article[name] for name in ("id", "text", "title", "keywords")}
    content = fields | {"timestamp": article["time_ms"], "meta": {"tenant": article["tenant"]}}
    return json.dumps(content, ensure_ascii=False).encode()


if __name__ == "__main__":
    main()
