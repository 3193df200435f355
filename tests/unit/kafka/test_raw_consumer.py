"""Raw records come in order and in bounded fetches, from the owner's offset, not too fast."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from unittest.mock import create_autospec

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import FirstseenError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka import raw_consumer
from streams.kafka.clients import Consumer, Producer, RawOffset, committed_offsets
from streams.kafka.errors import AbortedError, MemberFencedError, StaleGenerationError, judge
from streams.kafka.raw_consumer import Fetched, RawConsumer
from tests.rigs.async_tests import WAIT_SECONDS, until
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.unit.kafka.recording_owner import RecordingOwner, settings_for

Result = TypeVar("Result")


def produce(broker: Broker, topic: str, per_partition: dict[int, int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for partition, count in per_partition.items():
        for _ in range(count):
            producer.produce(topic, b"x" * 10, partition=partition)
    assert producer.flush(30) == 0


def raw_topic(broker: Broker, per_partition: dict[int, int]) -> str:
    topic = broker.new_topic("raw", len(per_partition))
    produce(broker, topic, per_partition)
    return topic


async def test_all_records_come_in_order(broker: Broker) -> None:
    """A partition that ends before its start comes whole: the start is of an earlier topic."""
    topic = raw_topic(broker, {0: 400, 1: 300, 2: 200})
    owner = RecordingOwner(starts={1: 50, 2: 1000})
    consumer = owner.open(settings_for(broker, topic), topic, poll_records=70)
    await until(lambda: owner.count == 850)
    await consumer.close()

    assert owner.offsets == {0: [*range(400)], 1: [*range(50, 300)], 2: [*range(200)]}
    assert max(sum(len(run.messages) for run in each.runs) for each in owner.fetches) <= 71
    size = 10 + raw_consumer._MESSAGE_BYTES
    assert all(run.size == size * len(run.messages) for each in owner.fetches for run in each.runs)
    assert owner.failure is None
    assert owner.events == [("assigned", frozenset({0, 1, 2})), ("revoked", frozenset({0, 1, 2}))]


async def test_the_end_of_a_partition_comes_with_its_last_fetch(broker: Broker) -> None:
    topic = raw_topic(broker, {0: 5, 1: 5})
    owner = RecordingOwner()
    config = {"enable.partition.eof": False}
    consumer = owner.open(settings_for(broker, topic), topic, config=config)
    await until(lambda: owner.count == 10)
    produce(broker, topic, {0: 2, 1: 1})
    await until(lambda: owner.count == 13)
    await consumer.close()

    for partition, last in ((0, 6), (1, 5)):
        (fetched,) = [
            each
            for each in owner.fetches
            for run in each.runs
            if run.partition == partition and run.messages[-1].offset() == last
        ]
        assert partition in fetched.ended


async def test_a_slow_owner_gets_no_more_than_is_queued(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_consumer, "_PAUSE_SECONDS", 0.3)
    topic = raw_topic(broker, {0: 2000, 1: 2000})
    owner = RecordingOwner()
    consumer = owner.open(settings_for(broker, topic), topic, poll_records=20)
    for _ in range(20):
        owner.is_held = True
        await until(lambda: consumer._inbox.full)
        owner.release()
    owner.is_held = True
    await until(lambda: consumer._all_paused)
    assert len(consumer._inbox._items) == 2
    held = owner.count
    assert 0 < held < 4000
    owner.release()
    await until(lambda: owner.count == 4000)
    await consumer.close()

    assert owner.offsets == {0: list(range(2000)), 1: list(range(2000))}


async def test_committed_offsets_without_an_answer_are_requested_in_parts(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = raw_topic(broker, {0: 1, 1: 1})
    owner = RecordingOwner()
    consumer = owner.open(settings_for(broker, topic), topic)
    await until(lambda: owner.count == 2)
    wanted: list[int] = []

    def committed(client: Consumer, partitions: Sequence[TopicPartition], seconds: float) -> object:
        wanted.append(len(partitions))
        if len(wanted) == 1:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return committed_offsets(client, partitions, seconds)

    monkeypatch.setattr(raw_consumer, "committed_offsets", committed)
    assert await consumer.committed([0, 1]) == {0: -1, 1: -1}
    assert wanted == [2, 1, 1, 1]  # all, one that does not exist, and the halves
    await consumer.close()


class ResumingOwner(RecordingOwner):
    """It reads each partition from the first record that it has not had."""

    def assigned(self, partitions: frozenset[int], metadata: bytes) -> None:
        self.starts = {partition: len(self.offsets[partition]) for partition in partitions}
        super().assigned(partitions, metadata)


async def _once(call: Callable[[], Awaitable[Result]], *passing: type[Exception]) -> Result:
    """Repeat the call while it raises one of the errors, which end by themselves."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return await call()
        except passing:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_partitions_that_are_lost_come_back(own_kafka_broker: Broker) -> None:
    """A busy machine may end the short session more often than the test does."""
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    topic = raw_topic(own_kafka_broker, {0: 10})
    owner = ResumingOwner()
    settings = settings_for(own_kafka_broker, topic)
    consumer = owner.open(settings, topic, config={"session.timeout.ms": 1000})
    await until(lambda: owner.count == 10)
    server.send_signal(signal.SIGSTOP)
    await asyncio.sleep(3)
    server.send_signal(signal.SIGCONT)
    await until(lambda: len(owner.events) >= 3)
    await asyncio.to_thread(produce, own_kafka_broker, topic, {0: 5})
    await until(lambda: owner.count == 15)
    await _once(lambda: consumer.commit({0: 15}), StaleGenerationError, AbortedError)
    await asyncio.to_thread(server.kill)
    with pytest.raises(UnansweredError):
        await consumer.committed([0])
    await asyncio.to_thread(server.start)
    assert await _once(lambda: consumer.committed([0]), UnansweredError) == {0: 15}
    await asyncio.to_thread(produce, own_kafka_broker, topic, {0: 5})
    await until(lambda: owner.count == 20)
    await consumer.close()

    assert owner.offsets[0] == list(range(20))
    assert owner.failure is None
    one = frozenset({0})
    assert owner.events[:3] == [("assigned", one), ("lost", one), ("assigned", one)]


