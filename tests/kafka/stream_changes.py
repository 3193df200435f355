"""Shared steps of tests with a stream: start workers, send documents, change topics."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions

from streams.kafka.clients import AdminClient
from streams.topics.admin import partitions_of, topic_configs
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.waiting import await_that
from tests.rigs.workers.stream_harness import Stream, Worker
from tests.rigs.workers.stream_outputs import Outputs, Raw
from tests.rigs.workers.worker_metrics import await_shared

ANSWER_SECONDS = 60.0


def kafka_server(broker: Broker) -> KafkaBroker:
    assert isinstance(broker.server, KafkaBroker)
    return broker.server


def admin_of(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def start_together(stream: Stream, count: int = 2) -> list[Worker]:
    """Start workers with separate state directories, and wait until they share the shards."""
    workers = [stream.worker(state=f"machine-{number}") for number in range(count)]
    for worker in workers:
        worker.start()
    await_shared(workers, stream.raw_partitions)
    return workers


def send_and_settle(stream: Stream, documents: Iterable[Raw]) -> Outputs:
    """Send documents; return all outputs once each document has one."""
    stream.send(documents)
    return stream.settle()


def stop_gently(workers: Iterable[Worker]) -> None:
    for worker in workers:
        worker.stop_gently()


def set_topic_config(admin: AdminClient, topic: str, name: str, value: object) -> None:
    entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(ANSWER_SECONDS)
    await_that(lambda: topic_configs(admin, [topic])[topic][name] == str(value))


def delete_topic(stream: Stream, topic: str) -> None:
    admin = admin_of(stream.broker)  # its requests end when it is deleted
    deleted = admin.delete_topics([topic], operation_timeout=ANSWER_SECONDS)
    deleted[topic].result(ANSWER_SECONDS)


def grow(stream: Stream, partitions: int) -> None:
    """Add partitions to the raw topic; records that are sent later go to all of them."""
    raw, admin = stream.settings.topics.raw, admin_of(stream.broker)
    admin.create_partitions([NewPartitions(raw, partitions)])[raw].result(ANSWER_SECONDS)
    # A client that asks before the broker knows them asks again only after minutes.
    await_that(lambda: partitions_of(admin, [raw]) == {raw: partitions})
    stream.reconnect()
