"""A client that already knows a topic gets the ends of a new partition."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewPartitions

from streams.kafka.clients import AdminClient, Consumer, offset_range
from streams.kafka.errors import Retries
from tests.rigs.brokers.broker import Broker

SECONDS = 10.0


def test_a_partition_that_was_added_is_soon_known(kafka_broker: Broker) -> None:
    """By default the client requests a topic's metadata again only after minutes."""
    topic = kafka_broker.new_topic("grown", 1)
    address = kafka_broker.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader"})
    try:
        assert offset_range(consumer, topic, 0, SECONDS) == (0, 0)
        with pytest.raises(KafkaException, match="Unknown partition"):
            offset_range(consumer, topic, 1, SECONDS)
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(SECONDS)

        again = Retries(SECONDS, 0.1)
        assert again(offset_range, consumer, topic, 1, SECONDS) == (0, 0)
    finally:
        consumer.close()
