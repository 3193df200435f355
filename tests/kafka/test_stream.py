"""Whole workers on both brokers: each record has one output, on the right topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from streams.corpus.corpus import generate
from tests.kafka.stream_changes import send_and_settle
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream
from tests.rigs.workers.stream_outputs import Outputs, Raw
from tests.rigs.workers.worker_metrics import await_shared

DOCUMENTS = 400
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


class Finished(NamedTuple):
    """A stream whose records all have outputs."""

    stream: Stream
    outputs: Outputs


@pytest.fixture(scope="module")
def finished(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """Send documents to two raw partitions; stop and start the worker midway.

    The second half is sent while no worker runs.
    """
    documents = generated(seed=11, count=DOCUMENTS)
    with Stream(broker, tmp_path_factory.mktemp("stream"), raw_partitions=2) as stream:
        worker = stream.started()
        send_and_settle(stream, documents[: DOCUMENTS // 2])
        worker.stop_gently()
        stream.send(documents[DOCUMENTS // 2 :])
        worker = stream.started()
        outputs = stream.settle()
        worker.stop_gently()
        outputs.read_to_ends()
        yield Finished(stream, outputs)


def test_the_invariants_hold(finished: Finished) -> None:
    stream, outputs = finished
    assert len(stream.sent) == stream.judge.ordered(outputs) == DOCUMENTS
    assert stream.judge.conserved(stream.sent, outputs) == 0
    assert stream.judge.grounded(stream.sent, outputs) == len(outputs.duplicates)
    stream.judge.separated(stream.sent, outputs)
    assert len(outputs.uniques) > DOCUMENTS / 3
    assert len(outputs.duplicates) > DOCUMENTS / 5
    assert {dead.reason for dead in outputs.dead_letters.values()} >= {"not_json", "missing_text"}


def test_outputs_have_what_their_raw_records_had(finished: Finished) -> None:
    stream, outputs = finished
    assert stream.judge.unchanged(stream.sent, outputs) == len(outputs.uniques)
    assert stream.judge.valid(outputs) == len(outputs.duplicates)
    for record, said in outputs.records:
        raw = stream.sent[said.source]
        assert (record.key, record.timestamp_ms) == (raw.key, raw.timestamp_ms)
        assert record.value == raw.value or said.source in outputs.duplicates


def test_compressed_records_are_read(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=5) as stream:
        worker = stream.started()
        for seed, codec in enumerate(CODECS):
            stream.compression = codec
            stream.reconnect()
            stream.send(generated(seed=20 + seed, count=40))
        stream.judge_all()
        stream.judge.unchanged(stream.sent, stream.outputs)
        worker.stop_gently()
    assert {source.partition for source in stream.sent} == set(range(5))


def test_workers_that_come_and_go_share_the_shards(kafka_broker: Broker, tmp_path: Path) -> None:
    documents = generated(seed=31, count=600)
    with Stream(kafka_broker, tmp_path, raw_partitions=6) as stream:
        first, second, third = (stream.worker(state=f"machine-{n}") for n in range(3))
        first.start()
        second.start()
        await_shared([first, second], 6)
        stream.send(documents[:200])
        third.start()
        stream.send(documents[200:400])
        await_shared([first, second, third], 6)
        first.stop_gently()
        stream.send(documents[400:])
        await_shared([second, third], 6)
        stream.judge_all()
        second.stop_gently()
        third.stop_gently()
        assert len(stream.outputs.count) == 600


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
