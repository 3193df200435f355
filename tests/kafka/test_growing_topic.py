"""The raw topic gets more partitions while workers run: more shards, without a restart."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.cimpl import NewPartitions

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import END_SECONDS, Stream
from tests.rigs.workers.worker_metrics import await_shared

BEFORE, AFTER = 4, 8
A_SEND = 50


def grow(stream: Stream, partitions: int) -> None:
    """Give the raw topic more partitions; what is sent from now on goes to all of them."""
    admin = AdminClient({"bootstrap.servers": stream.broker.bootstrap_servers})
    raw = stream.settings.topics.raw
    admin.create_partitions([NewPartitions(raw, partitions)])[raw].result(END_SECONDS)
    stream._producers.clear()  # they know the partitions that it had


def test_partitions_are_added_while_documents_flow(kafka_broker: Broker, tmp_path: Path) -> None:
    """Given two workers on four raw partitions; when four more are added, and documents keep
    coming, copies of earlier ones among them, then the workers share eight shards without a
    restart, each record has one output, and the invariants hold over old and new partitions.
    """
    documents = keyed_documents(61, 1_200)
    with Stream(kafka_broker, tmp_path, raw_partitions=BEFORE) as stream:
        workers = [stream.worker(state=f"machine-{n}") for n in range(2)]
        for worker in workers:
            worker.start()
        await_shared(workers, BEFORE)
        for start in range(0, 600, A_SEND):
            if start == 300:
                grow(stream, AFTER)
            stream.send(documents[start : start + A_SEND])
        await_shared(workers, AFTER)
        stream.send(documents[600:])
        stream.judge_all()
        for worker in workers:
            worker.stop_gently()
        again = stream.started(state="machine-0")
        stream.send(keyed_documents(62, 100))
        stream.judge_all()
        again.stop_gently()

        changelog = stream.settings.topics.changelog
        admin = AdminClient({"bootstrap.servers": stream.broker.bootstrap_servers})
        described = admin.list_topics(changelog, timeout=END_SECONDS).topics[changelog]
        assert len(described.partitions) == AFTER
    assert {source.partition for source in stream.sent} == set(range(AFTER))
