"""Workers recover shards whose state is on another machine, or of another changelog."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from simhash_core.document_columns import BytesColumn, DocumentColumns
from simhash_core.log.records import NO_CONTROL, Chain, Packet, Progress, Sender
from simhash_core.log.shard_stream import NewEntries
from simhash_core.text.fingerprinter import CONTENT_DIGEST_SIZE, Fingerprinter
from streams.demo.worker_process import WorkerProcessError
from streams.errors import ExitCode
from streams.kafka.clients import Producer
from streams.store.changelog_codec import encode_entries, encode_progress
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from streams.worker.index_on_kafka import reading_rules
from tests.kafka.stream_changes import admin_of, delete_topic, send_and_settle
from tests.kafka.test_stream import generated
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that
from tests.rigs.workers.stream_harness import END_SECONDS, Stream, Worker
from tests.rigs.workers.stream_outputs import Raw
from tests.unit.ops_page.live_worker import ask

DOCUMENTS = 120
A_PACKET = 250
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
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
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
    """Write the changelog of ``documents`` unique documents, as a worker writes it."""
    rng = np.random.default_rng(10)
    profile = stream.settings.index_profile()
    producer = Producer(
        {"bootstrap.servers": stream.broker.bootstrap_servers, "compression.type": "lz4"}
    )
    topic, chain = stream.settings.topics.changelog, Chain(stream.settings.topics.raw, "", 0)
    for number, first in enumerate(range(0, documents, A_PACKET)):
        columns = DocumentColumns(
            np.arange(first, first + A_PACKET),
            np.zeros(A_PACKET, np.int64),
            BytesColumn.of([b"%d" % order for order in range(first, first + A_PACKET)]),
            rng.integers(0, 256, (A_PACKET, CONTENT_DIGEST_SIZE), np.uint8),
            rng.integers(0, 2**64, (A_PACKET, profile.bits // 64), np.uint64),
            np.zeros(A_PACKET, np.uint8),
            BytesColumn.of([b""] * A_PACKET),
        )
        packet = Packet(chain, Sender("x", number), first - 1, first + A_PACKET - 1, columns)
        key, value = encode_entries(NewEntries(number, packet, np.arange(A_PACKET)))
        producer.produce(topic, value, key, partition=0)
        producer.poll(0)
    identity = Fingerprinter(profile).identity
    progress = Progress(chain, documents, documents // A_PACKET, NO_CONTROL)
    key, value = encode_progress(progress, identity, reading_rules(stream.settings))
    producer.produce(topic, value, key, partition=0)
    assert producer.flush(60.0) == 0