class ClosingClient:
    """A client that is being closed: it answers rebalances, but has no metadata any more."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    def incremental_assign(self, _: list[TopicPartition]) -> None:
        self.answers.append("assign")

    def incremental_unassign(self, _: list[TopicPartition]) -> None:
        self.answers.append("unassign")

    def consumer_group_metadata(self) -> bytes:
        raise RuntimeError("Consumer group metadata not available")


@pytest.mark.parametrize("end", ["_on_revoke", "_on_lost"])
def test_a_rebalance_while_the_group_is_left_is_only_answered(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    client: Any = ClosingClient()
    monkeypatch.setattr(raw_consumer, "Consumer", lambda _: client)
    consumer = RawConsumer({}, "raw")
    consumer._leaving = True
    for callback in (consumer._on_assign, getattr(consumer, end)):
        callback(client, [TopicPartition("raw", 0)])
    assert client.answers == ["assign", "unassign"]


async def test_a_loop_that_stood_still_closes_a_partition_before_it_gets_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would close the new assignment, and nobody would read the partition."""
    client: Any = ClosingClient()
    monkeypatch.setattr(client, "consumer_group_metadata", lambda: b"")
    monkeypatch.setattr(raw_consumer, "Consumer", lambda _: client)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    owner = RecordingOwner(is_eager=False)
    consumer = RawConsumer({}, "raw", revoke_seconds=0.0)
    consumer.open(owner)
    for callback in (consumer._on_assign, consumer._on_revoke, consumer._on_assign):
        callback(client, [TopicPartition("raw", 0)])
    assert not consumer.holding()(), "the loop does not know of the revocation"
    await until(lambda: len(owner.events) == 3)
    assert consumer.holding()()
    assert owner.announced == ["assigned", "revoked", "assigned"]


# ---- the thread, without a broker


def message(offset: int, code: int | None = None) -> Any:  # noqa: ANN401 - a fake
    """Return a record of partition 0, or an error in place of one."""
    fake = create_autospec(Message, instance=True)
    fake.error.return_value = None if code is None else KafkaError(code)
    fake.partition.return_value, fake.offset.return_value = 0, offset
    fake.key.return_value, fake.headers.return_value, fake.__len__.return_value = b"", None, 1
    return fake


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> tuple[RawConsumer, Any, list[Fetched]]:
    """Return a consumer that has begun to read partition 0, its client, and what it hands over."""
    client = create_autospec(Consumer, instance=True)
    client.get_watermark_offsets.return_value = 0, 100
    monkeypatch.setattr(raw_consumer, "Consumer", lambda _: client)
    consumer, fetched = RawConsumer({}, "raw"), list[Fetched]()
    monkeypatch.setattr(consumer._inbox, "put", fetched.append)
    monkeypatch.setattr(consumer, "_announce", lambda *_: None)
    consumer._owned = {0}
    consumer._read(0, RawOffset(5), 1)
    return consumer, client, fetched


