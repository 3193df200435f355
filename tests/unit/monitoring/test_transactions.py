"""Watermarks, transactions without an end, and for how long a worker has seen these open."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient, Producer
from streams.monitoring.worker_watch import LOGGED_AFTER_SECONDS, TransactionWatch
from streams.topics.watermarks import (
    BrokerWatermarks,
    OpenTransaction,
    Watermarks,
    _java_hash,
    lasting_transactions,
    open_transactions,
    partitions_to_check,
)
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port

SECONDS = 30.0
RAW, OUTPUT = TopicPartition("raw", 1), TopicPartition("unique", 2)


def watermarks_of(broker: Broker) -> BrokerWatermarks:
    return BrokerWatermarks({"bootstrap.servers": broker.bootstrap_servers}, "no-group", SECONDS)


def never(seconds: float) -> None:
    pytest.fail(f"waits for {seconds} s")


@pytest.fixture
def places(kafka_broker: Broker) -> list[TopicPartition]:
    topic = kafka_broker.new_topic("open", 3)
    return [TopicPartition(topic, each) for each in range(3)]


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


def test_only_a_transaction_that_does_not_move_is_reported(
    kafka_broker: Broker, places: list[TopicPartition], producer: Producer
) -> None:
    assert lasting_transactions(watermarks_of(kafka_broker), places, never) == []
    producer.begin_transaction()
    producer.produce(places[0].topic, b"first", partition=0)
    assert producer.flush(SECONDS) == 0

    def go_on(_seconds: float) -> None:
        producer.commit_transaction(SECONDS)
        producer.begin_transaction()
        producer.produce(places[0].topic, b"second", partition=0)
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
    for each in (places, []):
        assert lasting_transactions(watermarks_of(embedded_broker), each, never) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("hello", 99_162_322), ("polygenelubricants", 0), ("过滤器", 36_273_675)],
)
def test_java_hash_of_a_group(text: str, number: int) -> None:
    assert _java_hash(text) == number


def opened(partition: TopicPartition, offset: int) -> dict[TopicPartition, OpenTransaction]:
    return {partition: OpenTransaction(partition, offset, offset + 3)}


def test_worker_watches_its_shards_and_shard_0_the_outputs() -> None:
    watch = TransactionWatch(("raw", "changelog"), [OUTPUT])
    assert watch.partitions([1]) == [RAW, TopicPartition("changelog", 1)]
    assert OUTPUT in watch.partitions([0, 1])
    assert watch.partitions([]) == []


def test_transactions_that_follow_each_other_have_no_age(caplog: pytest.LogCaptureFixture) -> None:
    watch = TransactionWatch(("raw",), [])
    caplog.set_level(logging.WARNING)
    assert watch.update({}, 0.0) == 0.0
    assert watch.update(opened(RAW, 5), 10.0) == 0.0
    assert watch.update(opened(RAW, 9), 200.0) == 0.0, "another one"
    assert watch.update(opened(RAW, 9) | opened(OUTPUT, 7), 210.0) == 10.0
    assert watch.update(opened(OUTPUT, 7), 230.0) == 20.0
    assert not caplog.messages


def test_transaction_is_logged_once_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    watch = TransactionWatch(("raw",), [])
    caplog.set_level(logging.WARNING)
    for now in (0.0, LOGGED_AFTER_SECONDS, 2 * LOGGED_AFTER_SECONDS):
        watch.update(opened(RAW, 5), now)
    (said,) = caplog.messages
    assert said.startswith("raw/1: a transaction is open since offset 5")
    assert "first seen 60 s ago" in said
    assert "HungTransaction" in said

    watch.update(opened(RAW, 9), 1000.0)
    watch.update(opened(RAW, 9), 1000.0 + LOGGED_AFTER_SECONDS)
    watch.update({}, 2000.0)
    assert caplog.messages[1] == "raw/1: the transaction has ended"
    assert caplog.messages[2].startswith("raw/1: a transaction is open since offset 9")
    assert caplog.messages[3] == "raw/1: the transaction has ended"
    assert len(caplog.messages) == 4


def test_watermarks_drop_a_client_without_an_answer() -> None:
    address = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    watermarks = BrokerWatermarks(address, "no-group", 0.2)
    with pytest.raises(BrokerUnavailableError):
        watermarks.of([TopicPartition("raw", 0)])
    assert watermarks._admin is None
