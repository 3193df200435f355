"""Whole workers on both brokers: what goes in comes out, once, where it belongs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from streams.corpus.corpus import generate
from streams.documents.output_records import DeadLetterOutput
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import OUTPUT_PARTITIONS, Stream
from tests.rigs.workers.stream_outputs import Outputs, Raw
from tests.rigs.workers.worker_metrics import await_shared

DOCUMENTS = 400
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
        stream.send(documents[: DOCUMENTS // 2])
        stream.settle()
        worker.stop_gently()
        stream.send(documents[DOCUMENTS // 2 :])
        worker = stream.started()
        outputs = stream.settle()
        worker.stop_gently()
        outputs.read_to_ends()
        yield Finished(stream, outputs)


def test_every_record_has_exactly_one_output(finished: Finished) -> None:
    """Given a stream with a gentle stop and start in its middle, then every raw record is in
    exactly one output, and every kind of output occurs.
    """
    stream, outputs = finished

    assert stream.judge.conserved(stream.sent, outputs) == 0
    assert len(stream.sent) == DOCUMENTS
    assert len(outputs.uniques) > DOCUMENTS / 3
    assert len(outputs.duplicates) > DOCUMENTS / 5
    assert {dead.reason for dead in outputs.dead_letters.values()} >= {"not_json", "missing_text"}


def test_outputs_are_in_raw_order(finished: Finished) -> None:
    """What comes from one raw partition is in its order in each output partition, and records of
    one key are in the partition that Kafka's own clients would choose.
    """
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
    """What is on ``unique`` is what was sent, byte for byte: key, value, timestamp, and its own
    headers before ours.
    """
    stream, outputs = finished

    assert stream.judge.unchanged(stream.sent, outputs) == len(outputs.uniques)


def test_duplicates_are_of_their_schema_and_keep_the_key(finished: Finished) -> None:
    """Each record on ``duplicate-of`` validates, and has the raw record's key and timestamp."""
    stream, outputs = finished

    assert stream.judge.valid(outputs) == len(outputs.duplicates)
    for source in outputs.duplicates:
        (output,) = outputs.of(source)
        raw = stream.sent[source]
        assert (output.record.key, output.record.timestamp_ms) == (raw.key, raw.timestamp_ms)


def test_duplicates_name_a_near_unique(finished: Finished) -> None:
    """Each duplicate names a document on ``unique``, within the distance, and says which it is."""
    stream, outputs = finished

    assert stream.judge.grounded(stream.sent, outputs) == len(outputs.duplicates)


def test_no_two_uniques_are_near(finished: Finished) -> None:
    """All pairs of uniques are compared: none is near and shares a bucket."""
    stream, outputs = finished

    stream.judge.separated(stream.sent, outputs)


def test_dead_letters_are_the_raw_records(finished: Finished) -> None:
    """A record that cannot be read comes out with its bytes unchanged."""
    stream, outputs = finished

    for source in outputs.dead_letters:
        (output,) = outputs.of(source)
        raw = stream.sent[source]
        assert (output.record.key, output.record.value) == (raw.key, raw.value)


def test_compressed_records(broker: Broker, tmp_path: Path) -> None:
    """Given records compressed in each of the four ways; when a worker has run; then each record
    has one output, and the invariants hold.
    """
    with Stream(broker, tmp_path, raw_partitions=5) as stream:
        worker = stream.started()
        for seed, codec in enumerate(CODECS):
            stream.send(generated(seed=20 + seed, count=40), compression_type=codec)
        stream.judge_all()
        stream.judge.unchanged(stream.sent, stream.outputs)
        worker.stop_gently()
    assert {source.partition for source in stream.sent} == set(range(5))


def test_workers_share_the_shards(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given two workers, each with a state directory of its own; when a third joins while records
    come, and the first leaves; then the shards are shared at each time, every record has exactly
    one output, and the invariants hold over all of them.
    """
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
