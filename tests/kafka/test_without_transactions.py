"""``delivery=at_least_once`` on a broker that takes admin requests, which the in-process one does
not: workers still trim the log, and give the changelog the partitions that the raw topic gets.
"""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import TopicPartition

from streams.errors import ExitCode
from streams.kafka.clients import Consumer
from tests.kafka.stream_changes import ANSWER_SECONDS, grow, send_and_settle
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream

AT_LEAST_ONCE = ["delivery=at_least_once"]
PARTITIONS = 4
TRIMMED_SECONDS = 60.0


def log_start(stream: Stream) -> int:
    consumer = Consumer({"bootstrap.servers": stream.broker.bootstrap_servers, "group.id": "log"})
    try:
        place = TopicPartition(stream.settings.topics.log, 0)
        return int(consumer.get_watermark_offsets(place, timeout=ANSWER_SECONDS)[0])
    finally:
        consumer.close()


def test_the_log_is_trimmed(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=AT_LEAST_ONCE) as stream:
        worker = stream.worker()
        worker.start("trimming")
        worker.await_ready()
        deadline = time.monotonic() + TRIMMED_SECONDS
        while not log_start(stream):
            assert time.monotonic() < deadline, worker.log_text()
            send_and_settle(stream, keyed_documents(len(stream.sent), 20))
        worker.kill()
        worker = stream.started()
        stream.send(keyed_documents(3, 40))
        stream.settle()
        worker.stop_gently()


def test_partitions_are_added_to_the_raw_topic(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=2, options=AT_LEAST_ONCE) as stream:
        worker = stream.started()
        send_and_settle(stream, keyed_documents(4, 40))
        grow(stream, PARTITIONS)
        made = enumerate(keyed_documents(5, 40))
        stream.send(raw._replace(partition=number % PARTITIONS) for number, raw in made)
        stream.judge_all()
        worker.stop_gently()


def test_a_worker_that_reads_otherwise_is_refused(kafka_broker: Broker, tmp_path: Path) -> None:
    with Stream(kafka_broker, tmp_path, raw_partitions=1, options=AT_LEAST_ONCE) as stream:
        worker = stream.started()
        send_and_settle(stream, keyed_documents(6, 20))
        other = stream.worker("fields.text=body", state="other")
        other.start()
        assert other.await_end() == ExitCode.CONFIGURATION
        assert "fields.text: there text, here body" in other.log_text()
        worker.stop_gently()
