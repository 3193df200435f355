"""Transactions without an end: that of a killed worker, and one whose end Kafka lost."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from simhash_core.documents import TopicPartition
from streams.kafka.client_config import raw_consumer_config
from streams.kafka.clients import Consumer, Producer
from streams.settings.settings import Settings
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from streams.topics.watermarks import BrokerWatermarks, OpenTransaction, open_transactions
from streams.worker.index_on_kafka import IndexOnKafka
from tests.kafka.stream_changes import admin_of
from tests.repository.source_tree import ROOT
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import kafka_libs
from tests.rigs.waiting import await_that

SECONDS = 30.0
JAVA_SECONDS = 120.0


def open_in(broker: Broker, place: TopicPartition) -> dict[TopicPartition, OpenTransaction]:
    address = {"bootstrap.servers": broker.bootstrap_servers}
    return open_transactions(BrokerWatermarks(address, "no-group", SECONDS).of([place]))


@contextmanager
def member(settings: Settings, name: str) -> Iterator[Callable[[], int]]:
    """Keep a worker's consumer in the group; yield what returns its number of partitions.

    A thread polls it, because a member that is not polled leaves the group. The same thread asks
    for the assignment: the answer may not come while another thread polls.
    """
    consumer = Consumer(raw_consumer_config(settings, name))
    consumer.subscribe([settings.topics.raw])
    left = threading.Event()
    partitions = 0

    def poll() -> None:
        nonlocal partitions
        while not left.is_set():
            consumer.poll(0.1)
            partitions = len(consumer.assignment())

    thread = threading.Thread(target=poll, name=name)
    thread.start()
    try:
        yield lambda: partitions
    finally:
        left.set()
        thread.join()
        consumer.close()


def test_what_a_worker_left_open_in_its_first_commit_is_aborted_when_it_has_left(
    kafka_broker: Broker,
) -> None:
    """Its name is not stored anywhere, but no reader has to wait for the time-out."""
    name = kafka_broker.unique("first-commit")
    settings = Settings(brokers=kafka_broker.bootstrap_servers, application_id=name)
    create(admin_of(kafka_broker), topic_plans(settings, 2))
    unique = TopicPartition(settings.topics.unique, 0)
    with member(settings, f"{name}.a") as first:
        with member(settings, f"{name}.b") as second:
            await_that(lambda: first() == second() == 1)
            producer = Producer(
                {
                    "bootstrap.servers": settings.brokers,
                    "transactional.id": f"{name}.b",
                    "transaction.timeout.ms": 600_000,
                }
            )
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
            producer.produce(unique.topic, b"never committed", partition=0)
            assert not producer.flush(SECONDS)
            await_that(lambda: open_in(kafka_broker, unique))

            index = IndexOnKafka(settings, "identity", "reading", f"{name}.a")
            asyncio.run(index.remember_members())
            asyncio.run(index.abort_left_open([0, 1]))
            assert open_in(kafka_broker, unique)

        asyncio.run(index.abort_left_open([0, 1]))
        await_that(lambda: not open_in(kafka_broker, unique))


def commit_hung(broker: Broker, topic: str, offset: int) -> subprocess.CompletedProcess[str]:
    """Commit the transaction that begins at ``offset`` of partition 0."""
    program = ROOT / "deploy" / "kafka" / "CommitHungTransaction.java"
    java = ["java", "-cp", f"{kafka_libs()}/*", str(program)]
    place = ["--topic", topic, "--partition", "0", "--start-offset", str(offset)]
    return subprocess.run(
        [*java, "--bootstrap-server", broker.bootstrap_servers, *place],
        capture_output=True,
        text=True,
        timeout=JAVA_SECONDS,
        check=False,
    )


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK: a JRE runs no source")
def test_a_hung_transaction_is_committed_by_its_offset_and_no_other(kafka_broker: Broker) -> None:
    """Kafka's own tool can only abort it."""
    topic = kafka_broker.new_topic("hung")
    producer = kafka_broker.transactional_producer(open_seconds=600)
    for value, is_ended in ((b"ended", True), (b"hung", False)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        if is_ended:
            producer.commit_transaction(30)
    assert producer.flush(30) == 0
    place = TopicPartition(topic, 0)

    wrong = commit_hung(kafka_broker, topic, 1)

    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert f"no open transaction of {topic}-0 begins at offset 1" in wrong.stderr
    assert open_in(kafka_broker, place) == {place: OpenTransaction(place, 2, 3)}

    right = commit_hung(kafka_broker, topic, 2)

    assert right.returncode == 0, right.stderr
    assert right.stdout.startswith(f"committed: {topic}-0 from offset 2")
    assert open_in(kafka_broker, place) == {}
    read = kafka_broker.read_partition(topic, 2)
    assert [message.value() for message in read] == [b"ended", b"hung"]
