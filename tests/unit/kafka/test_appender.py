"""Appends are answered with offsets, in order, or with what is known of a failure."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from typing import NamedTuple

import pytest

from streams.errors import BrokerRefusedError
from streams.kafka.client_config import appender_config
from streams.kafka.producers import Appender, AppendUnknownError, RecordTooLargeError
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.unit.kafka.recording_owner import settings_for


def fresh_log(broker: Broker, config: dict[str, str] | None = None) -> str:
    """A topic of one partition."""
    return broker.new_topic("log", config=config)


def test_offsets_follow_the_order_of_appends(broker: Broker) -> None:
    """Given 500 appends at once, then their offsets are 0 to 499 in that order, and the records
    are there.
    """
    topic = fresh_log(broker)

    async def scene() -> list[int]:
        appender = Appender(appender_config(settings_for(broker, topic)))
        appender.open()
        offsets = await asyncio.gather(*(appender.append(topic, b"%d" % n) for n in range(500)))
        await appender.close()
        return offsets

    assert asyncio.run(scene()) == list(range(500))
    assert [m.value() for m in broker.read_partition(topic, 500)] == [b"%d" % n for n in range(500)]


class AnsweringByHand:
    """Stands for librdkafka's producer; answers what it was given when ``answer`` is set."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.answer = threading.Event()
        self._reports: list[Callable[[None, Answered], None]] = []

    def produce(
        self,
        topic: str,  # noqa: ARG002
        value: bytes,
        *,
        partition: int,  # noqa: ARG002
        on_delivery: Callable[[None, Answered], None],
    ) -> None:
        """Take a record."""
        self.sent.append(value)
        self._reports.append(on_delivery)

    def poll(self, seconds: float) -> None:
        """Answer all that was taken."""
        if self.answer.wait(min(seconds, 0.01)):
            self.answer.clear()
            reports, self._reports = self._reports, []
            for offset, report in enumerate(reports):
                report(None, Answered(offset))


class Answered(NamedTuple):
    """A message that was appended."""

    at: int

    def offset(self) -> int:
        """Return its offset."""
        return self.at


def test_appends_wait_while_others_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given two appends that are not answered, when three more follow, then those are sent once
    the first two are answered, all three together.
    """
    producer = AnsweringByHand()
    monkeypatch.setattr("streams.kafka.producers.Producer", lambda _: producer)

    async def scene() -> None:
        appender = Appender({})
        appender.open()
        first = [appender.append("log", value) for value in (b"a", b"b")]
        await asyncio.sleep(0)
        later = [appender.append("log", b"c")]
        await asyncio.sleep(0)
        later += [appender.append("log", value) for value in (b"d", b"e")]
        await asyncio.sleep(0)
        assert producer.sent == [b"a", b"b"]
        producer.answer.set()
        await asyncio.gather(*first)
        await asyncio.sleep(0)
        assert producer.sent == [b"a", b"b", b"c", b"d", b"e"]
        producer.answer.set()
        await asyncio.gather(*later)
        await appender.close()

    asyncio.run(scene())


def test_a_record_too_large_is_told_apart(kafka_broker: Broker) -> None:
    """Given a topic that takes 2,000 bytes, when more is appended, then that one is refused for its
    size, and the next is appended.
    """
    topic = fresh_log(kafka_broker, {"max.message.bytes": "2000"})

    async def scene() -> None:
        appender = Appender(appender_config(settings_for(kafka_broker, topic)))
        appender.open()
        assert await appender.append(topic, b"small") == 0
        with pytest.raises(RecordTooLargeError, match="5000 bytes"):
            await appender.append(topic, os.urandom(5000))
        with pytest.raises(RecordTooLargeError):
            await appender.append(topic, bytes(100_000_000))
        assert await appender.append(topic, b"small") == 1
        await appender.close()

    asyncio.run(scene())


def test_a_missing_topic_is_refused(kafka_broker: Broker) -> None:
    """Given a topic that does not exist, then the broker has refused, which is known."""

    async def scene() -> None:
        settings = settings_for(kafka_broker, "nobody")
        config = {**appender_config(settings), "topic.metadata.propagation.max.ms": 500}
        appender = Appender(config)
        appender.open()
        with pytest.raises(BrokerRefusedError):
            await appender.append(kafka_broker.unique("missing"), b"x")
        await appender.close()

    asyncio.run(scene())


async def appended(appender: Appender, topic: str) -> int:
    """Append until that succeeds; return the offset."""
    for _ in range(30):
        with contextlib.suppress(AppendUnknownError):
            return await appender.append(topic, b"x")
    pytest.fail("no append succeeded")


def test_without_an_answer_nothing_is_known(own_kafka_broker: Broker) -> None:
    """Given a broker that is killed, when records are appended, then it is not known whether they
    are there; once it is back, appends succeed again.
    """
    topic = fresh_log(own_kafka_broker)
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)

    async def scene() -> None:
        settings = settings_for(own_kafka_broker, topic)
        appender = Appender({**appender_config(settings), "message.timeout.ms": 2000})
        appender.open()
        await appended(appender, topic)  # a broker that has just started may take its time
        await asyncio.to_thread(server.kill)
        futures = [appender.append(topic, b"y") for _ in range(3)]
        for future in futures:
            with pytest.raises(AppendUnknownError):
                await future
        left = appender.append(topic, b"z")
        with pytest.raises(AppendUnknownError):
            await left
        await asyncio.to_thread(server.start)
        assert await appended(appender, topic) >= 1
        await appender.close()

    asyncio.run(scene())


def test_a_close_ends_what_is_not_answered(kafka_broker: Broker) -> None:
    """Given an address where no broker is, when the appender closes, then it does in time, and the
    record may or may not be there.
    """

    async def scene() -> None:
        config = appender_config(settings_for(kafka_broker, "nobody"))
        appender = Appender({**config, "bootstrap.servers": "127.0.0.1:1"})
        appender.open()
        future = appender.append("log", b"x")
        await appender.close(0.2)
        with pytest.raises(AppendUnknownError):
            await future

    asyncio.run(scene())
