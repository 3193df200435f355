"""A worker with other settings does no harm: it ends before it joins or sends anything, and what
another one has sent all the same is passed over.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

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
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import DEFAULT_PROFILE, profile_named
from streams.errors import ExitCode
from streams.kafka.clients import Producer
from streams.settings.loader import load_settings
from streams.worker.log_codec import LogCodec
from tests.kafka.stream_changes import put_out, start_together, stop_gently
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import END_SECONDS, SEND_SECONDS, Stream, Worker
from tests.rigs.workers.worker_metrics import await_that, samples, value

ROUNDS = 3
SEND_EVERY_SECONDS = 0.5
OTHER = "index.distance=40"
OTHERS = {
    OTHER: f"index.distance: there {profile_named(DEFAULT_PROFILE).distance}, here 40",
    "index.same_id=replace": "index.same_id: there none, here replace",
    "fields.text=body": "fields.text: there text, here body",
    "max_record_bytes=2048": "max_record_bytes: there 1048576, here 2048",
}
"""Settings that an index depends on, with what a worker says of each; ``test_index_on_kafka`` has
all of them."""


def test_a_worker_with_other_settings_ends_before_it_joins_or_sends(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Each setting is named alone, and the workers of the index notice nothing."""
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        workers = start_together(stream)
        stream.send(keyed_documents(71, 100))
        stream.judge_all()
        rebalances = [value(each, "firstseen_rebalances_total") for each in workers]
        others = [
            stream.worker(option, state=f"other-{number}") for number, option in enumerate(OTHERS)
        ]
        for other in others:
            other.start()
        while not all(map(has_ended, others)):
            stream.send(keyed_documents(1_000, 20))
            time.sleep(SEND_EVERY_SECONDS)
        for other, said in zip(others, OTHERS.values(), strict=True):
            assert other.await_end() == ExitCode.CONFIGURATION
            text = other.log_text()
            assert said in text, text
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


def foreign_records(worker: Worker) -> float:
    """Records of other indexes that a worker has passed over, on any topic."""
    name = "firstseen_foreign_records_total"
    return sum(number for (found, _), number in samples(worker).items() if found == name)


def has_ended(worker: Worker) -> bool:
    """Whether it has ended by itself."""
    return worker._process is not None and worker._process.poll() is not None


def test_one_of_two_workers_with_different_settings_ends_when_both_begin_an_index(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    for number in range(ROUNDS):
        directory = tmp_path / str(number)
        directory.mkdir()
        with Stream(kafka_broker, directory, raw_partitions=2) as stream:
            stream.send(keyed_documents(81, 100))
            workers = [stream.worker(state="a"), stream.worker(OTHER, state="b")]
            for worker in workers:
                worker.start()
            deadline = time.monotonic() + END_SECONDS
            while not any(map(has_ended, workers)):
                assert time.monotonic() < deadline, [worker.log_text() for worker in workers]
                time.sleep(0.1)
            refused, other = workers if has_ended(workers[0]) else workers[::-1]
            assert refused.await_end() == ExitCode.CONFIGURATION
            other.await_ready()
            stream.settle()
            outputs = put_out(stream, keyed_documents(82, 50))
            outputs.read_to_ends()
            stream.judge.conserved(stream.sent, outputs)
            other.stop_gently()


@pytest.mark.parametrize("restarted", [False, True])
def test_records_of_another_index_are_passed_over(
    broker: Broker, tmp_path: Path, *, restarted: bool
) -> None:
    """Counted, as a worker that looked too late would leave them."""
    with Stream(broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        put_out(stream, keyed_documents(91, 40))
        if restarted:
            worker.stop_gently()
        records = send_foreign(stream)
        if restarted:
            worker = stream.started()
        stream.send(keyed_documents(92, 40))
        stream.judge_all()
        foreign = "firstseen_foreign_records_total"
        await_that("counted", lambda: value(worker, foreign, topic="log") == records, worker)
        worker.stop_gently()
        worker = stream.started()
        stream.send(keyed_documents(93, 40))
        stream.judge_all()
        worker.stop_gently()


def send_foreign(stream: Stream) -> int:
    """Put records of another index on ``log`` and ``reports``; return how many are on the log."""
    settings = load_settings(assignments=[OTHER], environ={}).settings
    fingerprinter = Fingerprinter(settings.index_profile())
    codec = LogCodec(fingerprinter.identity)
    raw = Chain(stream.settings.topics.raw, "", 0)
    source = SourcePosition(raw.topic, 0, 40)
    document = Document("foreign", "a text of another index", source, 0)
    prints = fingerprinter.fingerprint_batch([document.content])
    columns = document_columns([document], prints, settings.index_profile().bits // 64)
    records: list[LogRecord] = [
        Bundle.of([Packet(raw, Sender("foreign", 0), 39, 40, columns)]),
        Control(-1, "foreign", leads=True, decisions=[], heads=ChainHeads(), next=0),
    ]
    producer = Producer({"bootstrap.servers": stream.broker.bootstrap_servers})
    for record in records:
        producer.produce(stream.settings.topics.log, codec.encode(record), partition=0)
    report = codec.encode_report(Report("foreign", [0], -1, 0, 0, [], {0: 0}))
    producer.produce(stream.settings.topics.reports, report, partition=0)
    assert producer.flush(SEND_SECONDS) == 0
    return len(records)
