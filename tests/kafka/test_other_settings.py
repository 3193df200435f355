"""A worker with other settings does no harm: it ends before it joins the group or sends anything.

If such a worker sends records anyway, the others ignore them.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from simhash_core.documents import Document, SourcePosition
from simhash_core.log.columns import document_columns
from simhash_core.log.records import (
    Bundle,
    Chain,
    ChainHeads,
    Control,
    LogRecord,
    Packet,
    Report,
    Sender,
)
from simhash_core.log.versions import NEWEST, OLDEST
from simhash_core.text.fingerprinter import Fingerprinter
from streams.errors import ExitCode
from streams.kafka.clients import Producer
from streams.settings.loader import load_settings
from streams.worker.log_codec import LogCodec
from tests.kafka.stream_changes import send_and_settle, start_together, stop_gently
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import SEND_SECONDS, Stream, Worker
from tests.rigs.workers.worker_metrics import await_that, samples, value

SEND_EVERY_SECONDS = 0.5
FOREIGN = "firstseen_foreign_records_total"
OTHER = "index.distance=40"
"""A setting that is part of the index; ``test_index_on_kafka`` has all of them."""
READING = "fields.title=headline"
"""A setting that is not."""


def test_a_worker_with_other_settings_ends_before_it_joins_or_sends(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        workers = start_together(stream)
        stream.send(keyed_documents(71, 100))
        stream.judge_all()
        rebalances = [value(each, "firstseen_rebalances_total") for each in workers]
        other = stream.worker(OTHER, state="other")
        other.start()
        while not has_ended(other):
            stream.send(keyed_documents(1_000, 20))
            time.sleep(SEND_EVERY_SECONDS)
        assert other.await_end() == ExitCode.CONFIGURATION
        text = other.log_text()
        assert f"index.distance: there {stream.settings.index_profile().distance}, here 40" in text
        assert text.count(": there ") == 1, text
        assert "Traceback" not in text
        stream.judge_all()
        assert [value(each, "firstseen_rebalances_total") for each in workers] == rebalances
        assert sum(map(foreign_records, workers)) == 0
        stop_gently(workers)
        worker = stream.started(state="machine-0")
        stream.send(keyed_documents(79, 50))
        stream.judge_all()
        worker.stop_gently()


def test_an_application_with_another_raw_topic_ends_before_it_joins_or_sends(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Its partitions would be the shards of the first one, and their leaders would take turns."""
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        send_and_settle(stream, keyed_documents(91, 50))
        first, other_raw = stream.settings.topics.raw, kafka_broker.new_topic("other-raw", 2)
        stream.assign(f"topics.raw={other_raw}")
        other = stream.worker(state="other")
        other.start()
        assert other.await_end() == ExitCode.CONFIGURATION
        assert f"topics.raw: there {first}, here {other_raw}" in other.log_text()
        assert "new application_id" in other.log_text()
        stream.send(keyed_documents(92, 50))
        stream.judge_all()
        worker.stop_gently()


