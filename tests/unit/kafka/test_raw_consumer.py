"""Raw records come in order, in bounded fetches, from where the owner says, and no faster."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka.cimpl import NewPartitions

from streams.kafka import raw_consumer
from streams.kafka.clients import AdminClient, Producer
from streams.kafka.errors import TopicGoneError
from tests.rigs.brokers.broker import Broker
from tests.unit.kafka.recording_owner import RecordingOwner, settings_for, until


def produce(broker: Broker, topic: str, per_partition: dict[int, int], size: int = 10) -> None:
    """Send so many records to each partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for partition, count in per_partition.items():
        for _ in range(count):
            producer.produce(topic, b"x" * size, partition=partition)
    assert producer.flush(30) == 0


def raw_topic(broker: Broker, per_partition: dict[int, int], size: int = 10) -> str:
    """A topic with so many records in each partition."""
    topic = broker.new_topic("raw", len(per_partition))
    produce(broker, topic, per_partition, size)
    return topic


def test_all_records_come_in_order(broker: Broker) -> None:
    """Given three partitions, one to be read from offset 50, then every record from there comes
    once, in order, in fetches of no more than one poll.
    """
    topic = raw_topic(broker, {0: 400, 1: 300, 2: 200})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner(starts={1: 50})
        consumer = owner.open(settings_for(broker, topic), topic, poll_records=70)
        await until(lambda: owner.count == 850)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert owner.offsets == {
        0: list(range(400)),
        1: list(range(50, 300)),
        2: list(range(200)),
    }
    assert max(sum(len(run.messages) for run in each.runs) for each in owner.fetches) <= 71
    assert all(run.size == 10 * len(run.messages) for each in owner.fetches for run in each.runs)
    assert owner.failure is None
    assert owner.events == [("assigned", frozenset({0, 1, 2})), ("revoked", frozenset({0, 1, 2}))]


def test_nothing_comes_before_it_is_to_be_read(broker: Broker) -> None:
    """Given owned partitions, when only one is to be read, then only that one is, until the other
    is too; and one that is stopped is read no more until it is to be read again.
    """
    topic = raw_topic(broker, {0: 10, 1: 10})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner(is_eager=False)
        consumer = owner.open(settings_for(broker, topic), topic)
        await until(lambda: owner.owned == {0, 1})
        owner.read(1, 4)
        await until(lambda: owner.count == 6)
        owner.read(0, 0)
        await until(lambda: owner.count == 16)
        consumer.stop(0)
        produce(broker, topic, {0: 3, 1: 3})
        await until(lambda: owner.count == 19)
        owner.read(0, 11)
        await until(lambda: owner.count == 21)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert owner.offsets[1] == [*range(4, 10), 10, 11, 12]
    assert owner.offsets[0] == [*range(10), 11, 12]


def test_an_earlier_reading_ends(broker: Broker) -> None:
    """Given fetches that wait for a slow owner, when the partition is to be read from elsewhere,
    then what comes from there carries the number of the new reading, and nothing of the earlier one
    comes after it.
    """
    topic = raw_topic(broker, {0: 1000})

    async def scene() -> tuple[RecordingOwner, int]:
        owner = RecordingOwner()
        owner.is_held = True
        consumer = owner.open(settings_for(broker, topic), topic, poll_records=10)
        await until(lambda: consumer._inbox.full)
        number = owner.read(0, 700)
        owner.release()
        await until(lambda: owner.offsets[0][-1:] == [999])
        await consumer.close()
        return owner, number

    owner, number = asyncio.run(scene())
    runs = [run for fetched in owner.fetches for run in fetched.runs]
    numbers = [run.reading for run in runs]
    assert numbers == sorted(numbers)
    offsets = [each.offset() for run in runs if run.reading == number for each in run.messages]
    assert offsets == list(range(700, 1000))
    assert len(owner.offsets[0]) < 400


def test_the_end_of_a_partition_comes_with_its_last_fetch(broker: Broker) -> None:
    """Given partitions with records, when the client does not report their ends, then the fetch
    with the last record that was there says that its partition has ended.
    """
    topic = raw_topic(broker, {0: 5, 1: 5})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        config = {"enable.partition.eof": False}
        consumer = owner.open(settings_for(broker, topic), topic, config=config)
        await until(lambda: owner.count == 10)
        produce(broker, topic, {0: 2, 1: 1})
        await until(lambda: owner.count == 13)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    for partition, last in ((0, 6), (1, 5)):
        (fetched,) = [
            each
            for each in owner.fetches
            for run in each.runs
            if run.partition == partition and run.messages[-1].offset() == last
        ]
        assert partition in fetched.ended


def test_a_slow_owner_gets_no_more_than_is_queued(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given an owner that takes nothing now and then, once for so long that partitions are paused,
    then no more than two fetches wait; when it takes again, the rest comes, once and in order.
    """
    monkeypatch.setattr(raw_consumer, "_PAUSE_SECONDS", 0.3)
    topic = raw_topic(broker, {0: 2000, 1: 2000})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        consumer = owner.open(settings_for(broker, topic), topic, poll_records=20)
        for _ in range(20):
            owner.is_held = True
            await until(lambda: consumer._inbox.full)
            owner.release()
        owner.is_held = True
        await until(lambda: consumer._all_paused)
        assert len(consumer._inbox._items) == 2
        held = owner.count
        assert 0 < held < 4000
        owner.release()
        await until(lambda: owner.count == 4000)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert owner.offsets == {0: list(range(2000)), 1: list(range(2000))}


def test_added_partitions_are_assigned(kafka_broker: Broker) -> None:
    """Given a topic that gets more partitions while it is read, then they are assigned."""
    topic = raw_topic(kafka_broker, {0: 10})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        consumer = owner.open(
            settings_for(kafka_broker, topic),
            topic,
            config={"topic.metadata.refresh.interval.ms": 300},
        )
        await until(lambda: owner.count == 10)
        admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
        await asyncio.to_thread(admin.create_partitions([NewPartitions(topic, 3)])[topic].result)
        await until(lambda: owner.owned == {0, 1, 2})
        await asyncio.to_thread(produce, kafka_broker, topic, {0: 5, 2: 5})
        await until(lambda: owner.count == 20)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert owner.offsets == {0: list(range(15)), 2: list(range(5))}


def test_a_partition_that_ends_before_the_offset_comes_from_its_start(broker: Broker) -> None:
    """Given a partition with 10 records, when it is to be read from offset 100, then its first
    record comes: from that the owner sees that the topic is not the one of which the offset is.
    """
    topic = raw_topic(broker, {0: 10})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner(starts={0: 100})
        consumer = owner.open(settings_for(broker, topic), topic)
        await until(lambda: owner.count == 10)
        await consumer.close()
        return owner

    assert asyncio.run(scene()).offsets == {0: list(range(10))}


def test_a_deleted_topic_is_a_failure(kafka_broker: Broker) -> None:
    """Given a topic that is deleted while it is read, then that is its one failure."""
    topic = raw_topic(kafka_broker, {0: 10, 1: 10})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        consumer = owner.open(
            settings_for(kafka_broker, topic),
            topic,
            config={"topic.metadata.refresh.interval.ms": 300},
        )
        await until(lambda: owner.count == 20)
        admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
        await asyncio.to_thread(admin.delete_topics([topic])[topic].result)
        await until(lambda: owner.failure)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert isinstance(owner.failure, TopicGoneError)
