"""The embedded broker as a process, the limits in its docstring, and a sender to it.

Limits are tested so that a test fails when librdkafka removes one: then our workaround can go.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition
from msgspec.structs import replace

from streams.errors import BrokerRefusedError
from streams.kafka.clients import AdminClient, Consumer, Producer
from streams.kafka.document_sender import DocumentSender
from streams.kafka.embedded_broker import (
    PARTITIONS_BY_DEFAULT,
    RETAINED_BYTES_PER_PARTITION,
    EmbeddedBroker,
    EmbeddedBrokerError,
)
from streams.settings.settings import Settings
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that

SECONDS_MAX = 90.0


def partitions(broker: Broker, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return len(admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions)


def is_alive(pid: int) -> bool:
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
def test_impossible_names_and_numbers_are_refused(
    embedded_broker: Broker, name: str, count: int, complaint: str
) -> None:
    with pytest.raises(EmbeddedBrokerError, match=complaint):
        embedded_broker.create_topics({name: count})
    assert partitions(embedded_broker, embedded_broker.new_topic("after")) == 1


def test_a_topic_is_made_once(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("once", 2)
    with pytest.raises(EmbeddedBrokerError, match=topic):
        embedded_broker.create_topics({topic: 2})


def test_the_first_member_of_a_group_joins_at_once(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("joined")
    assigned: list[TopicPartition] = []
    group = embedded_broker.consumer_settings(embedded_broker.unique("group"))
    with closing(Consumer(group)) as consumer:
        started = time.monotonic()
        consumer.subscribe([topic], on_assign=lambda _consumer, given: assigned.extend(given))
        while not assigned and time.monotonic() < started + SECONDS_MAX:
            consumer.poll(0.05)
        assert time.monotonic() - started < 2.0


def test_old_records_are_dropped_unread(embedded_broker: Broker) -> None:
    topic = embedded_broker.new_topic("dropped")
    producer = Producer({"bootstrap.servers": embedded_broker.bootstrap_servers})
    for _ in range(100):
        producer.produce(topic, b"x" * 100_000, partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    first, end = embedded_broker.watermarks(topic)
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
    assert embedded_broker.watermarks(topic) == (2, 2)


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


def test_its_death_is_reported_with_the_signal() -> None:
    with EmbeddedBroker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(EmbeddedBrokerError, match="-9"):
            broker.create_topic("late")
        assert not broker.is_running()


STARTS_AND_DIES = """
import os
from streams.kafka.embedded_broker import EmbeddedBroker
broker = EmbeddedBroker()
broker.start()
print(broker.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_it_does_not_outlive_its_parent() -> None:
    parent = subprocess.run(
        [sys.executable, "-c", STARTS_AND_DIES],
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert parent.returncode == -signal.SIGKILL
    await_that(lambda: not is_alive(int(parent.stdout)))


# ---- a sender to a broker that drops records which a worker reads too late

SENT = 2_000
RECORD_BYTES = 10_000


def send(sender: DocumentSender, count: int) -> None:
    """Send ``count`` records that compression does not make small, with keys from 0."""
    for number in range(count):
        value = random.Random(number).randbytes(RECORD_BYTES)
        sender.send(b"%d" % number, value, f"line {number}")


@pytest.fixture
def topic(embedded_broker: Broker) -> str:
    return embedded_broker.new_topic("sender", 2)


@pytest.fixture
def settings(embedded_broker: Broker) -> Settings:
    return Settings(
        brokers=embedded_broker.bootstrap_servers, application_id=embedded_broker.unique("app")
    )


def test_a_sender_waits_for_a_slow_group(
    embedded_broker: Broker, settings: Settings, topic: str
) -> None:
    seen: set[bytes | None] = set()

    def read_slowly() -> None:
        group = embedded_broker.consumer_settings(settings.application_id)
        with closing(Consumer(group)) as consumer:
            consumer.subscribe([topic])
            deadline = time.monotonic() + SECONDS_MAX
            while len(seen) < SENT and time.monotonic() < deadline:
                messages = consumer.consume(20, timeout=0.1)
                seen.update(message.key() for message in messages)
                if messages:
                    consumer.commit(asynchronous=False)

    reader = threading.Thread(target=read_slowly)
    reader.start()
    with DocumentSender(settings, topic, paced=True, per_second=None) as sender:
        send(sender, SENT)
        sender.finish()
    reader.join(SECONDS_MAX)

    assert sender.acknowledged == SENT
    assert seen == {b"%d" % number for number in range(SENT)}


def test_a_sender_that_nobody_reads_from_stops_and_names_the_group(
    settings: Settings, topic: str
) -> None:
    impatient = replace(settings, send_timeout_seconds=5.0)
    with (
        DocumentSender(impatient, topic, paced=True, per_second=None) as sender,
        pytest.raises(BrokerRefusedError, match=settings.application_id),
    ):
        send(sender, 250)
    assert 180 < sender.acknowledged < 220
