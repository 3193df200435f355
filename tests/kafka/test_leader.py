"""The worker that decides is killed, or stopped and woken when another one decides; and it trims
the log that it decides from.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from streams.kafka.clients import Consumer
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.faulty_worker import faulty
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import SEND_SECONDS, Stream, Worker
from tests.rigs.workers.worker_metrics import await_leader, await_shared, await_that

PARTITIONS = 4
ASLEEP_SECONDS = 8.0
"""Longer than the session, which lasts four seconds here."""


def start_two(stream: Stream) -> list[Worker]:
    """Two workers that share the shards."""
    workers = [stream.worker(state=f"machine-{n}") for n in range(2)]
    for worker in workers:
        worker.start()
    await_shared(workers, PARTITIONS)
    return workers


@pytest.mark.slow
def test_the_leader_is_killed(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given two workers and documents on their way; when the leader is killed, twice, then the
    other one leads, and what was appended and not decided is decided once.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=PARTITIONS) as stream:
        workers = start_two(stream)
        for number in range(2):
            leader = await_leader(workers)
            stream.send(keyed_documents(100 + number, 400))
            leader.kill()
            stream.send(keyed_documents(110 + number, 200))
            (other,) = (worker for worker in workers if worker is not leader)
            assert await_leader([other]) is other
            stream.judge_all()
            leader.start()
            await_shared(workers, PARTITIONS)
        stream.send(keyed_documents(120, 200))
        stream.judge_all()
        for worker in workers:
            worker.stop_gently()


@pytest.mark.slow
def test_a_leader_that_wakes_when_another_one_leads(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a leader that is stopped in the middle of its work for longer than its session; when it
    wakes, and goes on to decide, then nobody heeds it, and it works on as one of two workers.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=PARTITIONS) as stream:
        workers = start_two(stream)
        zombie = await_leader(workers)
        (other,) = (worker for worker in workers if worker is not zombie)
        stream.send(keyed_documents(130, 1_000))
        assert zombie._process is not None
        os.kill(zombie._process.pid, signal.SIGSTOP)
        slept = time.monotonic()
        stream.send(keyed_documents(131, 200))
        assert await_leader([other]) is other
        time.sleep(max(0.0, ASLEEP_SECONDS - (time.monotonic() - slept)))
        os.kill(zombie._process.pid, signal.SIGCONT)
        stream.send(keyed_documents(132, 400))
        await_shared(workers, PARTITIONS)
        stream.send(keyed_documents(133, 200))
        stream.judge_all()
        for worker in workers:
            worker.stop_gently()


def test_the_leader_trims_the_log(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given documents that are decided and put out; then the leader deletes what nobody needs any
    more from the log; and a worker that starts without a state, and one that was away meanwhile,
    go on all the same.
    """
    with Stream(kafka_broker, tmp_path, raw_partitions=2) as stream:
        worker = stream.started(state="first")
        stream.send(keyed_documents(140, 200))
        stream.settle()
        worker.stop_gently()

        worker = stream.worker(state="second")
        worker.start_as(faulty("trimming"))
        worker.await_ready()
        for number in range(5):
            stream.send(keyed_documents(141 + number, 100))
            stream.settle()
        begins, _ = log_ends(stream)
        stream.send(keyed_documents(146, 100))
        await_that("trimmed the log", lambda: log_ends(stream)[0] > begins, worker)
        worker.stop_gently()

        for state in ("third", "first"):
            worker = stream.started(state=state)
            stream.send(keyed_documents(150 + len(state), 100))
            stream.judge_all()
            worker.stop_gently()


def log_ends(stream: Stream) -> tuple[int, int]:
    """The first offset of the log that is kept, and the next one to be given."""
    consumer = Consumer(stream.broker.consumer_settings(stream.broker.unique("ends")))
    try:
        place = TopicPartition(stream.settings.topics.log, 0)
        return consumer.get_watermark_offsets(place, timeout=SEND_SECONDS)
    finally:
        consumer.close()