def runs(fetched: list[Fetched]) -> list[tuple[int, list[int | None]]]:
    """Return the readings of all runs, with their offsets."""
    said = [(run.reading, [e.offset() for e in run.messages]) for f in fetched for run in f.runs]
    fetched.clear()
    return said


END = KafkaError._PARTITION_EOF
Reading = tuple[RawConsumer, Any, list[Fetched]]


def test_an_end_counts_unless_records_follow_it(reading: Reading) -> None:
    consumer, _, fetched = reading
    consumer._hand_over([message(5, END)])
    consumer._hand_over([message(5), message(6, END), message(6)])
    consumer._hand_over([message(7), message(8, END)])
    ends = [(set(each.ended), dict(each.empty)) for each in fetched]
    assert ends == [({0}, {0: 5}), (set(), {}), ({0}, {})]


def test_nothing_of_an_earlier_reading_is_handed_over(reading: Reading) -> None:
    """Not while the client cannot seek yet, nor what waited when the partition was lost."""
    consumer, client, fetched = reading
    client.seek.side_effect = KafkaException(KafkaError(KafkaError._STATE))
    consumer._read(0, RawOffset(9), 2)
    for each in (message(7, END), message(6)):
        consumer._hand_over([each])
    assert [dict(each.empty) for each in fetched] == [{}]
    assert runs(fetched) == []
    client.seek.side_effect = None
    for partition, offset in list(consumer._to_seek.items()):
        consumer._seek(partition, offset)
    consumer._hand_over([message(9)])
    assert runs(fetched) == [(2, [9])]
    consumer._overflow.append(message(10))
    consumer._on_lost(client, [TopicPartition("raw", 0)])
    consumer._on_assign(client, [TopicPartition("raw", 0)])
    consumer._read(0, RawOffset(3), 3)
    consumer._hand_over([*consumer._overflow, message(3)])
    assert runs(fetched) == [(3, [3])]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.ILLEGAL_GENERATION, StaleGenerationError),
        (KafkaError.REBALANCE_IN_PROGRESS, AbortedError),
        (KafkaError.REQUEST_TIMED_OUT, UnansweredError),
    ],
)
async def test_a_commit_says_what_is_known(
    reading: Reading, code: int, expected: type[FirstseenError]
) -> None:
    consumer, client, _ = reading
    client.commit.side_effect = KafkaException(KafkaError(code))
    committing = asyncio.ensure_future(consumer.commit({0: 5}))
    await asyncio.sleep(0)
    consumer._calls.serve()
    with pytest.raises(expected):
        await committing


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._MAX_POLL_EXCEEDED, None),
        (KafkaError._TRANSPORT, None),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, None),
        (KafkaError.FENCED_INSTANCE_ID, MemberFencedError),
        (KafkaError.UNRELEASED_INSTANCE_ID, UnansweredError),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, BrokerRefusedError),
        (KafkaError._FATAL, BrokerRefusedError),
        (KafkaError.INVALID_GROUP_ID, BrokerRefusedError),
    ],
)
def test_which_errors_end_a_consumer(code: int, expected: type[FirstseenError] | None) -> None:
    error = judge(KafkaError(code), "raw")
    assert type(error) is (type(None) if expected is None else expected)


@pytest.mark.parametrize(
    ("code", "right"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "Read on the topic"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "Read on the group"),
    ],
)
def test_a_refused_reader_names_the_right(code: int, right: str) -> None:
    assert str(judge(KafkaError(code), "raw")).endswith(f"It needs {right}")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (KafkaError.GROUP_ID_NOT_FOUND, "stop all workers before you change this setting"),
        (KafkaError.UNSUPPORTED_VERSION, "Or set group_protocol=classic"),
    ],
)
def test_a_fatal_error_of_the_group_protocol_says_what_to_do(code: int, advice: str) -> None:
    text = f"Fatal error: {KafkaError(code).str()}: ConsumerGroupHeartbeat fatal error"
    error = judge(KafkaError(KafkaError._FATAL, text), "raw")
    assert isinstance(error, BrokerRefusedError)
    assert advice in str(error)
