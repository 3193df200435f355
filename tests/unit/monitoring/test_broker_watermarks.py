"""Watermarks: the client is kept while it has answers; markers of transactions are no records."""

from __future__ import annotations

import pytest

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.topics.watermarks import BrokerWatermarks, Watermarks
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that


def test_watermarks_keep_a_client_that_has_answers(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("watched")
    watermarks = BrokerWatermarks(
        {"bootstrap.servers": embedded_broker.bootstrap_servers}, "no-group", 30.0
    )
    partition = TopicPartition(topic, 0)
    assert watermarks.of([partition]) == {partition: Watermarks(0, 0, 0)}
    client = watermarks._admin
    assert client is not None
    watermarks.of([partition])
    assert watermarks._admin is client


def test_watermarks_drop_a_client_without_an_answer() -> None:
    watermarks = BrokerWatermarks(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}"}, "no-group", 0.2
    )
    with pytest.raises(BrokerUnavailableError):
        watermarks.of([TopicPartition("raw", 0)])
    assert watermarks._admin is None


def test_watermarks_do_not_count_transaction_markers_as_records(kafka_broker: Broker) -> None:
    topic = kafka_broker.new_topic("watched")
    address = {"bootstrap.servers": kafka_broker.bootstrap_servers}
    producer = kafka_broker.transactional_producer()
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.commit_transaction(30)
    watermarks = BrokerWatermarks(address, "no-group", 30.0)
    partition = TopicPartition(topic, 0)
    # The broker writes the marker after its answer.
    await_that(lambda: watermarks.of([partition]) == {partition: Watermarks(0, 2, 2)})
    assert watermarks.holds_record(partition, 0)
    assert not watermarks.holds_record(partition, 1)
