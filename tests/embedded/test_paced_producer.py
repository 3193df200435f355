"""The paced producer on the embedded broker, which drops what a consumer is too slow to read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from streams.kafka.committed_offsets import CommittedOffsets
from streams.kafka.paced_producer import ConsumerTooSlowError, PacedProducer
from tests.rigs.brokers.broker import Broker

SECONDS_MAX = 120.0
RECORD_BYTES = 10_000


@pytest.fixture
def topic(embedded_broker: Broker) -> str:
    """A topic of two partitions."""
    name = embedded_broker.unique("paced")
    embedded_broker.create_topics({name: 2})
    return name


@pytest.fixture
def producer(embedded_broker: Broker) -> Iterator[Producer]:
    """A producer with small batches, so that room is made little by little."""
    with Producer(
        {"bootstrap.servers": embedded_broker.bootstrap_servers, "batch.num.messages": 10}
    ) as client:
        yield client


def test_a_slow_consumer_misses_nothing(
    embedded_broker: Broker, producer: Producer, topic: str
) -> None:
    """Given a consumer at 12 MB/s, in a group that commits, and 20 MB for it, twice what the two
    partitions keep; when they are sent as fast as the pace allows; then every record is read.
    """
    group = embedded_broker.unique("group")
    sent = 2000
    seen: set[bytes | None] = set()

    def read_slowly() -> None:
        consumer = Consumer(embedded_broker.consumer_settings(group))
        consumer.subscribe([topic])
        deadline = time.monotonic() + SECONDS_MAX
        while len(seen) < sent and time.monotonic() < deadline:
            messages = consumer.consume(50, timeout=0.1)
            seen.update(message.key() for message in messages)
            time.sleep(RECORD_BYTES * len(messages) / 12_000_000)
            if messages:
                consumer.commit(asynchronous=False)
        consumer.close()

    reader = threading.Thread(target=read_slowly)
    reader.start()
    settings = {"bootstrap.servers": embedded_broker.bootstrap_servers}
    with CommittedOffsets(settings, group, topic) as consumed:
        paced = PacedProducer(producer, topic, consumed=consumed, wait_seconds=SECONDS_MAX)
        most_in_flight = 0
        for number in range(sent):
            paced.produce(b"x" * RECORD_BYTES, key=b"%d" % number)
            most_in_flight = max(most_in_flight, paced.bytes_in_flight())
        paced.wait_until_consumed(SECONDS_MAX)
    reader.join(SECONDS_MAX)

    assert seen == {b"%d" % number for number in range(sent)}
    assert 1_000_000 < most_in_flight <= 2 * 1024 * 1024


def test_without_a_pace_the_same_consumer_misses_records(
    embedded_broker: Broker, producer: Producer, topic: str
) -> None:
    """Given the same 20 MB; when they are sent without a pace before anyone reads; then the first
    records are gone: what the paced producer is for.
    """
    for number in range(2000):
        producer.produce(topic, b"x" * RECORD_BYTES, partition=number % 2)
    assert producer.flush(SECONDS_MAX) == 0

    consumer = Consumer(embedded_broker.consumer_settings(embedded_broker.unique("late")))
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX)
    finally:
        consumer.close()

    assert end == 1000
    assert first > 400


def test_no_room_is_an_error_that_says_where(producer: Producer, topic: str) -> None:
    """Given a consumer that stands still; when a partition is full; then ``produce`` gives up in
    time, and names topic, partition and offset; the other partition takes records still.
    """
    paced = PacedProducer(producer, topic, limit_bytes=55_000, wait_seconds=0.5)
    for _ in range(5):
        paced.produce(b"x" * RECORD_BYTES, partition=0)
    # The delivery reports, so that the error can tell where the bytes are.
    assert producer.flush(SECONDS_MAX) == 0

    started = time.monotonic()
    with pytest.raises(
        ConsumerTooSlowError, match=rf"'{topic}'.*partition 0: 50\d\d\d bytes from offset 0 on"
    ):
        paced.produce(b"x" * RECORD_BYTES, partition=0)

    assert 0.5 <= time.monotonic() - started < 5.0
    paced.produce(b"x" * RECORD_BYTES, partition=1)


def test_consumption_makes_room(producer: Producer, topic: str) -> None:
    """Given a full partition; when its consumer is said to have passed three of five records; then
    the bytes of just these are free, and three more fit.
    """
    paced = PacedProducer(producer, topic, limit_bytes=55_000, wait_seconds=0.5)
    for _ in range(5):
        paced.produce(b"x" * RECORD_BYTES, partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    full = paced.bytes_in_flight(0)

    paced.note_consumed(0, 3)

    assert paced.bytes_in_flight(0) == full * 2 // 5
    for _ in range(3):
        paced.produce(b"x" * RECORD_BYTES, partition=0)
    with pytest.raises(ConsumerTooSlowError):
        paced.produce(b"x" * RECORD_BYTES, partition=0)


def test_a_consumer_may_be_quicker_than_the_delivery_report(producer: Producer, topic: str) -> None:
    """Given a record whose delivery report has not been served; when the consumer is said to have
    passed it first; then nothing is in flight once the report is in.
    """
    paced = PacedProducer(producer, topic)
    paced.produce(b"x", partition=0)
    paced.note_consumed(0, 1)
    assert paced.bytes_in_flight(0) > 0

    assert producer.flush(SECONDS_MAX) == 0

    assert paced.bytes_in_flight(0) == 0
    assert paced.bytes_in_flight() == 0


def test_an_unknown_partition_counts_against_all(producer: Producer, topic: str) -> None:
    """Given records whose partition is not known before their delivery; when the bytes in flight
    are asked for; then every partition has them all, and after delivery each has its own.
    """
    paced = PacedProducer(producer, topic)
    for number in range(100):
        paced.produce(b"x" * 100, key=b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0
    of_each = [paced.bytes_in_flight(partition) for partition in (0, 1)]
    assert all(of_each)
    assert paced.bytes_in_flight() == max(of_each)

    paced.produce(b"y" * 1000)

    assert all(
        paced.bytes_in_flight(partition) > 1000 + before for partition, before in enumerate(of_each)
    )


def test_a_record_above_the_limit_is_refused(producer: Producer, topic: str) -> None:
    """Given a record that alone is above the limit; when it is sent; then it is refused at once."""
    paced = PacedProducer(producer, topic, limit_bytes=1000)

    with pytest.raises(ValueError, match="above the limit of 1000 bytes"):
        paced.produce(b"x" * 1000)


def test_a_lost_record_is_not_passed_over(embedded_broker: Broker, topic: str) -> None:
    """Given a record that cannot be delivered, to a partition that is not there; when the next one
    is sent; then that raises, and the lost one is in flight no more.
    """
    with Producer({"bootstrap.servers": embedded_broker.bootstrap_servers}) as producer:
        paced = PacedProducer(producer, topic)
        paced.produce(b"x", partition=5)
        assert producer.flush(SECONDS_MAX) == 0

        with pytest.raises(KafkaException, match="Unknown partition"):
            paced.produce(b"x", partition=0)
        assert paced.bytes_in_flight() == 0


def test_a_producer_without_acknowledgements_is_refused(
    embedded_broker: Broker, topic: str
) -> None:
    """Given a producer with acks=0, whose reports have no offset; when records are sent; then the
    next one raises, and says what to set.
    """
    settings = {"bootstrap.servers": embedded_broker.bootstrap_servers, "acks": 0}
    with Producer(settings) as producer:
        paced = PacedProducer(producer, topic)
        paced.produce(b"x", partition=0)
        assert producer.flush(SECONDS_MAX) == 0

        with pytest.raises(KafkaException, match="set acks=all"):
            paced.wait_until_consumed(1.0)


@pytest.mark.parametrize("limits", [{"limit_bytes": 0}, {"wait_seconds": 0.0}])
def test_limits_are_checked_at_once(
    producer: Producer, topic: str, limits: dict[str, float]
) -> None:
    """Given a limit of zero; when the producer is made; then it is refused with both values."""
    with pytest.raises(ValueError, match=r"limit_bytes=\d+ and wait_seconds=[\d.]+ must be above"):
        PacedProducer(producer, topic, **limits)  # type: ignore[arg-type]
