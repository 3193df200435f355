"""Transactions without an end: which partitions have one, and which keep it for longer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simhash_core.documents import TopicPartition
from streams.kafka.clients import AdminClient, Producer
from streams.topics.open_transactions import (
    OpenTransaction,
    _java_hash,
    lasting_transactions,
    open_transactions,
    partitions_to_check,
)
from streams.topics.watermarks import BrokerWatermarks, Watermarks
from tests.rigs.brokers.broker import Broker

SECONDS = 30.0


def watermarks_of(broker: Broker) -> BrokerWatermarks:
    return BrokerWatermarks({"bootstrap.servers": broker.bootstrap_servers}, "no-group", SECONDS)


def never(seconds: float) -> None:
    pytest.fail(f"waits for {seconds} s")


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    return kafka_broker.new_topic("open", 3)


@pytest.fixture
def producer(kafka_broker: Broker) -> Iterator[Producer]:
    made = kafka_broker.transactional_producer(open_seconds=600)
    yield made
    made.abort_transaction(SECONDS)


def test_partition_with_an_unreadable_end_has_a_transaction() -> None:
    read, stuck, empty = (TopicPartition("unique", each) for each in range(3))
    marks = {read: Watermarks(0, 9, 9), stuck: Watermarks(2, 5, 9), empty: Watermarks(0, 0, 0)}
    (found,) = open_transactions(marks).values()
    assert found == OpenTransaction(stuck, 5, 9)
    assert str(found).startswith("unique/1: a transaction is open since offset 5")
    assert "the 4 offsets from there on" in str(found)


def test_partitions_without_a_transaction_are_not_waited_for(
    kafka_broker: Broker, topic: str
) -> None:
    places = [TopicPartition(topic, each) for each in range(3)]
    assert lasting_transactions(watermarks_of(kafka_broker), places, never) == []
    assert lasting_transactions(watermarks_of(kafka_broker), [], never) == []


def test_only_a_transaction_that_does_not_move_is_reported(
    kafka_broker: Broker, topic: str, producer: Producer
) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"first", partition=0)
    assert producer.flush(SECONDS) == 0
    places = [TopicPartition(topic, each) for each in range(3)]

    def go_on(_seconds: float) -> None:
        producer.commit_transaction(SECONDS)
        producer.begin_transaction()
        producer.produce(topic, b"second", partition=0)
        assert producer.flush(SECONDS) == 0

    assert lasting_transactions(watermarks_of(kafka_broker), places, go_on) == []
    (stays,) = lasting_transactions(watermarks_of(kafka_broker), places, lambda _: None)
    assert stays == OpenTransaction(places[0], 2, 3)


def test_embedded_broker_has_no_transactions(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("open", 2)
    admin = AdminClient({"bootstrap.servers": embedded_broker.bootstrap_servers})
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap_servers})
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(SECONDS) == 0
    places = partitions_to_check(admin, [topic, "not-there"], "group")
    assert places == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert lasting_transactions(watermarks_of(embedded_broker), places, never) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("hello", 99_162_322), ("polygenelubricants", 0), ("过滤器", 36_273_675)],
)
def test_java_hash_of_a_group(text: str, number: int) -> None:
    assert _java_hash(text) == number
