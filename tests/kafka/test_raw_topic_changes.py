"""The user shortens the raw topic, or deletes and recreates it; ``test_tagged`` adds partitions.

The worker reports what is lost. Nothing else is lost, and no record is taken for an earlier one.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from streams.errors import ExitCode
from tests.kafka.stream_changes import (
    ANSWER_SECONDS,
    admin_of,
    delete_topic,
    send_and_settle,
)
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Raw
from tests.rigs.workers.worker_metrics import await_that, value

ALL_SECONDS = 90.0
SILENT_SECONDS = 1.0
FETCH_SECONDS = 1.0
"""Longer than a broker delays a fetch, so that no fetch in flight can return later records."""

IN_FLIGHT = "firstseen_in_flight_documents"
DECIDE_SECONDS = 3.0


def documents(seed: int, count: int, partitions: int = 1) -> list[Raw]:
    """Return ``count`` records, for one partition after the other."""
    made = enumerate(keyed_documents(seed, count))
    return [raw._replace(partition=number % partitions) for number, raw in made]


@contextmanager
def suspended(worker: Worker) -> Iterator[None]:
    """Suspend a worker in the block, for less than its session, so that it stays in the group."""
    assert worker._process is not None
    os.kill(worker._process.pid, signal.SIGSTOP)
    time.sleep(FETCH_SECONDS)
    try:
        yield
    finally:
        os.kill(worker._process.pid, signal.SIGCONT)


def shorten(stream: Stream, before: int) -> None:
    """Delete the records of raw partition 0 before an offset, as retention does."""
    place, admin = TopicPartition(stream.settings.topics.raw, 0, before), admin_of(stream.broker)
    admin.delete_records([place])[place].result(ANSWER_SECONDS)
    for source in [each for each in stream.sent if each.offset < before]:
        if source in stream.outputs.awaited:
            stream.outputs.awaited.remove(source)
            del stream.sent[source]


def make_again(stream: Stream) -> None:
    """Create the deleted raw topic again."""
    raw = stream.settings.topics.raw
    stream.broker.create_topics({raw: stream.raw_partitions}, {"retention.ms": "-1"})
    stream.reconnect()


def output_keys(stream: Stream) -> Counter[bytes | None]:
    stream.outputs.read()
    return Counter(output.record.key for output in stream.outputs.records)


def check_each_key_once(stream: Stream, sent: list[Raw], *, repeats_allowed: bool = False) -> None:
    """Fail unless each key has exactly one output, because positions occur twice here."""
    expected = Counter(raw.key for raw in sent)
    deadline = time.monotonic() + ALL_SECONDS
    found = output_keys(stream)
    while len(found) < len(expected) and time.monotonic() < deadline:
        found = output_keys(stream)
    silent = time.monotonic() + SILENT_SECONDS
    while time.monotonic() < silent:
        found = output_keys(stream)
    assert not expected - found, f"{expected - found} lost"
    assert repeats_allowed or found == expected, f"{found - expected} repeated"


@pytest.mark.parametrize("state", ["stopped", "running"])
def test_records_that_were_deleted_unread_are_told(
    kafka_broker: Broker, tmp_path: Path, state: str
) -> None:
    first, lost, rest = documents(1, 20), documents(2, 15), documents(3, 15)
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        raw = stream.settings.topics.raw
        worker = stream.started()
        send_and_settle(stream, first)
        if state == "stopped":
            worker.stop_gently()
            stream.send([*lost, *rest])
            shorten(stream, 35)
            worker = stream.started()
        else:
            with suspended(worker):
                stream.send([*lost, *rest])
                shorten(stream, 35)
        outputs = stream.settle()

        stream.judge.conserved(stream.sent, outputs)
        worker.await_log(f"{raw}/0: offsets 20 to 34 were deleted before they were read")
        assert "retention.ms" in worker.log_text()
        count = f'firstseen_skipped_messages_total{{partition="0",topic="{raw}"}} 15.0'
        assert count in worker.metrics()
        worker.stop_gently()


def test_deleted_records_are_told_also_if_no_record_follows(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    first, lost, rest = documents(1, 20), documents(2, 15), documents(3, 15)
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        raw = stream.settings.topics.raw
        worker = stream.started()
        send_and_settle(stream, first)
        worker.stop_gently()
        stream.send(lost)
        shorten(stream, 35)
        worker = stream.started()
        worker.await_log(f"{raw}/0: offsets 20 to 34 were deleted before they were read")
        await_that(
            "it goes on", lambda: '"next_offset":35' in worker._get("/api/status")[1], worker
        )

        send_and_settle(stream, rest)
        count = f'firstseen_skipped_messages_total{{partition="0",topic="{raw}"}} 15.0'
        assert count in worker.metrics()
        worker.stop_gently()


def long_text(number: int) -> bytes:
    return b'{"text": "%s"}' % b" ".join(b"w%dx%d" % (number, each) for each in range(40))


def test_a_record_that_was_deleted_after_its_verdict_repeats_nothing_once_its_id_is_deleted(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """Its entry stays in the index although it never comes out, as docs/operations.md says."""
    lost = [Raw(b"lost-%d" % number, long_text(number)) for number in range(5)]
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.worker()
        worker.start("stalling")
        worker.await_ready()
        send_and_settle(stream, documents(12, 20))
        in_flight = stream.send([Raw(b"stall", b'{"text": "STALL"}'), *lost])
        await_that("read", lambda: value(worker, IN_FLIGHT) == len(in_flight), worker)
        time.sleep(DECIDE_SECONDS)
        worker.kill()
        shorten(stream, len(stream.sent))
        worker = stream.started()

        again = stream.send(lost)
        said = stream.settle().duplicates
        assert [said[each].original for each in again] == in_flight[1:]
        stream.send([raw._replace(value=None) for raw in lost])
        again = stream.send(lost)
        assert stream.settle().uniques.keys() >= {*again}
        worker.stop_gently()


def test_a_topic_that_was_made_again_while_the_worker_was_stopped(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        before, after = documents(4, 30), documents(5, 120, 3)
        worker = stream.started()
        send_and_settle(stream, before)
        worker.stop_gently()
        stream.raw_partitions = 3
        delete_topic(stream, stream.settings.topics.raw)
        make_again(stream)
        stream.send(after)
        stream.started()

        check_each_key_once(stream, before + after)


@pytest.mark.parametrize("again", [60, 8])
def test_a_topic_that_was_made_again_while_the_worker_stood_still(
    kafka_broker: Broker, tmp_path: Path, again: int
) -> None:
    """The topic is back so fast that the worker could continue in the middle of it."""
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        before, after = documents(6, 30, 2), documents(7, again, 2)
        worker = stream.started()
        send_and_settle(stream, before)
        with suspended(worker):
            delete_topic(stream, stream.settings.topics.raw)
            make_again(stream)
            stream.send(after)

        # Records that it read from the middle, before it checked the topic, are read again.
        check_each_key_once(stream, before + after, repeats_allowed=again > len(before))
        worker.await_log("was deleted and created again")
        worker.stop_gently()


def test_a_topic_that_is_deleted_while_the_worker_runs(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        before, after = documents(8, 30, 2), documents(9, 8, 2)
        worker = stream.started()
        send_and_settle(stream, before)
        delete_topic(stream, stream.settings.topics.raw)
        assert worker.await_end() == ExitCode.RUNTIME
        assert f"{stream.settings.topics.raw} no longer exists" in worker.log_text()

        make_again(stream)
        stream.send(after)
        worker = stream.started()
        check_each_key_once(stream, before + after)
        worker.await_log("was deleted and created again")
        worker.stop_gently()
