"""What every broker owes this project, on the embedded one and on a real Kafka; then what only the
real one does.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker

SECONDS_MAX = 60.0


def send(broker: Broker, topic: str, value: bytes | None, **record: object) -> None:
    """Send one record to partition 0, and wait until the broker has it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    outcomes: list[KafkaError | None] = []
    producer.produce(
        topic,
        value=value,
        partition=0,
        on_delivery=lambda error, _message: outcomes.append(error),
        **record,  # type: ignore[arg-type]
    )
    assert producer.flush(SECONDS_MAX) == 0
    assert outcomes == [None]


def values(messages: list[Message]) -> list[bytes | None]:
    """The values of records that were read."""
    return [message.value() for message in messages]


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of four partitions."""
    name = broker.unique("contract")
    broker.create_topics({name: 4})
    return name


def test_a_record_comes_back_whole(broker: Broker, topic: str) -> None:
    """Given a record with key, headers (one name twice, one without value) and timestamp; when it
    is read back; then nothing of it has changed.
    """
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("none", None)]
    send(broker, topic, "正文".encode(), key=b"id-1", headers=headers, timestamp=1_700_000_000_123)

    (message,) = broker.read_partition(topic, 1)

    assert message.value() == "正文".encode()
    assert message.key() == b"id-1"
    assert message.headers() == headers
    assert message.timestamp()[1] == 1_700_000_000_123


def test_a_tombstone_stays_without_value(broker: Broker, topic: str) -> None:
    """Given a record without value and one with an empty value; when they are read back; then the
    two are still told apart.
    """
    send(broker, topic, None, key=b"gone")
    send(broker, topic, b"", key=b"empty")

    assert values(broker.read_partition(topic, 2)) == [None, b""]


def test_a_record_of_900_kb_passes(broker: Broker, topic: str) -> None:
    """Given a document near the usual limit of 1 MB; when it is sent; then it arrives unchanged."""
    body = bytes(range(256)) * 3516
    assert len(body) > 900_000
    send(broker, topic, body)

    assert values(broker.read_partition(topic, 1)) == [body]


def test_a_key_keeps_its_partition(broker: Broker, topic: str) -> None:
    """Given many records of five keys; when they are sent without a partition; then all
    of one key are in one partition, in order.
    """
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    keys = [b"a", b"b", b"c", b"d", b"e"]
    for number in range(20):
        for key in keys:
            producer.produce(topic, key=key, value=b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0

    consumer = Consumer(broker.consumer_settings(broker.unique("reader")))
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
        seen: dict[bytes | None, list[tuple[int | None, bytes | None]]] = {}
        deadline = time.monotonic() + SECONDS_MAX
        while sum(map(len, seen.values())) < 100 and time.monotonic() < deadline:
            for message in consumer.consume(100, timeout=0.1):
                seen.setdefault(message.key(), []).append((message.partition(), message.value()))
    finally:
        consumer.close()

    assert set(seen) == set(keys)
    for records in seen.values():
        assert len({partition for partition, _ in records}) == 1
        assert [value for _, value in records] == [b"%d" % number for number in range(20)]


def test_a_group_goes_on_from_its_commit(broker: Broker, topic: str) -> None:
    """Given a group that has committed two of three records; when its next member joins; then it
    reads the third one first.
    """
    for value in (b"one", b"two", b"three"):
        send(broker, topic, value)
    group = broker.unique("group")

    def first_record() -> Message:
        consumer = Consumer(broker.consumer_settings(group))
        try:
            consumer.subscribe([topic])
            message = consumer.poll(SECONDS_MAX)
            assert message is not None
            assert message.error() is None
            if message.value() == b"one":
                consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
            return message
        finally:
            consumer.close()

    assert first_record().value() == b"one"
    assert first_record().value() == b"three"


def test_watermarks_and_commits_can_be_asked_for(broker: Broker, topic: str) -> None:
    """Given three records and a commit; when an outsider asks for both; then lag can be told."""
    for value in (b"one", b"two", b"three"):
        send(broker, topic, value)
    consumer = Consumer(broker.consumer_settings(broker.unique("group")))
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        committed = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS_MAX)
        watermarks = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX)
    finally:
        consumer.close()

    assert [partition.offset for partition in committed] == [1]
    assert watermarks == (0, 3)


def transactional_producer(broker: Broker, transactional_id: str) -> Producer:
    """A producer that has fenced all earlier ones of its id."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id}
    )
    producer.init_transactions(SECONDS_MAX)
    return producer


@pytest.fixture
def real_topic(kafka_broker: Broker) -> str:
    """A topic of one partition on the real broker."""
    name = kafka_broker.unique("transactions")
    kafka_broker.create_topics({name: 1})
    return name


