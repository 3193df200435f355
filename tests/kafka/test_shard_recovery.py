"""Workers recover shards whose state is on another machine, or of another changelog."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from benchmarks.random_documents import changelog_of
from simhash_core.log.records import Chain
from streams.demo.worker_process import WorkerProcessError
from streams.errors import ExitCode
from streams.kafka.clients import Producer
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.kafka.stream_changes import admin_of, delete_topic, send_and_settle
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.rigs.workers.stream_harness import END_SECONDS, Stream, Worker
from tests.rigs.workers.stream_outputs import Raw
from tests.unit.ops_page.live_worker import ask

DOCUMENTS = 120
RECOVERED_ENTRIES = 500_000
STOP_SECONDS = 30.0
SEEN_SECONDS = 90.0


def shard_directories(stream: Stream) -> list[Path]:
    found = sorted((stream.directory / "state" / stream.settings.application_id).glob("shard-*"))
    assert len(found) == stream.raw_partitions
    return found


def copy_of(raw: Raw, number: int) -> Raw:
    """Return the same document with another id and key."""
    fields = json.loads(raw.value or b"")
    fields["id"] = f"copy-{number}-of-{fields['id']}"
    return raw._replace(key=fields["id"].encode(), value=json.dumps(fields).encode())


def check_copies_are_named(stream: Stream, number: int) -> None:
    """Send a copy of each unique document; each must be a duplicate of that document."""
    uniques = dict(stream.outputs.uniques)
    copies = [copy_of(stream.sent[source], number) for source in uniques]
    places = stream.send(copies)
    duplicates = stream.settle().duplicates
    for source, original in zip(places, uniques, strict=True):
        assert source in duplicates, f"{source} is a copy of {original}, and was not told"
        assert (duplicates[source].original, duplicates[source].distance) == (original, 0)


def test_another_machine_takes_over(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        documents = generated(seed=52, count=DOCUMENTS)
        for run, machine in enumerate(["first", "second", "first"]):
            worker = stream.started(state=machine)
            send_and_settle(stream, documents[run * 40 : (run + 1) * 40])
            check_copies_are_named(stream, run)
            worker.stop_gently()
        stream.judge_all()


def test_an_offset_that_was_set_back_repeats_nothing_and_is_noted(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        send_and_settle(stream, generated(seed=53, count=40))
        worker.stop_gently()
        group, raw = stream.settings.application_id, stream.settings.topics.raw
        admin = admin_of(kafka_broker)
        earlier = ConsumerGroupTopicPartitions(group, [TopicPartition(raw, 0, 0)])
        admin.alter_consumer_group_offsets([earlier])[group].result(END_SECONDS)
        worker.start()
        worker.await_log(
            f"the group's offset of {raw}/0 is 0, but what is before 40 has its output"
        )
        send_and_settle(stream, generated(seed=54, count=20))
        stream.judge_all()
        worker.stop_gently()


def test_a_changelog_that_was_made_again_is_not_to_be_filled_by_repeats(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """To set the group's offset back, as for a cut changelog, would put out everything again."""
    options = ["send_timeout_seconds=3"]
    with Stream(kafka_broker, tmp_path, raw_partitions=1, options=options) as stream:
        worker = stream.started()
        send_and_settle(stream, generated(seed=55, count=20))
        worker.stop_gently()
        delete_topic(stream, stream.settings.topics.changelog)
        create(admin_of(kafka_broker), topic_plans(stream.settings, raw_partitions=1))
        other = stream.worker(state="other")
        other.start()
        assert other.await_end() == ExitCode.RUNTIME
        assert "has no records, but the group has committed" in other.log_text()
        assert "Set the group's offset back" not in other.log_text()


def test_the_state_of_another_changelog_ends_the_worker_which_names_it(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """The other changelog has the same name, as on another cluster."""
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        send_and_settle(stream, generated(seed=53, count=20))
        worker.stop_gently()
        changelog = stream.settings.topics.changelog
        admin = admin_of(kafka_broker)
        delete_topic(stream, changelog)
        await_that(lambda: changelog not in admin.list_topics(timeout=END_SECONDS).topics)
        create(admin, topic_plans(stream.settings, 4, 1))

        worker.start()

        assert worker.await_end() == ExitCode.CONFIGURATION
        (shard,) = shard_directories(stream)
        assert str(shard) in worker.log_text()


# ---- a recovery that takes long


def test_a_long_recovery_is_left_at_once(kafka_broker: Broker, tmp_path: Path) -> None:
    options = ["profile=classic"]
    with Stream(kafka_broker, tmp_path, raw_partitions=1, options=options) as stream:
        fill_changelog(stream, RECOVERED_ENTRIES)
        worker = stream.worker()
        worker.start()
        left = await_recovering(worker)
        (shard,) = ask(worker, "GET", "/api/status").json["shards"]
        assert (shard["state"], shard["entries"]) == ("recovering", 0)
        assert shard["remaining"] <= left
        assert 0 <= shard["recovered"] < 1
        started = time.monotonic()
        worker.stop_gently()
        assert time.monotonic() - started < STOP_SECONDS

        worker = stream.worker()
        worker.start()
        assert await_recovering(worker) <= left, "it began anew"
        worker.stop_gently()


def await_recovering(worker: Worker) -> float:
    """Wait until the worker is in the middle of a recovery; return the number of records left."""
    deadline = time.monotonic() + SEEN_SECONDS
    while time.monotonic() < deadline:
        worker.check()
        with suppress(WorkerProcessError):  # its pages are not there yet
            for line in worker.metrics().splitlines():
                name, _, value = line.partition(" ")
                if name == "firstseen_recovery_remaining_messages" and float(value) > 0:
                    return float(value)
        time.sleep(0.02)
    raise AssertionError(f"no recovery was seen; {worker.log_text()}")


def fill_changelog(stream: Stream, documents: int) -> None:
    address = {"bootstrap.servers": stream.broker.bootstrap_servers}
    producer = Producer(address | {"compression.type": "lz4"})
    topics = stream.settings.topics
    for record in changelog_of(stream.settings, Chain(topics.raw, "", 0), documents):
        producer.produce(topics.changelog, record.value, record.key, partition=0)
        producer.poll(0)
    assert producer.flush(60.0) == 0
