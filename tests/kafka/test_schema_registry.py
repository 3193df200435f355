"""Whole workers read Avro, Protobuf and JSON Schema, with a registry that is sometimes down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from streams.corpus.corpus import generate
from streams.errors import ExitCode
from tests.kafka.stream_changes import send_and_settle
from tests.rigs.brokers.broker import Broker
from tests.rigs.registry.schema_registry import SchemaRegistry
from tests.rigs.registry.serialized_records import SERIALIZERS
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import await_that, value

DOCUMENTS = 200
UNKNOWN = b"\x00\x00\x00\x03\xe7"
"""The id of a schema that is not registered."""
TIME_MS = 1_714_536_000_000
LONG = 200
"""The length of a text that is long enough for a fingerprint, in characters."""
WAITING = "firstseen_registry_waiting"


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as opened:
        yield opened


def articles(count: int) -> list[dict[str, Any]]:
    """Return documents of the demo's generator as articles; about a third are repeats."""
    made: list[dict[str, Any]] = []
    for record in generate(5, 2 * count):
        try:
            content = json.loads(record.value or b"")
        except ValueError:
            continue
        if isinstance(content, dict) and isinstance(content.get("text"), str) and record.id:
            title = content.get("title")
            article = {"id": record.id, "text": content["text"], "keywords": ["k"], "tenant": "t"}
            article["title"] = title if isinstance(title, str) else ""
            made.append({**article, "time_ms": TIME_MS + len(made)})
    return made[:count]


def options(registry: SchemaRegistry, value_format: str) -> list[str]:
    return [f"fields.format={value_format}", f"registry.url={registry.url}"]


def check_all_are_documents(stream: Stream) -> None:
    outputs = stream.settle()
    assert outputs.dead_letters == {}
    assert stream.judge.conserved(stream.sent, outputs) == 0


@pytest.mark.parametrize("value_format", SERIALIZERS)
def test_a_stream_of_each_format(
    embedded_broker: Broker, registry: SchemaRegistry, tmp_path: Path, value_format: str
) -> None:
    serialize = SERIALIZERS[value_format](registry.client)
    records = [
        Raw(each["id"].encode(), serialize(each), timestamp_ms=TIME_MS)
        for each in articles(DOCUMENTS)
    ]
    first = records[0].value
    assert first is not None
    number = int.from_bytes(first[1:5], "big")
    odd = registry.register("odd", {"schema": "{", "schemaType": "THRIFT"})
    bad = {
        b"plain": (b"{}", "no_schema_id"),
        b"empty": (b"", "no_schema_id"),
        b"unknown": (UNKNOWN + first[5:], "unknown_schema"),
        b"impossible": (b"\x00\xff\xff\xff\xff" + first[5:], "unknown_schema"),
        b"guid": (b"\x01" + bytes(16) + first[5:], "unknown_schema"),
        b"wrong kind": (b"\x00" + odd.number.to_bytes(4, "big") + b"x", "bad_schema"),
        b"cut": (first[:-3], "not_json" if value_format == "json-schema" else "not_of_schema"),
    }
    records += [Raw(key, content, timestamp_ms=TIME_MS) for key, (content, _) in bad.items()]
    with Stream(embedded_broker, tmp_path, options=options(registry, value_format)) as stream:
        stream.started()
        outputs = send_and_settle(stream, records)
        assert registry.asked[f"GET /schemas/ids/{number}"] == 1
        assert stream.judge.conserved(stream.sent, outputs) == 0
        assert stream.judge.unchanged(stream.sent, outputs) == len(outputs.uniques)
        assert stream.judge.grounded(stream.sent, outputs) == len(outputs.duplicates)
        assert stream.judge.valid(outputs) == len(outputs.duplicates)
        stream.judge.separated(stream.sent, outputs)
        assert len(outputs.uniques) > DOCUMENTS / 3
        assert len(outputs.duplicates) > DOCUMENTS / 8
        reasons = {stream.sent[source].key: said for source, said in outputs.dead_letters.items()}
        assert {key: said.reason for key, said in reasons.items()} == {
            key: reason for key, (_, reason) in bad.items()
        }
        for source in outputs.dead_letters:
            (output,) = outputs.of(source)
            assert output.record.value == stream.sent[source].value


