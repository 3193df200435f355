"""Commands beside a schema registry: they show texts of its records, and send no JSON there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.errors import ExitCode
from streams.kafka.clients import Producer
from tests.rigs.brokers.broker import Broker
from tests.rigs.registry.schema_registry import SchemaRegistry
from tests.rigs.registry.serialized_records import SERIALIZERS
from tests.unit.cli.running import firstseen

SNOW = "北京今天下雪了，地铁照常运行。"
ARTICLE = {"id": "a-1", "text": SNOW, "title": "", "keywords": [], "time_ms": 5, "tenant": "t"}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry without schemas."""
    with SchemaRegistry() as opened:
        yield opened


def settings(registry: SchemaRegistry) -> list[str]:
    """The options of a command that reads Avro."""
    return ["--set", "fields.format=avro", "--set", f"registry.url={registry.url}"]


def test_consume_shows_texts_while_the_registry_answers(
    embedded_broker: Broker, registry: SchemaRegistry
) -> None:
    """Given Avro records on a topic, then consume shows their texts; without the registry it shows
    them as bytes, at once and without an error.
    """
    topic = embedded_broker.new_topic("avro")
    value = SERIALIZERS["avro"](registry.client)(ARTICLE)
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap_servers})
    for _ in range(3):
        producer.produce(topic, value, b"a-1")
    assert producer.flush(30) == 0
    command = ["consume", "--broker", embedded_broker.bootstrap_servers, "--topic", topic]

    shown = firstseen(*command, "--until-end", *settings(registry))
    registry.close()
    without = firstseen(*command, "--until-end", *settings(registry))

    assert (shown.returncode, shown.stdout.count(SNOW)) == (ExitCode.OK, 3), shown.stderr
    assert "t\x00" not in shown.stdout
    assert (without.returncode, len(without.stdout.splitlines())) == (ExitCode.OK, 3)


@pytest.mark.parametrize("command", [["produce", "FILE"], ["load", "--documents", "5"]])
def test_no_json_is_sent_where_avro_is_read(
    embedded_broker: Broker, registry: SchemaRegistry, tmp_path: Path, command: list[str]
) -> None:
    """Given a raw topic that is read as Avro, then commands that send JSON refuse, and say why."""
    file = tmp_path / "news.jsonl"
    file.write_text('{"text": "x"}\n')
    arguments = [str(file) if each == "FILE" else each for each in command]
    raw = f"topics.raw={embedded_broker.unique('raw')}"
    embedded_broker.create_topics({raw.partition("=")[2]: 1})
    broker = ["--broker", embedded_broker.bootstrap_servers, "--set", raw]

    found = firstseen(*arguments, *broker, *settings(registry))

    assert found.returncode == ExitCode.CONFIGURATION
    assert "fields.format" in found.stderr
    assert "serializer" in found.stderr


def test_files_are_read_as_ever(registry: SchemaRegistry, tmp_path: Path) -> None:
    """Given settings of a registry, then files of JSON lines are still read as such."""
    file = tmp_path / "news.jsonl"
    file.write_text(f'{{"id": "1", "text": "{SNOW * 4}"}}\n' * 2, "utf-8")

    outputs = ["--unique", str(tmp_path / "u"), "--duplicates", str(tmp_path / "d")]
    found = firstseen("dedup", str(file), *outputs, *settings(registry))

    assert found.returncode == ExitCode.OK, found.stderr
    assert (tmp_path / "u").read_text("utf-8").count("\n") == 1
    assert (tmp_path / "d").read_text("utf-8").count("\n") == 1
