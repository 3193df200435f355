"""With ``mode=tag`` everything is on one topic, as it was sent, under the same guarantees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from streams.documents.output_records import DeadLetterOutput, DuplicateOutput, UniqueOutput
from streams.settings.settings import Mode
from streams.topics.admin import create, partitions_of
from streams.topics.plans import topic_plans
from tests.kafka.stream_changes import admin_of, grow, start_together, stop_gently
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import OUTPUT_PARTITIONS, Stream
from tests.rigs.workers.stream_outputs import Outputs, Raw

DOCUMENTS = 240


@pytest.fixture(scope="module")
def tagged(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stream]:
    """Documents on two raw partitions; the worker is killed while it works, and started again.

    The last records are tombstones: of a unique, of a duplicate, and of an id that never was.
    """
    documents = generated(11, DOCUMENTS)
    with Stream(broker, tmp_path_factory.mktemp("tag"), options=["mode=tag"]) as stream:
        worker = stream.started()
        stream.send(documents[: DOCUMENTS // 2])
        while not stream.outputs.records:
            stream.outputs.read()
        worker.kill()
        stream.send(documents[DOCUMENTS // 2 :])
        worker = stream.started()
        outputs = stream.settle()
        unique = next(o for o in outputs.uniques.values() if o.record.key)
        again = next(
            o for o in outputs.records if isinstance(o.said, DuplicateOutput) and o.record.key
        )
        keys = (unique.record.key, again.record.key, b"never there")
        gone = stream.send(Raw(key, None, timestamp_ms=1) for key in keys)
        while {o.said.source for o in outputs.tombstones} != set(gone):
            outputs.read(1.0)
            worker.check()
        worker.stop_gently()
        outputs.read_to_ends()
        yield stream


def test_every_record_is_put_out_once(tagged: Stream, broker: Broker) -> None:
    """On the topic of all, or that of dead letters; without transactions, some may be repeated."""
    outputs = tagged.outputs
    may_repeat = not broker.supports_transactions

    tagged.judge.conserved(tagged.sent, outputs, repeats_allowed=may_repeat)
    topics = tagged.settings.topics
    on_topic = {output.record.position.topic for output in outputs.records}
    assert on_topic == {topics.tagged, topics.dead_letters}
    for source in outputs.dead_letters:
        assert {o.record.position.topic for o in outputs.of(source)} == {topics.dead_letters}
    assert len(outputs.uniques) > DOCUMENTS / 3
    assert len(outputs.duplicates) > DOCUMENTS / 5


def test_records_are_as_they_were_sent(tagged: Stream) -> None:
    compared = 0
    for record, said in tagged.outputs.records:
        if not isinstance(said, UniqueOutput | DuplicateOutput):
            continue
        raw = tagged.sent[said.source]
        assert (record.key, record.value) == (raw.key, raw.value)
        assert record.timestamp_ms == raw.timestamp_ms
        own = len(raw.headers)
        assert record.headers[:own] == raw.headers
        assert all(name.startswith("firstseen-") for name, _ in record.headers[own:])
        compared += 1
    assert compared > DOCUMENTS / 2


def test_order_and_verdicts_are_those_of_any_stream(tagged: Stream) -> None:
    outputs = tagged.outputs
    tagged.judge.ordered(outputs)
    tagged.judge.separated(tagged.sent, outputs)
    assert tagged.judge.grounded(tagged.sent, outputs) == len(outputs.duplicates)


def test_every_tombstone_is_passed_on(tagged: Stream) -> None:
    """Whether its document was unique, a duplicate or unknown."""
    sent = {source: raw for source, raw in tagged.sent.items() if raw.is_tombstone}
    found = {output.said.source: output.record for output in tagged.outputs.tombstones}
    assert found.keys() == sent.keys()
    for source, record in found.items():
        assert (record.key, record.value) == (sent[source].key, None)
        assert record.position.topic == tagged.settings.topics.tagged


def test_topics_of_the_other_mode_are_not_made(tagged: Stream) -> None:
    topics = tagged.settings.topics
    both = [topics.tagged, topics.unique, topics.duplicates]
    assert set(partitions_of(admin_of(tagged.broker), both)) == {topics.tagged}


def test_tagged_records_outlive_kills_a_growing_topic_and_another_mode(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Each record has one output, on the topic of its time."""
    documents = keyed_documents(61, 600)
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=["mode=tag"]) as stream:
        topics = stream.settings.topics
        others = (topics.unique, topics.duplicates)
        split = replace(stream.settings, mode=Mode.SPLIT)
        create(admin_of(kafka_broker), topic_plans(split, OUTPUT_PARTITIONS, 2))
        of_both_modes = dict.fromkeys((topics.tagged, *others), OUTPUT_PARTITIONS)
        stream.outputs = Outputs(stream.settings, {**of_both_modes, topics.dead_letters: 1})
        workers = start_together(stream)
        stream.send(documents[:100])
        workers[0].kill()
        stream.send(documents[100:200])
        grow(stream, 4)
        stream.send(documents[200:400])
        workers[0] = stream.started(state="machine-0")
        stream.judge_all()
        before = set(stream.sent)
        stop_gently(workers)

        stream.assign("mode=split")
        again = stream.started(state="machine-0")
        stream.send(documents[400:])
        stream.judge_all()
        again.stop_gently()

        assert stream.judge.unchanged(stream.sent, stream.outputs)
        for record, said in stream.outputs.records:
            if isinstance(said, DeadLetterOutput):
                continue
            is_tagged = record.position.topic == topics.tagged
            assert is_tagged is (said.source in before)
            if not is_tagged:
                wanted = topics.unique if isinstance(said, UniqueOutput) else topics.duplicates
                assert record.position.topic == wanted
