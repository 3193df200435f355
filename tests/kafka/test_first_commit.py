"""Nobody waits for a worker that was killed in its first commit, which leaves no name behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from simhash_core.documents import TopicPartition
from streams.kafka.client_config import raw_consumer_config
from streams.kafka.clients import AdminClient, Consumer, Producer
from streams.settings.settings import Settings
from streams.topics.admin import create
from streams.topics.open_transactions import open_transactions
from streams.topics.plans import topic_plans
from streams.topics.watermarks import BrokerWatermarks
from streams.worker.index_on_kafka import IndexOnKafka
from tests.rigs.brokers.broker import Broker
from tests.rigs.waiting import await_that

SECONDS = 30.0


@contextmanager
def member(settings: Settings, name: str) -> Iterator[Consumer]:
    """A worker's consumer, in the group until the end of the block."""
    consumer = Consumer(raw_consumer_config(settings, name))
    consumer.subscribe([settings.topics.raw])
    try:
        yield consumer
    finally:
        consumer.close()


def test_what_a_killed_newcomer_left_open_is_aborted(kafka_broker: Broker) -> None:
    """Given two workers, and an open transaction of one that has committed nothing yet, when that
    one has left the group, then the other's next opening aborts it: no reader waits for its
    time-out.
    """
    name = kafka_broker.unique("first-commit")
    settings = Settings(brokers=kafka_broker.bootstrap_servers, application_id=name)
    create(AdminClient({"bootstrap.servers": settings.brokers}), topic_plans(settings, 2))
    unique = TopicPartition(settings.topics.unique, 0)
    watermarks = BrokerWatermarks({"bootstrap.servers": settings.brokers}, name, SECONDS)

    def is_open() -> bool:
        return bool(open_transactions(watermarks.of([unique])))

    with member(settings, f"{name}-a") as first:
        with member(settings, f"{name}-b") as second:
            await_that(
                lambda: (first.poll(0.1), second.poll(0.1), len(first.assignment()) == 1)[-1]
            )
            producer = Producer(
                {
                    "bootstrap.servers": settings.brokers,
                    "transactional.id": f"{name}-b",
                    "transaction.timeout.ms": 600_000,
                }
            )
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
            producer.produce(unique.topic, b"never committed", partition=0)
            assert not producer.flush(SECONDS)
            await_that(is_open)

            index = IndexOnKafka(settings, "identity", "reading", f"{name}-a")
            asyncio.run(index.note_members())
            asyncio.run(index.abort_left_open([0, 1]))
            assert is_open()

        asyncio.run(index.abort_left_open([0, 1]))
        await_that(lambda: not is_open())
