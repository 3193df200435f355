"""`firstseen produce` and `load`: the topic has exactly the read or generated records."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from streams.corpus.corpus import generate
from streams.errors import ExitCode
from streams.kafka.clients import Consumer, Producer
from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.broker import Broker
from tests.rigs.registry.schema_registry import SchemaRegistry
from tests.rigs.registry.serialized_records import SERIALIZERS
from tests.rigs.waiting import await_that
from tests.unit.cli.running import firstseen, message_of, report_of, started

SNOW = "北京今天下雪了，地铁照常运行。"


def produce(
    broker: Broker, topic: str, *arguments: str | Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    options = ("--broker", broker.bootstrap_servers, "--topic", topic)
    return firstseen("produce", *options, *map(str, arguments), stdin=stdin)


def on(broker: Broker, topic: str, records: int) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the topic, which must have exactly ``records`` records."""
    with Consumer(broker.consumer_settings("counting")) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    assert end == records
    return [(each.key(), each.value()) for each in broker.read_partition(topic, records)]


def test_lines_are_sent_as_they_are_by_id(broker: Broker, topic: str, tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": "雪", "text": SNOW}, ensure_ascii=False).encode(),
        b'{"id": 7,  "text": "spaces stay"}\r',
        b'{"text": "no id"}',
        b"",
        b'{"id": ["no", "id"], "text": "x"}',
        b"\xff\xfe not UTF-8",
        b"[1]",
        b'{"id": "last, without an end", "text": "\\ud83d\\ude00"}',
    ]
    (file := tmp_path / "news.jsonl").write_bytes(b"\n".join(lines))

    run = produce(broker, topic, file)

    assert run.returncode == 0, run.stderr
    keys = ["雪".encode(), b"7", None, None, None, None, b"last, without an end"]
    assert on(broker, topic, 7) == list(zip(keys, filter(None, lines), strict=True))
    assert f"7 documents sent to {topic}" in run.stdout
    assert "blank lines skipped: 1" in run.stdout
    assert "not readable as a document: 3" in run.stdout
    assert run.stderr == ""


def test_gzip_and_standard_input_take_turns(broker: Broker, topic: str, tmp_path: Path) -> None:
    packed = tmp_path / "news.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"id": "packed", "text": "a"}\n'))
    run = produce(broker, topic, packed, "-", "--json", stdin='{"id": "piped", "text": "b"}\n')
    assert run.returncode == 0, run.stderr
    summary = json.loads(run.stdout)
    figures = dict.fromkeys(("documents", "bytes", "unreadable", "blank_lines", "too_large"), int)
    times = dict.fromkeys(("seconds", "documents_per_second"), float)
    expected = {"schema": str, "topic": str, **figures, **times}
    assert {key: type(value) for key, value in summary.items()} == expected
    assert (summary["topic"], summary["documents"], summary["bytes"]) == (topic, 2, 57)
    assert [key for key, _ in on(broker, topic, 2)] == [b"packed", b"piped"]


def test_a_folder_has_a_document_a_file(broker: Broker, topic: str, tmp_path: Path) -> None:
    """The id of a document is its path. The filter refuses content that is not UTF-8."""
    (tmp_path / "篇").mkdir()
    (tmp_path / "篇" / "初雪.txt").write_text(SNOW + "\n", "utf-8")
    (tmp_path / "a.md").write_text("# A ", "utf-8")
    (tmp_path / "b.txt").write_bytes(SNOW.encode("gb18030"))
    (tmp_path / "c.txt").write_bytes(b"\xef\xbb\xbfwith a byte order mark")
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x").write_text("no")

    run = produce(broker, topic, tmp_path, "--set", "fields.id=path", "--set", "fields.text=body")

    assert run.returncode == 0, run.stderr
    sent = on(broker, topic, 4)
    assert [(key or b"").decode() for key, _ in sent] == ["a.md", "b.txt", "c.txt", "篇/初雪.txt"]
    assert sent[1][1] == SNOW.encode("gb18030")
    texts = [json.loads(value or b"") for _, value in (sent[0], sent[2], sent[3])]
    assert texts == [
        {"path": "a.md", "body": "# A "},
        {"path": "c.txt", "body": "with a byte order mark"},
        {"path": "篇/初雪.txt", "body": SNOW + "\n"},
    ]
    assert "not readable as a document: 1" in run.stdout


def test_limit_and_rate_are_kept(broker: Broker, topic: str) -> None:
    lines = "".join(f'{{"id": "{number}", "text": "x"}}\n' for number in range(100))
    run = produce(broker, topic, "-", "--limit", "10", "--rate", "20", "--json", stdin=lines)
    summary = json.loads(run.stdout)
    assert summary["documents"] == 10
    assert summary["seconds"] >= 9 / 20
    assert [key for key, _ in on(broker, topic, 10)] == [b"%d" % n for n in range(10)]


def test_a_line_that_no_broker_would_take_is_named(broker: Broker, tmp_path: Path) -> None:
    topic = broker.new_topic("large", config={"max.message.bytes": "2000000"})
    file = tmp_path / "big.jsonl"
    large = b'{"id": "1", "text": "%s"}' % (b"x" * 1_500_000)  # larger than the filter's limit
    file.write_bytes(large + b"\n" + b"y" * 3_000_000 + b'\n{"id": "3", "text": "x"}\n')
    run = produce(broker, topic, file, "--json")
    assert run.returncode == ExitCode.RUNTIME, run.stderr
    assert json.loads(run.stdout)["too_large"] == 1, run.stderr
    assert f"{file}, line 2: 3,000,000 bytes" in run.stderr
    assert on(broker, topic, 2) == [(b"1", large), (b"3", b'{"id": "3", "text": "x"}')]


