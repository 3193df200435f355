"""`firstseen consume` on Kafka's protocol shows readable lines, or JSON without any loss."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable

import msgspec
import pytest
from confluent_kafka import TopicPartition

from simhash_core.documents import SourcePosition
from simhash_core.verdicts import Rejection, RejectionReason, Undecidable, UndecidableReason
from streams.cli import consume_command
from streams.errors import ExitCode
from streams.kafka import topic_follower
from streams.kafka.clients import Consumer, Producer
from streams.kafka.producers import ProducerRecord
from streams.worker.outputs import dead_letter_record
from tests.rigs.brokers.broker import Broker
from tests.unit.cli.running import Run, run_here, started
from tests.unit.documents.samples import HERE, NEAR, RULES, as_json, output_of, pending, raw

SNOW = "北京今天下雪了，地铁照常运行。"


def put(broker: Broker, topic: str, records: Iterable[ProducerRecord]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            timestamp=record.timestamp_ms or 0,
            headers=list(record.headers),
        )
    assert producer.flush(10) == 0


def outputs() -> list[ProducerRecord]:
    """Return one output of each kind; the dead letter is not UTF-8."""
    document = raw(as_json({"id": "初雪", "title": "初雪", "text": SNOW}), "初雪".encode())
    short = raw(as_json({"id": "s", "text": "好\x1b[31m\n的"}), b"s")
    source = SourcePosition("raw-documents", 0, 9)
    return [
        output_of(pending(document, document_id="初雪")),
        output_of(pending(short, Undecidable(UndecidableReason.TOO_FEW_FEATURES), "s")),
        output_of(pending(document, NEAR, "初雪")),
        dead_letter_record(
            Rejection(source, raw(b"\xff", None), RejectionReason.NOT_UTF8, "a detail"), RULES
        ),
    ]


def consume(broker: Broker, *arguments: str) -> Run:
    return run_here("consume", "--broker", broker.bootstrap_servers, *arguments)


def until_end(broker: Broker, topic: str, *arguments: str) -> str:
    """Return the command's output for all records of the topic."""
    run = consume(broker, "--topic", topic, "--until-end", *arguments)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_lines_say_what_the_filter_said_and_move_no_cursor(broker: Broker, topic: str) -> None:
    put(broker, topic, outputs())
    assert until_end(broker, topic).splitlines() == [
        f"unique       初雪  初雪 · {SNOW}",
        "undecidable  s  好[31m 的",
        "duplicate    初雪 ← weather  distance 2/64  similarity 0.969  near",
        "dead letter  raw-documents/0@9  not_utf8  a detail",
    ]


def test_it_ends_by_itself_when_nothing_more_comes(broker: Broker, topic: str) -> None:
    put(broker, topic, outputs()[:1])
    raw = ("--topic", "raw", "--set", f"topics.raw={topic}")
    run = consume(broker, *raw, "--from-beginning", "--idle-exit", "1")
    assert run == (0, f"unique       初雪  初雪 · {SNOW}\n", "")


def test_it_asks_for_a_worker(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty output alone would not tell a new user that no worker runs."""
    monkeypatch.setattr(consume_command, "_FIRST_RECORD_SECONDS", 2.0)
    run = consume(broker, "--topic", topic, "--from-beginning", "--idle-exit", "1")
    assert run == (0, "", "firstseen: no record in 2 s: is a worker running?\n")


def test_json_loses_nothing_of_a_record(broker: Broker, topic: str) -> None:
    put(broker, topic, outputs())

    lines = [json.loads(line) for line in until_end(broker, topic, "--json").splitlines()]

    assert [list(line) for line in lines] == [
        ["schema", "topic", "partition", "offset", "key", "value", "timestamp_ms", "headers"]
    ] * 4
    assert [line["offset"] for line in lines] == [0, 1, 2, 3]
    assert {line["topic"] for line in lines} == {topic}
    for line, record in zip(lines, outputs(), strict=True):
        assert line["timestamp_ms"] == record.timestamp_ms
        assert line["headers"] == [
            {"name": name, "value": (value or b"").decode()} for name, value in record.headers
        ]
    assert lines[0]["key"] == "初雪"
    assert json.loads(lines[2]["value"])["original"]["source"] == dict(
        zip(("topic", "partition", "offset"), msgspec.to_builtins(HERE), strict=True)
    )
    assert (lines[3]["key"], lines[3]["value"]) == (None, {"base64": "/w=="})


def test_readers_of_one_application_commit_nothing_and_get_all(broker: Broker, topic: str) -> None:
    put(broker, topic, outputs())
    empty = broker.new_topic("empty", 2)
    first, second = (until_end(broker, topic, "--topic", empty, "--limit", "2") for _ in range(2))
    assert first == second
    assert len(first.splitlines()) == 2
    with Consumer(broker.consumer_settings("firstseen")) as consumer:
        (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    assert committed.offset < 0


def test_a_limit_is_for_all_batches(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(broker, topic, outputs())
    monkeypatch.setattr(topic_follower, "_BATCH", 1)
    assert len(until_end(broker, topic, "--limit", "3").splitlines()) == 3


def test_it_follows_with_new_records_alone_until_ctrl_c(broker: Broker, topic: str) -> None:
    put(broker, topic, outputs()[:1])
    options = ("--topic", topic, "--broker", broker.bootstrap_servers)
    with started("consume", *options) as following:
        assert following.stdout is not None
        os.set_blocking(following.stdout.fileno(), False)
        line, deadline = "", time.monotonic() + 90
        while not line and time.monotonic() < deadline:
            put(broker, topic, outputs()[2:3])
            time.sleep(0.3)
            line = following.stdout.readline()
        following.send_signal(signal.SIGINT)
        code = following.wait(10)

    assert line.startswith("duplicate ")
    assert code == ExitCode.INTERRUPTED