def test_an_aborted_transaction_is_not_read(kafka_broker: Broker, real_topic: str) -> None:
    """Given an aborted, a committed and an open transaction; when they are read with and without
    read_committed; then the first shows the committed one only, the second all three.
    """
    producer = transactional_producer(kafka_broker, kafka_broker.unique("writer"))
    producer.begin_transaction()
    producer.produce(real_topic, b"aborted")
    assert producer.flush(SECONDS_MAX) == 0
    producer.abort_transaction(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(real_topic, b"committed")
    producer.commit_transaction(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(real_topic, b"open")
    assert producer.flush(SECONDS_MAX) == 0

    everything = kafka_broker.read_partition(real_topic, 3, isolation_level="read_uncommitted")
    committed = kafka_broker.read_partition(real_topic, 1, isolation_level="read_committed")
    producer.commit_transaction(SECONDS_MAX)
    at_last = kafka_broker.read_partition(real_topic, 2, isolation_level="read_committed")

    assert values(everything) == [b"aborted", b"committed", b"open"]
    assert values(committed) == [b"committed"]
    assert values(at_last) == [b"committed", b"open"]


def test_a_transaction_commits_records_and_offsets_at_once(
    kafka_broker: Broker, real_topic: str
) -> None:
    """Given a transaction over a record and a group's offset; when it is aborted, then repeated and
    committed; then the offset moves with the commit, and not before.
    """
    producer = transactional_producer(kafka_broker, kafka_broker.unique("writer"))
    consumer = Consumer(kafka_broker.consumer_settings(kafka_broker.unique("group")))
    offset = TopicPartition(real_topic, 0, 7)

    def committed() -> list[int]:
        answer = consumer.committed([TopicPartition(real_topic, 0)], timeout=SECONDS_MAX)
        return [partition.offset for partition in answer]

    try:
        for commit in (False, True):
            producer.begin_transaction()
            producer.produce(real_topic, b"output")
            producer.send_offsets_to_transaction(
                [offset], consumer.consumer_group_metadata(), SECONDS_MAX
            )
            if commit:
                producer.commit_transaction(SECONDS_MAX)
                assert committed() == [7]
            else:
                producer.abort_transaction(SECONDS_MAX)
                assert committed() == [-1001]
    finally:
        consumer.close()


def test_a_zombie_is_fenced(kafka_broker: Broker, real_topic: str) -> None:
    """Given a producer in a transaction; when another one starts with its transactional id; then
    the first cannot commit, and what it had sent is never read.
    """
    writer = kafka_broker.unique("writer")
    zombie = transactional_producer(kafka_broker, writer)
    zombie.begin_transaction()
    zombie.produce(real_topic, b"of the zombie")
    assert zombie.flush(SECONDS_MAX) == 0

    owner = transactional_producer(kafka_broker, writer)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(SECONDS_MAX)
    owner.begin_transaction()
    owner.produce(real_topic, b"of the owner")
    owner.commit_transaction(SECONDS_MAX)

    assert refused.value.args[0].code() == KafkaError._FENCED
    committed = kafka_broker.read_partition(real_topic, 1, isolation_level="read_committed")
    assert values(committed) == [b"of the owner"]


@pytest.mark.slow
def test_acknowledged_records_survive_kill_9(own_kafka_broker: Broker) -> None:
    """Given acknowledged records, a commit and a transaction that was left open; when the broker is
    killed and started again; then records and commit are there, at the same address, and the next
    owner of the transactional id ends what was left open.
    """
    broker, server = own_kafka_broker, own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    topic, group, writer = broker.unique("kept"), broker.unique("group"), broker.unique("writer")
    broker.create_topics({topic: 1})
    for value in (b"one", b"two"):
        send(broker, topic, value)
    consumer = Consumer(broker.consumer_settings(group))
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    left_open = transactional_producer(broker, writer)
    left_open.begin_transaction()
    left_open.produce(topic, b"left open")
    assert left_open.flush(SECONDS_MAX) == 0
    address = broker.bootstrap_servers

    server.kill()
    assert not server.is_running()
    server.start()

    assert broker.bootstrap_servers == address
    owner = transactional_producer(broker, writer)
    owner.begin_transaction()
    owner.produce(topic, b"three")
    owner.commit_transaction(SECONDS_MAX)
    read = broker.read_partition(topic, 3, isolation_level="read_committed")
    assert values(read) == [b"one", b"two", b"three"]
    consumer = Consumer(broker.consumer_settings(group))
    committed = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS_MAX)
    consumer.close()
    assert [partition.offset for partition in committed] == [1]
