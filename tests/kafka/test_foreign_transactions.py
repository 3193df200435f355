"""Records and markers of transactions that another program sent to the log are passed over."""

from __future__ import annotations

from pathlib import Path

from streams.kafka.clients import Producer
from tests.kafka.stream_changes import send_and_settle
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import SEND_SECONDS, Stream


def test_a_marker_of_a_transaction_at_the_end_of_the_log_stops_nobody(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    """The client returns no markers, so the end is after the last record that a reader gets."""
    with Stream(kafka_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        send_and_settle(stream, keyed_documents(11, 40))
        worker.stop_gently()
        send_in_a_transaction(stream)
        worker = stream.started()
        stream.send(keyed_documents(12, 40))
        stream.judge_all()
        assert "does another program write to this topic?" in worker.log_text()
        worker.stop_gently()


def send_in_a_transaction(stream: Stream) -> None:
    servers = stream.broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "another program"})
    producer.init_transactions(SEND_SECONDS)
    producer.begin_transaction()
    producer.produce(stream.settings.topics.log, b"not a record of the log")
    producer.commit_transaction(SEND_SECONDS)
    producer.close()