def test_an_application_with_the_internal_topics_of_another_ends_before_it_joins_or_sends(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """The groups do not know of each other, so each shard would have two owners."""
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started()
        send_and_settle(stream, keyed_documents(93, 50))
        topics, first = stream.settings.topics, stream.settings.application_id
        internal = {"log": topics.log, "reports": topics.reports, "changelog": topics.changelog}
        shared = [f"topics.{setting}={topic}" for setting, topic in internal.items()]
        flags = ["--application-id", "second"]
        other = stream.worker(*shared, state="other", flags=flags)
        other.start()
        assert other.await_end() == ExitCode.CONFIGURATION
        assert f"is the changelog of application '{first}'" in other.log_text(), other.log_text()
        stream.send(keyed_documents(94, 50))
        stream.judge_all()
        worker.stop_gently()


def test_an_application_with_the_log_of_another_ends_before_it_joins_or_sends(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """It would name documents of the other one as originals, and their leaders would take turns."""
    (tmp_path / "second").mkdir()
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        send_and_settle(stream, keyed_documents(95, 50))
        log, first = stream.settings.topics.log, stream.settings.application_id
        options = [f"topics.log={log}"]
        with Stream(kafka_broker, tmp_path / "second", raw_partitions=1, options=options) as second:
            other = second.worker()
            other.start()
            assert other.await_end() == ExitCode.CONFIGURATION
            assert f"{log} is of another application ({first}." in other.log_text()
        send_and_settle(stream, keyed_documents(96, 50))
        worker.stop_gently()
        worker = stream.started()
        stream.send(keyed_documents(97, 50))
        stream.judge_all()
        worker.stop_gently()


def test_all_workers_may_change_how_records_are_read(kafka_broker: Broker, tmp_path: Path) -> None:
    """The killed one stays in the group for a while, and no document comes into shard 0."""
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started(state="a")
        stream.send(keyed_documents(61, 50))
        stream.settle()
        worker.kill()
        changed = [stream.worker(READING, state=state) for state in "ab"]
        for each in changed:
            each.start()
            each.await_ready()
        other = stream.worker(state="c")
        other.start()
        assert other.await_end() == ExitCode.CONFIGURATION
        assert "fields.title: there headline, here title" in other.log_text()
        assert "stop all workers" in other.log_text()
        stream.send(keyed_documents(62, 50))
        stream.judge_all()
        stop_gently(changed)


def foreign_records(worker: Worker) -> float:
    """Return how many records of other indexes a worker has ignored, on all topics."""
    return sum(number for (found, _), number in samples(worker).items() if found == FOREIGN)


def has_ended(worker: Worker) -> bool:
    return worker._process is not None and worker._process.poll() is not None


def test_one_of_two_workers_with_different_settings_ends_when_both_begin_an_index(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        stream.send(keyed_documents(81, 100))
        workers = [stream.worker(state="a"), stream.worker(OTHER, state="b")]
        for worker in workers:
            worker.start()
        await_that("one has ended", lambda: any(map(has_ended, workers)), workers[0])
        refused, other = workers if has_ended(workers[0]) else workers[::-1]
        assert refused.await_end() == ExitCode.CONFIGURATION
        other.await_ready()
        stream.settle()
        outputs = send_and_settle(stream, keyed_documents(82, 50))
        outputs.read_to_ends()
        stream.judge.conserved(stream.sent, outputs)
        other.stop_gently()


def test_records_of_another_index_or_version_are_passed_over(
    embedded_broker: Broker, tmp_path: Path
) -> None:
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        send_and_settle(stream, keyed_documents(91, 40))
        for seed, is_restarted in ((92, False), (93, True)):
            if is_restarted:
                worker.stop_gently()
            records = send_foreign(stream)
            if is_restarted:
                worker = stream.started()
            await_that("counted", partial(has_passed_over, worker, records), worker)
            said = f"has format version {NEWEST + 1}, and this release reads {OLDEST} to {NEWEST}"
            assert said in worker.log_text()
            stream.send(keyed_documents(seed, 40))
            stream.judge_all()
        worker.stop_gently()


def has_passed_over(worker: Worker, records: int) -> bool:
    """Return whether the worker has ignored so many; after a restart it may read some again."""
    return value(worker, FOREIGN, topic="log") >= records


def send_foreign(stream: Stream) -> int:
    """Put foreign records on ``log`` and ``reports``; return how many are on the log."""
    settings = load_settings(assignments=[OTHER], environ={}).settings
    fingerprinter = Fingerprinter(settings.index_profile())
    codec = LogCodec(fingerprinter.identity)
    raw = Chain(stream.settings.topics.raw, "", 0)
    source = SourcePosition(raw.topic, 0, 40)
    document = Document("foreign", "a text of another index", source, 0)
    writer = f"{stream.settings.application_id}.foreign"
    prints = fingerprinter.fingerprint_batch([document.content])
    columns = document_columns([document], prints, settings.index_profile().bits // 64)
    records: list[LogRecord] = [
        Bundle.of([Packet(raw, Sender(writer, 0), 39, 40, columns)]),
        Control(-1, writer, leads=True, decisions=[], heads=ChainHeads(), next=0),
    ]
    own = LogCodec(Fingerprinter(stream.settings.index_profile()).identity).encode(records[1])
    encoded = [bytes((version,)) + own[1:] for version in (NEWEST + 1, OLDEST - 2)]
    encoded += [codec.encode(record) for record in records]
    producer = Producer({"bootstrap.servers": stream.broker.bootstrap_servers})
    for each in encoded:
        producer.produce(stream.settings.topics.log, each, partition=0)
    report = codec.encode_report(Report(writer, [0], -1, 0, 0, [], {0: 0}))
    producer.produce(stream.settings.topics.reports, report, partition=0)
    assert producer.flush(SEND_SECONDS) == 0
    return len(encoded)
