"""A broker that answers nothing for a while, as in a long pause of its JVM or a rolling restart."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams.errors import ExitCode
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.workers.faulty_worker import faulty
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream

STILL_SECONDS = 9.0
STOP_SECONDS = 30.0
OUT_OF_SERVICE_SECONDS = 2.5
TIMEOUT_SECONDS = 4


@contextmanager
def standing_still(broker: Broker) -> Iterator[None]:
    """Let the broker stand still."""
    server = broker.server
    assert isinstance(server, KafkaBroker)
    server.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_sends_and_commits_are_done_again(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker in a transaction, when its broker stands still for longer than a send may
    take, then it lives, takes its shards over again, and goes on: nothing is lost or repeated.
    """
    # The group does not miss it so soon: this is about sends alone.
    options = [f"send_timeout_seconds={TIMEOUT_SECONDS}", "session_timeout_seconds=30"]
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        worker = stream.worker()
        worker.start_as(faulty("slow_commit=1"))
        worker.await_ready()
        stream.send(keyed_documents(1, 500))
        worker.await_log("sleeping in a transaction")
        with standing_still(kafka_broker):
            time.sleep(STILL_SECONDS)
        stream.send(keyed_documents(2, 100))
        stream.judge_all()

        worker.check()
        assert 'firstseen_transactions_total{outcome="unanswered"} 0.0' not in worker.metrics()
        worker.stop_gently()


@pytest.mark.slow
def test_a_worker_that_starts_waits(own_kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker that begins to open its shards, when its broker stands still and then has no
    leaders for a moment, then the shards are opened all the same.
    """
    options = ["session_timeout_seconds=30"]
    with Stream(own_kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        stream.send(keyed_documents(3, 100))
        worker = stream.worker()
        worker.start()
        worker.await_log("shards opening: 0 1")
        with standing_still(own_kafka_broker):
            time.sleep(OUT_OF_SERVICE_SECONDS)
        worker.await_ready()
        stream.send(keyed_documents(4, 100))
        stream.judge_all()
        worker.stop_gently()


@pytest.mark.slow
def test_a_changelog_that_is_silent_is_read_again(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker that has taken over its shards and is about to read their changelogs, when its
    broker stands still for longer than an answer may take, then they are opened once more.
    """
    options = [f"send_timeout_seconds={TIMEOUT_SECONDS}", "session_timeout_seconds=30"]
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        stream.send(keyed_documents(7, 100))
        worker = stream.worker()
        worker.start_as(faulty("slow_recovery=1"))
        worker.await_log("sleeping before it is read")
        with standing_still(kafka_broker):
            time.sleep(STILL_SECONDS)
        stream.judge_all()

        said = worker.log_text()
        assert "does not return the ends of the changelog" in said
        worker.stop_gently()


@pytest.mark.slow
def test_a_worker_can_be_stopped(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker at work whose broker stands still, when it gets SIGTERM, then it ends within
    the time of one send and a little more, though its group does not let it go.
    """
    options = [f"send_timeout_seconds={TIMEOUT_SECONDS}"]
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=options) as stream:
        worker = stream.started()
        stream.send(keyed_documents(5, 20_000))
        time.sleep(1.0)
        with standing_still(kafka_broker):
            assert worker._process is not None
            worker._process.terminate()
            assert worker.await_end(STOP_SECONDS) == ExitCode.OK
        again = stream.started()
        stream.judge_all()
        again.stop_gently()