def test_a_line_that_this_broker_does_not_take_is_named(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    topic = kafka_broker.new_topic("small", config={"max.message.bytes": "100000"})
    (file := tmp_path / "x.jsonl").write_text(f"1\n{os.urandom(100_000).hex()}\n3\n")
    message = message_of(
        *(ExitCode.RUNTIME, "produce", "--broker", kafka_broker.bootstrap_servers),
        *("--topic", topic, str(file)),
    )
    assert f"{file}, line 2: " in message
    assert on(kafka_broker, topic, 2) == [(None, b"1"), (None, b"3")]


def has_records(broker: EmbeddedBroker) -> bool:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "looks", "log_level": 0}
    with Consumer(settings) as consumer, suppress(KafkaException, KeyError):
        topic = consumer.list_topics(timeout=5.0).topics["raw-documents"]
        places = [TopicPartition("raw-documents", number) for number in topic.partitions]
        return any(consumer.get_watermark_offsets(place, 5.0)[1] for place in places)
    return False


def test_a_broker_that_goes_away_ends_the_command_with_a_count(tmp_path: Path) -> None:
    (file := tmp_path / "x.jsonl").write_bytes(b'{"id": "1", "text": "x"}\n' * 100_000)
    with EmbeddedBroker() as broker:
        options = ("--rate", "200", "--set", "send_timeout_seconds=1")
        command = ("produce", str(file), "--broker", broker.bootstrap_servers, *options)
        with started(*command) as sending:
            await_that(lambda: has_records(broker))
            broker.stop()
            _, errors = sending.communicate(timeout=40)
    assert sending.returncode == ExitCode.BROKER_UNAVAILABLE
    assert re.search(r"\d+ documents", errors)


def test_load_sends_what_the_generator_makes_of_the_seed(broker: Broker, topic: str) -> None:
    """It leaves out records without a value, and does not count them."""
    options = ("--broker", broker.bootstrap_servers, "--set", f"topics.raw={topic}")
    report = report_of("load", "--documents", "200", "--seed", "7", "--rate", "400", *options)
    expected = [(r.key, r.value) for r in generate(7, 400) if r.value is not None][:200]
    assert any(record.value is None for record in generate(7, 200))
    assert report["documents"] == len(expected) == 200
    assert report["seconds"] >= 199 / 400
    assert on(broker, topic, len(expected)) == expected


# ---- With a schema registry.


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as opened:
        yield opened


def avro(registry: SchemaRegistry) -> tuple[str, ...]:
    """Return the options of a command that reads Avro."""
    return ("--set", "fields.format=avro", "--set", f"registry.url={registry.url}")


def test_consume_shows_avro_texts_and_bytes_where_the_registry_is_gone(
    embedded_broker: Broker, registry: SchemaRegistry
) -> None:
    topic = embedded_broker.new_topic("avro")
    article = {"id": "a-1", "text": SNOW, "title": "", "keywords": [], "time_ms": 5, "tenant": "t"}
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap_servers})
    for _ in range(3):
        producer.produce(topic, SERIALIZERS["avro"](registry.client)(article), b"a-1")
    assert producer.flush(30) == 0
    command = ["consume", "--broker", embedded_broker.bootstrap_servers, "--topic", topic]

    shown = firstseen(*command, "--until-end", *avro(registry))
    registry.close()
    without = firstseen(*command, "--until-end", *avro(registry))

    assert (shown.returncode, shown.stdout.count(SNOW)) == (ExitCode.OK, 3), shown.stderr
    assert "t\x00" not in shown.stdout
    assert (without.returncode, len(without.stdout.splitlines())) == (ExitCode.OK, 3)


@pytest.mark.parametrize("command", [["produce", "FILE"], ["load", "--documents", "5"]])
def test_no_json_is_sent_where_avro_is_read(
    embedded_broker: Broker, registry: SchemaRegistry, tmp_path: Path, command: list[str]
) -> None:
    (file := tmp_path / "news.jsonl").write_text('{"text": "x"}\n')
    arguments = [str(file) if each == "FILE" else each for each in command]
    raw = embedded_broker.new_topic("raw")
    options = ("--broker", embedded_broker.bootstrap_servers, "--set", f"topics.raw={raw}")
    message = message_of(ExitCode.CONFIGURATION, *arguments, *options, *avro(registry))
    assert "fields.format" in message
    assert "serializer" in message


def test_dedup_reads_json_lines_where_avro_is_set(registry: SchemaRegistry, tmp_path: Path) -> None:
    (file := tmp_path / "news.jsonl").write_text(
        f'{{"id": "1", "text": "{SNOW * 4}"}}\n' * 2, "utf-8"
    )
    outputs = ("--unique", str(tmp_path / "u"), "--duplicates", str(tmp_path / "d"))
    report_of("dedup", str(file), *outputs, *avro(registry))
    assert (tmp_path / "u").read_text("utf-8").count("\n") == 1
    assert (tmp_path / "d").read_text("utf-8").count("\n") == 1
