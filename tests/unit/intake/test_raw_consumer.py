"""Raw records come in order, in bounded batches, from where the owner says, and no faster."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from streams.intake import raw_poller
from streams.intake.raw_records import TopicRecreatedError
from streams.kafka.consumer_errors import TopicGoneError
from tests.rigs.brokers.broker import Broker
from tests.unit.intake.recording_owner import WAIT_SECONDS, RecordingOwner, settings_for, until


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
    """Given three partitions, one to be read from offset 50, when they are started, then every
    record from there comes once, in order, in batches of no more than the limit.
    """
    topic = raw_topic(broker, {0: 400, 1: 300, 2: 200})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner(starts={1: 50})
        consumer = owner.open(settings_for(broker, topic), topic, batch_records=70)
        await until(lambda: owner.count == 850)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert owner.offsets == {
        0: list(range(400)),
        1: list(range(50, 300)),
        2: list(range(200)),
    }
    assert max(sum(len(run.messages) for run in batch) for batch in owner.batches) <= 70
    assert owner.failure is None
    assert owner.events == [("assigned", frozenset({0, 1, 2})), ("revoked", frozenset({0, 1, 2}))]


def test_bytes_of_a_batch_are_bounded(embedded_broker: Broker) -> None:
    """Given records of 1,000 bytes and one of 9,000, when batches may have 5,000 bytes, then none
    has more, but the one that the large record has for itself.
    """
    topic = raw_topic(embedded_broker, {0: 23}, 1000)
    produce(embedded_broker, topic, {0: 1}, 9000)
    produce(embedded_broker, topic, {0: 20}, 1000)

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        settings = settings_for(embedded_broker, topic)
        consumer = owner.open(settings, topic, batch_bytes=5000)
        await until(lambda: owner.count == 44)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert owner.offsets[0] == list(range(44))
    sizes = [sum(run.size for run in batch) for batch in owner.batches]
    assert sum(sizes) == 52_000
    assert sorted(sizes)[-2:] == [5000, 9000]


def test_nothing_is_read_before_it_is_started(broker: Broker) -> None:
    """Given owned partitions, when only one is started, then only that one is read, until the
    other is; and one that is stopped is read no more until it is started again.
    """
    topic = raw_topic(broker, {0: 10, 1: 10})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner(is_eager=False)
        consumer = owner.open(settings_for(broker, topic), topic)
        await until(lambda: owner.owned == {0, 1})
        consumer.start(1, 4)
        await until(lambda: owner.count == 6)
        consumer.start(0, 0)
        await until(lambda: owner.count == 16)
        consumer.stop(0)
        produce(broker, topic, {0: 3, 1: 3})
        await until(lambda: owner.count == 19)
        consumer.start(0, 11)
        await until(lambda: owner.count == 21)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert owner.offsets[1] == [*range(4, 10), 10, 11, 12]
    assert owner.offsets[0] == [*range(10), 11, 12]


def test_what_an_earlier_start_had_read_is_dropped(broker: Broker) -> None:
    """Given batches that wait for a slow owner, when the partition is started again elsewhere, then
    what was read before is not handed over, and runs carry the number of the new start.
    """
    topic = raw_topic(broker, {0: 1000})

    async def scene() -> tuple[RecordingOwner, int]:
        owner = RecordingOwner()
        gate = asyncio.Event()
        owner.before_record = gate.wait
        consumer = owner.open(settings_for(broker, topic), topic, batch_records=10)
        await until(lambda: consumer._batches.full)
        number = consumer.start(0, 700)
        gate.set()
        await until(lambda: owner.offsets[0][-1:] == [999])
        await consumer.close()
        return owner, number

    owner, number = asyncio.run(scene())
    # The batch that the owner had in hand already is the only one of the first start.
    assert owner.offsets[0] == [*owner.offsets[0][:-300], *range(700, 1000)]
    assert [run.start for batch in owner.batches[1:] for run in batch] == [number] * 30
    assert len(owner.offsets[0]) <= 310


def test_a_partition_is_at_its_end_when_the_last_fetch_is_taken(broker: Broker) -> None:
    """Given partitions with records, when the client does not say that they end, then no partition
    is waited for once the last record that was fetched of it has come: they come together.
    """
    topic = raw_topic(broker, {0: 5, 1: 5, 2: 5})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        config = {"enable.partition.eof": False}
        settings = settings_for(broker, topic)
        consumer = owner.open(settings, topic, config=config, idle_seconds=2 * WAIT_SECONDS)
        await until(lambda: owner.count == 15)
        produce(broker, topic, {0: 2, 1: 1, 2: 3})
        await until(lambda: owner.count == 21)
        await consumer.close()
        return owner

    assert asyncio.run(scene()).offsets == {0: [*range(7)], 1: [*range(6)], 2: [*range(8)]}


def test_held_and_slow_owners_get_no_more_than_is_queued(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a held consumer, when it is held for so long that partitions are paused, then no more
    comes than was queued; released, the rest comes, once and in order.
    """
    monkeypatch.setattr(raw_poller, "_PAUSE_SECONDS", 0.3)
    topic = raw_topic(broker, {0: 2000, 1: 2000})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        owner.before_record = lambda: asyncio.sleep(0.005)
        consumer = owner.open(settings_for(broker, topic), topic, batch_records=20)
        await until(lambda: owner.count > 100)
        for _ in range(20):
            consumer.hold()
            await asyncio.sleep(0.01)
            consumer.hold(False)
        consumer.hold()
        await asyncio.sleep(0.2)
        held = owner.count
        await asyncio.sleep(1.0)
        assert owner.count == held < 4000
        consumer.hold(False)
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


def test_a_topic_that_ends_before_the_offset_is_told(broker: Broker) -> None:
    """Given a partition with 10 records, when it is to be read from offset 100, then that is a
    failure, and no record comes: the topic is not the one of which the offset is.
    """
    topic = raw_topic(broker, {0: 10})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner(starts={0: 100})
        consumer = owner.open(settings_for(broker, topic), topic)
        await until(lambda: owner.failure)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert isinstance(owner.failure, TopicRecreatedError)
    for part in (f"{topic}/0", "offset 100", "offset 0"):
        assert part in str(owner.failure)
    assert owner.count == 0


def test_a_deleted_topic_is_told(kafka_broker: Broker) -> None:
    """Given a topic that is deleted while it is read, then that is a failure, told once."""
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


def test_a_backlog_comes_by_timestamps(broker: Broker) -> None:
    """Given a backlog in which the records of partition 2 are older than those of 1, and those of
    1 than those of 0, when the partitions are read, then 2 comes before 1 and 1 before 0.
    """
    topic = broker.new_topic("raw", 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for partition in range(3):
        for number in range(600):
            time_ms = 1_700_000_000_000 + (2 - partition) * 10_000 + number
            producer.produce(topic, b"x" * 100, partition=partition, timestamp=time_ms)
    assert producer.flush(30) == 0

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        consumer = owner.open(
            settings_for(broker, topic), topic, batch_records=100, idle_seconds=10.0
        )
        await until(lambda: owner.count == 1_800)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    partitions = [run.partition for batch in owner.batches for run in batch]
    assert partitions == sorted(partitions, reverse=True)
    assert owner.offsets == {partition: list(range(600)) for partition in range(3)}
