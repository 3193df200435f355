"""Tests whether a Kafka loses the end of a transaction while a broker is away, without Firstseen.

A transaction writes to two partitions, one on each of two brokers. The second broker is killed;
once its partition has no leader, the transaction is committed; then the broker is started again.
A correct Kafka then writes the marker to that partition. A Kafka with KAFKA-20734 treats the
partition as deleted: the transaction is *hung*, and committed readers stop there.

    python -m tests.rigs.brokers.lost_markers [ROUNDS]

prints one JSON object; its exit code is 1 if a transaction has no end.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient, Producer
from streams.topics.watermarks import BrokerWatermarks, open_transactions
from tests.rigs.brokers.kafka_broker import KafkaBroker, kafka_libs, why_kafka_cannot_run
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that

NO_LEADER = -1
CALL_SECONDS = 60.0
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.2
MARKER_SECONDS = 20.0
"""How long the marker may take after the partition can be read again."""

_PROPERTIES = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}


def kafka_version() -> str:
    """Return the release of the Kafka in use, from the name of its jar."""
    (jar,) = kafka_libs().glob("kafka_2.13-*.jar")
    return jar.stem.removeprefix("kafka_2.13-")


def hung_transactions(directory: Path, rounds: int) -> int:
    """Return in how many of ``rounds`` transactions have no end."""
    with _two_brokers(directory) as (first, second, producer):
        hung = sum(_is_left_open(first, second, producer, f"round-{n}") for n in range(rounds))
        producer.flush(CALL_SECONDS)
    return hung


@contextmanager
def _two_brokers(directory: Path) -> Iterator[tuple[KafkaBroker, KafkaBroker, Producer]]:
    """Start brokers 1 and 2; the first starts alone, and so coordinates transactions."""
    port = free_port()
    first = KafkaBroker(directory / "1", controller_port=port, properties=_PROPERTIES)
    second = KafkaBroker(directory / "2", controller_port=port, node_id=2, properties=_PROPERTIES)
    try:
        first.start()
        producer = Producer(
            {
                "bootstrap.servers": first.bootstrap_servers,
                "transactional.id": "writer",
                "transaction.timeout.ms": int(WAIT_SECONDS * 1000),
                "log_level": 0,
            }
        )
        producer.init_transactions(CALL_SECONDS)
        second.start()
        yield first, second, producer
    finally:
        second.kill()
        first.kill()


def _is_left_open(first: KafkaBroker, second: KafkaBroker, producer: Producer, topic: str) -> bool:
    admin = AdminClient({"bootstrap.servers": first.bootstrap_servers, "log_level": 0})
    assignment = [[1], [2]]
    made = admin.create_topics([NewTopic(topic, 2, replica_assignment=assignment)])
    made[topic].result(CALL_SECONDS)
    _await_leader(admin, topic, 2)
    producer.begin_transaction()
    for partition in range(len(assignment)):
        producer.produce(topic, b"value", b"key", partition)
    assert producer.flush(CALL_SECONDS) == 0
    second.kill()
    _await_leader(admin, topic, NO_LEADER)
    producer.commit_transaction(CALL_SECONDS)
    second.start()
    _await_leader(admin, topic, 2)
    return _stays_open(first.bootstrap_servers, topic)


def _await_leader(admin: AdminClient, topic: str, leader: int) -> None:
    def leads() -> bool:
        known = admin.list_topics(topic, timeout=CALL_SECONDS).topics[topic].partitions
        return 1 in known and known[1].leader == leader

    await_that(leads, WAIT_SECONDS, shows=lambda: f"{topic}/1 is not led by {leader}")


def _stays_open(servers: str, topic: str) -> bool:
    """Return whether a partition still cannot be read to its end after the time limit."""
    watermarks = BrokerWatermarks({"bootstrap.servers": servers}, "no-group", CALL_SECONDS)
    partitions = [TopicPartition(topic, each) for each in range(2)]
    deadline = time.monotonic() + WAIT_SECONDS
    answered = 0.0
    while True:
        try:
            marks = watermarks.of(partitions)
        except BrokerUnavailableError:
            marks = {}
        if len(marks) == len(partitions):
            answered = answered or time.monotonic()
            if not open_transactions(marks):
                return False
            if time.monotonic() - answered > MARKER_SECONDS:
                return True
        assert time.monotonic() < deadline, f"{topic} cannot be read"
        time.sleep(POLL_SECONDS)


def main(rounds: int = 5) -> None:
    if (reason := why_kafka_cannot_run()) is not None:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory(prefix="lost-markers-") as directory:
        hung = hung_transactions(Path(directory), rounds)
    print(json.dumps({"kafka": kafka_version(), "rounds": rounds, "hung": hung}))
    raise SystemExit(1 if hung else 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
