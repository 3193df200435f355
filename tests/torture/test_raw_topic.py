"""The content of the raw topic is compared with the acknowledgements of the feed."""

from __future__ import annotations

from simhash_core.documents import SourcePosition
from streams.kafka.clients import Producer
from streams.settings.settings import Settings, TopicSettings
from tests.rigs.brokers.broker import Broker
from tests.torture.plan import Planned
from tests.torture.raw_topic import arrival, raw_records

A, B, TOMBSTONE = Planned(0, b"a", b"{}"), Planned(0, None, b"{}"), Planned(1, b"a", None)
SENT = {A, B, TOMBSTONE}
FIRST, SECOND, THIRD = (SourcePosition("raw", 0, offset) for offset in range(3))
OTHER = SourcePosition("raw", 1, 0)


def test_record_that_was_appended_twice_is_no_violation() -> None:
    found = arrival(
        SENT,
        {FIRST: A, THIRD: B, OTHER: TOMBSTONE},
        {FIRST: A, SECOND: B, THIRD: B, OTHER: TOMBSTONE},
    )
    assert found == ([SECOND], [])


def test_record_that_was_acknowledged_and_is_not_there_is_a_violation() -> None:
    found = arrival(SENT, {FIRST: A, SECOND: B}, {FIRST: A})
    assert found == ([], [f"{SECOND} was acknowledged, and the topic holds no record"])


def test_other_record_than_the_acknowledged_one_is_a_violation() -> None:
    found = arrival(SENT, {FIRST: A}, {FIRST: B})
    assert found == ([], [f"{FIRST} was acknowledged, and the topic holds another record"])


def test_record_that_was_never_sent_to_its_partition_is_a_violation() -> None:
    stranger = A._replace(partition=1)
    found = arrival(SENT, {FIRST: A}, {FIRST: A, OTHER: stranger})
    assert found == ([OTHER], [f"{OTHER} was not sent"])


def test_record_that_was_acknowledged_without_its_place_is_somewhere() -> None:
    arrived = {FIRST: A, SECOND: B}
    assert arrival(SENT, {FIRST: A}, arrived, [B]) == ([SECOND], [])
    missing = "a record of partition 0 was acknowledged, and the topic does not hold it"
    assert arrival(SENT, {FIRST: A}, {FIRST: A}, [B]) == ([], [missing])


def test_raw_topic_is_read_from_all_partitions_that_there_are(broker: Broker) -> None:
    topic = broker.new_topic("raw", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    records = [Planned(0, b"a", b"{}"), Planned(0, None, b""), Planned(1, b"a", None)]
    for record in records:
        producer.produce(topic, record.value, record.key, partition=record.partition)
    assert producer.flush(30) == 0
    settings = Settings(brokers=broker.bootstrap_servers, topics=TopicSettings(raw=topic))
    places = [SourcePosition(topic, 0, 0), SourcePosition(topic, 0, 1), SourcePosition(topic, 1, 0)]
    assert raw_records(settings) == dict(zip(places, records, strict=True))
