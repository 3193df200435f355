"""`firstseen produce` on a real protocol: what was in the files is what lies on the topic."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from streams.cli.main import main
from streams.errors import ExitCode
from streams.kafka.clients import Consumer
from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.broker import Broker
from tests.unit.cli.running import clean_environment, firstseen

SNOW = "北京今天下雪了，地铁照常运行。"


def produce(
    broker: Broker, topic: str, *arguments: str | Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command with everything that it needs."""
    options = ("--broker", broker.bootstrap_servers, "--topic", topic)
    return firstseen("produce", *options, *map(str, arguments), stdin=stdin)


def on(broker: Broker, topic: str, records: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of the topic, of which there must be exactly so many."""
    with Consumer(broker.consumer_settings("counting")) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
    assert end == records
    return [(each.key(), each.value()) for each in broker.read_partition(topic, records)]


def test_lines_are_sent_as_they_are(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Given a file of good, broken and blank lines; when it is produced; then each line that has
    anything in it is on the topic byte for byte, under its id where it has one.
    """
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
    file = tmp_path / "news.jsonl"
    file.write_bytes(b"\n".join(lines))

    run = produce(broker, topic, file)

    assert run.returncode == 0, run.stderr
    keys = ["雪".encode(), b"7", None, None, None, None, b"last, without an end"]
    expected = list(zip(keys, filter(None, lines), strict=True))
    assert on(broker, topic, 7) == expected
    assert f"7 documents sent to {topic}" in run.stdout
    assert "blank lines skipped: 1" in run.stdout
    assert "not readable as a document: 3" in run.stdout
    assert run.stderr == ""


def test_gzip_and_standard_input(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Given a file that is gzip by its name, and lines on standard input; when both are named; then
    they are sent one after the other, and the summary is one JSON object.
    """
    packed = tmp_path / "news.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"id": "packed", "text": "a"}\n'))

    run = produce(broker, topic, packed, "-", "--json", stdin='{"id": "piped", "text": "b"}\n')

    assert run.returncode == 0, run.stderr
    summary = json.loads(run.stdout)
    assert {key: type(value) for key, value in summary.items()} == {
        "schema": str,
        "topic": str,
        "documents": int,
        "bytes": int,
        "seconds": float,
        "documents_per_second": float,
        "unreadable": int,
        "blank_lines": int,
        "too_large": int,
    }
    assert (summary["topic"], summary["documents"], summary["bytes"]) == (topic, 2, 57)
    assert [key for key, _ in on(broker, topic, 2)] == [b"packed", b"piped"]


def test_a_folder_has_a_document_a_file(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Given a folder with texts in it and below, one not UTF-8, one hidden; when it is produced;
    then each other file is a document whose id is its path, in the order of paths, and the one that
    is not UTF-8 is left for the filter to refuse.
    """
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


def test_limit_and_rate(broker: Broker, topic: str) -> None:
    """Given more lines than are asked for, and a rate; then so many are sent, no faster."""
    lines = "".join(f'{{"id": "{number}", "text": "x"}}\n' for number in range(100))

    run = produce(broker, topic, "-", "--limit", "10", "--rate", "20", "--json", stdin=lines)

    summary = json.loads(run.stdout)
    assert summary["documents"] == 10
    assert summary["seconds"] >= 9 / 20
    assert [key for key, _ in on(broker, topic, 10)] == [b"%d" % n for n in range(10)]


def test_a_line_that_no_broker_would_take(broker: Broker, tmp_path: Path) -> None:
    """Given a line of 3 MB between two others; then these are sent, the place of that one is told,
    and the exit code says that not all was sent. A line of 1.5 MB, above what the filter reads, is
    sent: to refuse it is the filter's business.
    """
    topic = broker.new_topic("large", config={"max.message.bytes": "2000000"})
    file = tmp_path / "big.jsonl"
    large = b'{"id": "1", "text": "%s"}' % (b"x" * 1_500_000)
    file.write_bytes(large + b"\n" + b"y" * 3_000_000 + b'\n{"id": "3", "text": "x"}\n')

    run = produce(broker, topic, file, "--json")

    assert run.returncode == ExitCode.RUNTIME, run.stderr
    assert json.loads(run.stdout)["too_large"] == 1, run.stderr
    assert f"{file}, line 2: 3,000,000 bytes" in run.stderr
    assert on(broker, topic, 2) == [(b"1", large), (b"3", b'{"id": "3", "text": "x"}')]


def test_a_line_that_this_broker_does_not_take(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a topic that takes 100 KB, and a line of 200 KB between two others; then these are
    sent, and the place of that one is told, with what the broker said.
    """
    topic = kafka_broker.new_topic("small", config={"max.message.bytes": "100000"})
    (file := tmp_path / "x.jsonl").write_text(f"1\n{os.urandom(100_000).hex()}\n3\n")

    run = produce(kafka_broker, topic, file, "--json")

    assert run.returncode == ExitCode.RUNTIME
    assert json.loads(run.stdout)["too_large"] == 1
    assert f"{file}, line 2: " in run.stderr
    assert on(kafka_broker, topic, 2) == [(None, b"1"), (None, b"3")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.jsonl"], "absent.jsonl"),
        (["-", "-"], "twice"),
        (["empty"], "folder empty"),
        (["mixed"], "mixed/x.jsonl"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    """Given paths that cannot be produced; then the message names them, before any broker is asked
    for, and the exit code is that of the command line.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "x.jsonl").write_text("{}")

    assert main(["produce", *arguments]) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def await_first(broker: EmbeddedBroker) -> None:
    """Wait until a record is there."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "looks"}
    consumer = Consumer({**settings, "log_level": 0})
    deadline = time.monotonic() + 90.0
    try:
        while time.monotonic() < deadline:
            with suppress(KafkaException, KeyError):
                topic = consumer.list_topics(timeout=5.0).topics["raw-documents"]
                places = [TopicPartition("raw-documents", number) for number in topic.partitions]
                if any(consumer.get_watermark_offsets(place, 5.0)[1] for place in places):
                    return
            time.sleep(0.1)
    finally:
        consumer.close()
    raise AssertionError("no record has come within 30 s")


def test_a_broker_that_goes_away(tmp_path: Path) -> None:
    """Given a broker that dies while documents are sent to it; then the command ends with the code
    for that, and says how many were acknowledged.
    """
    (file := tmp_path / "x.jsonl").write_bytes(b'{"id": "1", "text": "x"}\n' * 100_000)
    with EmbeddedBroker() as broker:
        sending = subprocess.Popen(
            [
                *(sys.executable, "-m", "streams.cli.main", "produce", str(file)),
                *("--broker", broker.bootstrap_servers, "--rate", "200"),
                *("--set", "send_timeout_seconds=1"),
            ],
            env=clean_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        await_first(broker)
    _, errors = sending.communicate(timeout=40)

    assert sending.returncode == ExitCode.BROKER_UNAVAILABLE
    assert re.search(r"\d+ documents", errors)
