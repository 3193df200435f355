"""With ``mode=tag`` all records are on one topic, as they were sent, with the same guarantees."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from streams.documents.output_records import DeadLetterOutput, UniqueOutput
from streams.settings.settings import Mode
from streams.topics.admin import create, partitions_of
from streams.topics.plans import topic_plans
from tests.kafka.stream_changes import admin_of, grow, start_together, stop_gently
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import OUTPUT_PARTITIONS, Stream
from tests.rigs.workers.stream_outputs import Outputs


def test_tagged_records_outlive_kills_a_growing_topic_and_another_mode(
    kafka_broker: Broker, tmp_path: Path
) -> None:
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
        admin, changelog = admin_of(kafka_broker), stream.settings.topics.changelog
        assert partitions_of(admin, [changelog]) == {changelog: 4}
        assert {source.partition for source in stream.sent} == set(range(4))
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
