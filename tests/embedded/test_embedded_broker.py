"""The embedded broker as a process, and the limits that its docstring warns of.

A limit is tested so that the day librdkafka lifts it we learn of it, and may lean on it less.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import TopicPartition

from streams.kafka.clients import AdminClient, Consumer, Producer
from streams.kafka.embedded_broker import (
    PARTITIONS_BY_DEFAULT,
    RETAINED_BYTES_PER_PARTITION,
    EmbeddedBroker,
    EmbeddedBrokerError,
)
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that

SECONDS_MAX = 90.0


def partitions(broker: Broker, topic: str) -> int:
    """How many partitions the broker says that a topic has; asking for it creates it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return len(admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions)


def watermarks(broker: Broker, topic: str) -> tuple[int, int]:
    """The first offset that is kept in partition 0, and the next one to be given."""
    consumer = Consumer(broker.consumer_settings(broker.unique("watermarks")))
    try:
        answer = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX)
        assert answer is not None
        return answer
    finally:
        consumer.close()


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_topic_has_the_partitions_asked_for(embedded_broker: Broker) -> None:
    made, asked_for = embedded_broker.unique("made"), embedded_broker.unique("asked")
    embedded_broker.create_topics({made: 7})
    assert partitions(embedded_broker, made) == 7
    assert partitions(embedded_broker, asked_for) == PARTITIONS_BY_DEFAULT


@pytest.mark.parametrize(
    ("name", "count", "complaint"),
    [
        ("two words", 1, "'two words'"),
        ("", 1, "''"),
        ("none", 0, "0 partitions, not 1 to 1000"),
        ("many", 1001, "1001 partitions, not 1 to 1000"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    embedded_broker: Broker, name: str, count: int, complaint: str
) -> None:
    with pytest.raises(EmbeddedBrokerError, match=complaint):
        embedded_broker.create_topics({name: count})
    after = embedded_broker.new_topic("after")
    assert partitions(embedded_broker, after) == 1


def test_a_topic_is_made_once(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("once", 2)
    with pytest.raises(EmbeddedBrokerError, match=topic):
        embedded_broker.create_topics({topic: 2})


def test_the_first_member_of_a_group_joins_at_once(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("joined")
    assigned: list[TopicPartition] = []
    consumer = Consumer(embedded_broker.consumer_settings(embedded_broker.unique("group")))
    try:
        started = time.monotonic()
        consumer.subscribe([topic], on_assign=lambda _consumer, given: assigned.extend(given))
        while not assigned and time.monotonic() < started + SECONDS_MAX:
            consumer.poll(0.05)
        assert time.monotonic() - started < 2.0
    finally:
        consumer.close()


def test_old_records_are_dropped_unread(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("dropped")
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap_servers})
    for _ in range(100):
        producer.produce(topic, b"x" * 100_000, partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    first, end = watermarks(embedded_broker, topic)
    assert end == 100
    assert (end - first) * 100_000 > RETAINED_BYTES_PER_PARTITION - 1_100_000
    assert (end - first) * 100_000 < RETAINED_BYTES_PER_PARTITION


def test_two_batches_above_half_the_retention_are_both_lost(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("lost")
    producer = Producer(
        {"bootstrap.servers": embedded_broker.bootstrap_servers, "message.max.bytes": 3_000_000}
    )
    for _ in range(2):
        producer.produce(topic, b"x" * 2_700_000, partition=0)
        assert producer.flush(SECONDS_MAX) == 0
    assert watermarks(embedded_broker, topic) == (2, 2)


def test_transactions_do_not_isolate(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("aborted")
    producer = embedded_broker.transactional_producer()
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    producer.abort_transaction(SECONDS_MAX)
    (message,) = embedded_broker.read_partition(topic, 1, isolation_level="read_committed")
    assert message.value() == b"aborted"


def test_it_stops_and_starts_again() -> None:
    broker = EmbeddedBroker()
    with broker:
        pid = broker.pid
        assert broker.is_running()
    assert not is_alive(pid)
    with pytest.raises(EmbeddedBrokerError):
        _ = broker.bootstrap_servers
    with broker:
        broker.create_topic("again")
    broker.stop()


def test_its_death_is_told() -> None:
    with EmbeddedBroker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(EmbeddedBrokerError, match="-9"):
            broker.create_topic("late")
        assert not broker.is_running()


def test_it_does_not_outlive_its_parent() -> None:
    program = (
        "import os\n"
        "from streams.kafka.embedded_broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker()\n"
        "broker.start()\n"
        "print(broker.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=SECONDS_MAX, check=False
    )
    assert parent.returncode == -signal.SIGKILL
    pid = int(parent.stdout)
    await_that(lambda: not is_alive(pid))
