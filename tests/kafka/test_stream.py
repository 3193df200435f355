"""A whole worker on Kafka: each record has one output, with what its raw record had."""

from __future__ import annotations

import time
from pathlib import Path

from streams.corpus.corpus import generate
from tests.kafka.stream_changes import send_and_settle
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Raw

BACKLOG = 6_000
FIRST_SECONDS = 2.0
CODECS = ("gzip", "lz4", "snappy", "zstd")


def generated(seed: int, count: int) -> list[Raw]:
    """Return generated documents with headers: one name occurs twice, one value is null."""
    return [
        Raw(
            record.key,
            record.value,
            (("trace", record.kind.encode()), ("trace", b"2"), ("none", None)),
            record.timestamp_ms,
        )
        for record in generate(seed, count)
    ]


def test_each_record_has_one_output_as_it_was_sent(kafka_broker: Broker, tmp_path: Path) -> None:
    """Records are compressed in each way; half of them come while no worker runs."""
    with Stream(kafka_broker, tmp_path, raw_partitions=5) as stream:
        worker = stream.started()
        for seed, codec in enumerate(CODECS):
            stream.compression = codec
            stream.reconnect()
            send_and_settle(stream, generated(seed=20 + seed, count=40))
            worker.stop_gently()
            stream.send(generated(seed=30 + seed, count=40))
            worker.start()
        stream.judge_all()
        worker.stop_gently()

        outputs = stream.outputs
        assert stream.judge.unchanged(stream.sent, outputs) > len(stream.sent) / 3
        assert stream.judge.valid(outputs) > len(stream.sent) / 8
        assert len({dead.reason for dead in outputs.dead_letters.values()}) > 1
        for record, said in outputs.records:
            raw = stream.sent[said.source]
            assert (record.key, record.timestamp_ms) == (raw.key, raw.timestamp_ms)
            assert record.value == raw.value or said.source in outputs.duplicates
    assert {source.partition for source in stream.sent} == set(range(5))


def test_a_backlog_flows_from_the_beginning(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=4) as stream:
        documents = keyed_documents(161, BACKLOG)
        stream.send([raw._replace(partition=n % 4) for n, raw in enumerate(documents)])
        stream.outputs.read(0)  # to connect
        worker = stream.started()
        until = time.monotonic() + FIRST_SECONDS
        while not stream.outputs.count and time.monotonic() < until:
            stream.outputs.read()
        assert stream.outputs.count, "nothing was put out"
        assert stream.open > BACKLOG / 2, "the backlog was too small: no test"
        stream.judge_all()
        worker.stop_gently()
