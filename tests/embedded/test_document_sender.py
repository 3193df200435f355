"""Documents sent to the embedded broker, which drops what a worker is too slow to read."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition
from msgspec.structs import replace

from streams.errors import BrokerRefusedError
from streams.kafka.clients import Consumer
from streams.kafka.document_sender import DocumentSender
from streams.settings.settings import Settings
from tests.rigs.brokers.broker import Broker

SECONDS_MAX = 120.0
RECORD_BYTES = 10_000


def value(number: int) -> bytes:
    """What compression does not make small."""
    return random.Random(number).randbytes(RECORD_BYTES)


def send_records(sender: DocumentSender, count: int) -> None:
    """Send so many records, keys counting from 0."""
    for number in range(count):
        sender.send(b"%d" % number, value(number), f"line {number}")


@pytest.fixture
def topic(embedded_broker: Broker) -> str:
    """A topic of two partitions."""
    return embedded_broker.new_topic("sender", 2)


@pytest.fixture
def settings(embedded_broker: Broker) -> Settings:
    """Those of an application of its own."""
    return Settings(
        brokers=embedded_broker.bootstrap_servers, application_id=embedded_broker.unique("app")
    )


def test_a_slow_worker_misses_nothing(
    embedded_broker: Broker, settings: Settings, topic: str
) -> None:
    sent = 2000
    seen: set[bytes | None] = set()

    def read_slowly() -> None:
        with closing(
            Consumer(embedded_broker.consumer_settings(settings.application_id))
        ) as consumer:
            consumer.subscribe([topic])
            deadline = time.monotonic() + SECONDS_MAX
            while len(seen) < sent and time.monotonic() < deadline:
                messages = consumer.consume(20, timeout=0.1)
                seen.update(message.key() for message in messages)
                if messages:
                    consumer.commit(asynchronous=False)

    reader = threading.Thread(target=read_slowly)
    reader.start()
    with DocumentSender(settings, topic, paced=True, per_second=None) as sender:
        send_records(sender, sent)
        sender.finish()
    reader.join(SECONDS_MAX)

    assert sender.acknowledged == sent
    assert seen == {b"%d" % number for number in range(sent)}


def test_without_waiting_records_are_dropped(
    embedded_broker: Broker, settings: Settings, topic: str
) -> None:
    with DocumentSender(settings, topic, paced=False, per_second=None) as sender:
        send_records(sender, 2000)
        sender.finish()
    with closing(Consumer(embedded_broker.consumer_settings("late"))) as consumer:
        first = [
            consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=SECONDS_MAX)[0]
            for each in (0, 1)
        ]
    assert min(first) > 200


def test_nobody_reads(settings: Settings, topic: str) -> None:
    impatient = replace(settings, send_timeout_seconds=5.0)
    with (
        DocumentSender(impatient, topic, paced=True, per_second=None) as sender,
        pytest.raises(BrokerRefusedError, match=settings.application_id),
    ):
        send_records(sender, 250)
    assert 180 < sender.acknowledged < 220
