"""What every broker owes this project, on the embedded one and on a real Kafka; then what only the
real one does.
"""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from streams.kafka.clients import Consumer, Producer
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
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("none", None)]
    send(broker, topic, "正文".encode(), key=b"id-1", headers=headers, timestamp=1_700_000_000_123)
    (message,) = broker.read_partition(topic, 1)
    assert message.value() == "正文".encode()
    assert message.key() == b"id-1"
    assert message.headers() == headers
    assert message.timestamp()[1] == 1_700_000_000_123


def test_a_tombstone_stays_without_value(broker: Broker, topic: str) -> None:
    send(broker, topic, None, key=b"gone")
    send(broker, topic, b"", key=b"empty")
    assert values(broker.read_partition(topic, 2)) == [None, b""]


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


def test_a_zombie_is_fenced(kafka_broker: Broker, real_topic: str) -> None:
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