def test_a_registry_that_is_away_is_waited_for_by_a_worker_that_can_be_ended(
    embedded_broker: Broker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    serialize = SERIALIZERS["avro"](registry.client)
    values = [serialize(each) for each in articles(30)]
    known = [Raw(None, each, partition=0) for each in values[:10]]
    # The same fields, under another id.
    schema = json.loads(registry.schemas[0].body["schema"]) | {"doc": "another"}
    second = registry.register("second", {"schema": json.dumps(schema)})
    head = b"\x00" + second.number.to_bytes(4, "big")
    others = [Raw(None, head + each[5:], partition=0) for each in values[10:]]
    settings = [*options(registry, "avro"), "stall_seconds=2"]
    with Stream(embedded_broker, tmp_path, options=settings, raw_partitions=1) as stream:
        worker = stream.started()
        send_and_settle(stream, known)
        registry.close()
        send_and_settle(stream, known)
        stream.send(others)
        for end in (worker.stop_gently, worker.kill):
            worker.await_log("the schema registry does not answer")
            end()
            worker.log.unlink()
            worker.start()
        worker.await_log("the schema registry does not answer")
        await_that("it waits", lambda: value(worker, WAITING) == 1, worker)
        registry.broken = 500
        registry.open()
        asked = f"GET /schemas/ids/{second.number}"
        # Longer than stall_seconds: each wait is twice the one before.
        await_that("it asks again", lambda: registry.asked[asked] > 3, worker)
        status, why = worker._get("/readyz")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert "the schema registry does not answer" in why
        assert worker._get("/healthz")[0] == HTTPStatus.OK
        assert stream.open == len(others)
        registry.broken = 0
        check_all_are_documents(stream)
        worker.await_log("the schema registry answers again")
        assert value(worker, WAITING) == 0
        worker.stop_gently()


def test_a_registry_that_refuses_the_user_ends_the_worker(
    embedded_broker: Broker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    serialize = SERIALIZERS["avro"](registry.client)
    records = [Raw(None, serialize(each)) for each in articles(5)]
    registry.password = "worker:right"  # noqa: S105 - of a registry of this test
    user = "registry.username=worker"
    with Stream(embedded_broker, tmp_path, options=options(registry, "avro")) as stream:
        worker = stream.started(user, "registry.password=wrong")
        stream.send(records)

        assert worker.await_end() == ExitCode.CONFIGURATION
        last = worker.log_text().splitlines()[-1]
        assert last.startswith("firstseen: the schema registry")
        assert "HTTP 401" in last
        assert "registry.username" in last
        stream.started(user, "registry.password=right")
        check_all_are_documents(stream)


def test_ids_are_keys_with_a_schema(
    embedded_broker: Broker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    schema = json.dumps({"type": "string"})
    of_key = AvroSerializer(registry.client, schema, conf={"subject.name.strategy.type": "TOPIC"})

    def key(document_id: str) -> bytes:
        made = of_key(document_id, SerializationContext("articles", MessageField.KEY))
        assert isinstance(made, bytes)
        return made

    texts = [each["text"] for each in articles(40) if len(each["text"]) > LONG]
    first, *others = [json.dumps({"text": text}).encode() for text in texts]
    keyed = ["fields.key_format=avro", f"registry.url={registry.url}"]
    with Stream(embedded_broker, tmp_path, options=keyed, raw_partitions=1) as stream:
        stream.started()
        stream.send([Raw(key("新闻-1"), first), Raw(key("copy"), first)])
        stream.send([Raw(key(f"n-{place}"), value) for place, value in enumerate(others)])
        outputs = send_and_settle(stream, [Raw(b"plain", first), Raw(UNKNOWN + b"x", first)])

        (copy,) = [each for each in outputs.duplicates.values() if each.id == "copy"]
        (output,) = outputs.of(copy.source)
        assert dict(output.record.headers)["firstseen-original"] == "新闻-1".encode()
        reasons = {stream.sent[source].key: each for source, each in outputs.dead_letters.items()}
        assert {name: each.reason for name, each in reasons.items()} == {
            b"plain": "no_schema_id",
            UNKNOWN + b"x": "unknown_schema",
        }
        outputs = send_and_settle(stream, [Raw(key("新闻-1"), None), Raw(key("again"), first)])
        assert "again" not in {each.id for each in outputs.duplicates.values()}
        assert stream.judge.conserved(stream.sent, outputs) == 0
