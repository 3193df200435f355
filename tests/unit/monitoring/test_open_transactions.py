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
    """What asks a broker."""
    return BrokerWatermarks({"bootstrap.servers": broker.bootstrap_servers}, "no-group", SECONDS)


def never(seconds: float) -> None:
    """Fails where something waits."""
    pytest.fail(f"waits for {seconds} s")


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    """A topic of three partitions."""
    return kafka_broker.new_topic("open", 3)


@pytest.fixture
def producer(kafka_broker: Broker) -> Iterator[Producer]:
    """A producer that is ready for transactions."""
    made = kafka_broker.transactional_producer(open_seconds=600)
    yield made
    made.abort_transaction(SECONDS)


def test_ends_that_differ_are_a_transaction() -> None:
    """Given watermarks, then those whose end cannot be read have a transaction, and no others."""
    read, stuck, empty = (TopicPartition("unique", each) for each in range(3))
    marks = {read: Watermarks(0, 9, 9), stuck: Watermarks(2, 5, 9), empty: Watermarks(0, 0, 0)}

    (found,) = open_transactions(marks).values()

    assert found == OpenTransaction(stuck, 5, 9)
    assert str(found).startswith("unique/1: a transaction is open since offset 5")
    assert "the 4 offsets from there on" in str(found)


def test_no_transaction_takes_no_time(kafka_broker: Broker, topic: str) -> None:
    """Given partitions that can be read to their ends, then nothing is waited for."""
    places = [TopicPartition(topic, each) for each in range(3)]

    assert lasting_transactions(watermarks_of(kafka_broker), places, never) == []
    assert lasting_transactions(watermarks_of(kafka_broker), [], never) == []


def test_one_that_ends_meanwhile_is_none(
    kafka_broker: Broker, topic: str, producer: Producer
) -> None:
    """Given a transaction that is committed between the two requests, and the next one open by
    then, then neither is reported, though the partition was behind both times; one that does not
    move is.
    """
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


def test_the_embedded_broker_has_none(embedded_broker: Broker) -> None:
    """Given the in-process broker, which has no isolation, then no transaction is found."""
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
def test_groups_are_placed_as_kafka_does(text: str, number: int) -> None:
    """Given the name of a group, then its number is that of Java's ``hashCode`` without sign."""
    assert _java_hash(text) == number
