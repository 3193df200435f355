"""Whole workers on both brokers: what goes in comes out, once, where it belongs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from streams.corpus.corpus import generate
from streams.documents.output_records import DeadLetterOutput
from tests.kafka.stream_changes import put_out
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import OUTPUT_PARTITIONS, SETTLE_SECONDS, Stream
from tests.rigs.workers.stream_outputs import Outputs, Raw
from tests.rigs.workers.worker_metrics import await_shared, value

DOCUMENTS = 400
BACKLOG = 6_000
FIRST_SECONDS = 2.0
LIMIT, BATCH, READ_BATCHES = 60, 20, 4
CODECS = ("gzip", "lz4", "snappy", "zstd")


def generated(seed: int, count: int) -> list[Raw]:
    """Documents of the demo's generator, with headers of their own: one name twice, one null."""
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
    """A stream that has run to its end, with its outputs."""

    stream: Stream
    outputs: Outputs


@pytest.fixture(scope="module")
def finished(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """Documents on two raw partitions, the worker stopped and started midway.

    The second half is sent while no worker runs.
    """
    documents = generated(seed=11, count=DOCUMENTS)
    with Stream(broker, tmp_path_factory.mktemp("stream"), raw_partitions=2) as stream:
        worker = stream.started()
        put_out(stream, documents[: DOCUMENTS // 2])
        worker.stop_gently()
        stream.send(documents[DOCUMENTS // 2 :])
        worker = stream.started()
        outputs = stream.settle()
        worker.stop_gently()
        outputs.read_to_ends()
        yield Finished(stream, outputs)


def test_every_record_has_exactly_one_output(finished: Finished) -> None:
    stream, outputs = finished
    assert stream.judge.conserved(stream.sent, outputs) == 0
    assert len(stream.sent) == DOCUMENTS
    assert len(outputs.uniques) > DOCUMENTS / 3
    assert len(outputs.duplicates) > DOCUMENTS / 5
    assert {dead.reason for dead in outputs.dead_letters.values()} >= {"not_json", "missing_text"}


def test_outputs_are_in_raw_order_and_on_the_partition_of_their_key(finished: Finished) -> None:
    """And records of a key are in the partition that Kafka's own clients would choose."""
    stream, outputs = finished
    assert stream.judge.ordered(outputs) == DOCUMENTS
    for record, said in outputs.records:
        if record.key is not None and not isinstance(said, DeadLetterOutput):
            place = (murmur2(record.key) & 0x7FFFFFFF) % OUTPUT_PARTITIONS
            assert record.position.partition == place


def murmur2(key: bytes) -> int:
    """The hash by which Kafka's Java client chooses a partition: MurmurHash2 with its seed, of 32
    bits (``org.apache.kafka.common.utils.Utils.murmur2``).
    """
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    found = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        found = found * multiplier & mask ^ word
    if rest := key[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & mask
    found = (found ^ found >> 13) * multiplier & mask
    return found ^ found >> 15


def test_uniques_are_the_raw_records(finished: Finished) -> None:
    """Byte for byte, with their own headers before ours."""
    stream, outputs = finished
    assert stream.judge.unchanged(stream.sent, outputs) == len(outputs.uniques)


def test_duplicates_are_of_their_schema_and_keep_the_key(finished: Finished) -> None:
    stream, outputs = finished
    assert stream.judge.valid(outputs) == len(outputs.duplicates)
    for source in outputs.duplicates:
        (output,) = outputs.of(source)
        raw = stream.sent[source]
        assert (output.record.key, output.record.timestamp_ms) == (raw.key, raw.timestamp_ms)


def test_duplicates_name_a_near_unique_and_its_distance(finished: Finished) -> None:
    stream, outputs = finished
    assert stream.judge.grounded(stream.sent, outputs) == len(outputs.duplicates)


def test_no_two_uniques_are_near(finished: Finished) -> None:
    stream, outputs = finished
    stream.judge.separated(stream.sent, outputs)


def test_dead_letters_are_the_raw_records(finished: Finished) -> None:
    stream, outputs = finished
    for source in outputs.dead_letters:
        (output,) = outputs.of(source)
        raw = stream.sent[source]
        assert (output.record.key, output.record.value) == (raw.key, raw.value)


def test_compressed_records_are_read(broker: Broker, tmp_path: Path) -> None:
    with Stream(broker, tmp_path, raw_partitions=5) as stream:
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
    """A third joins while records come, and the first leaves."""
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
    """Long before the last document is read."""
    with Stream(kafka_broker, tmp_path, raw_partitions=4) as stream:
        documents = keyed_documents(161, BACKLOG)
        stream.send([raw._replace(partition=n % 4) for n, raw in enumerate(documents)])
        stream.outputs.read(0)  # its connections are there
        worker = stream.started()
        until = time.monotonic() + FIRST_SECONDS
        while not stream.outputs.count and time.monotonic() < until:
            stream.outputs.read()
        assert stream.outputs.count, "nothing was put out"
        assert stream.open > BACKLOG / 2, "the backlog was too small: no test"
        stream.judge_all()
        worker.stop_gently()


@pytest.mark.parametrize("partitions", [1, 4])
def test_few_documents_are_in_flight(broker: Broker, tmp_path: Path, partitions: int) -> None:
    """No more than the limit, and the few batches that were read when it was reached."""
    options = [f"in_flight.documents={LIMIT}", f"batch.documents={BATCH}"]
    with Stream(broker, tmp_path, raw_partitions=partitions, options=options) as stream:
        stream.send(keyed_documents(162, 1_500))
        worker = stream.started()
        most, deadline = 0.0, time.monotonic() + SETTLE_SECONDS
        while stream.open and time.monotonic() < deadline:
            most = max(most, value(worker, "firstseen_in_flight_documents"))
            stream.outputs.read(0.01)
        stream.judge_all()
        assert 0 < most <= LIMIT + READ_BATCHES * BATCH
        worker.stop_gently()
