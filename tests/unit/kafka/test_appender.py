"""Appends return offsets in order, or an error that says what is known about the records."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from streams.errors import BrokerRefusedError
from streams.kafka.client_config import appender_config
from streams.kafka.errors import TopicDeletedError
from streams.kafka.producers import Appender, AppendUnknownError
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.unit.kafka.recording_owner import settings_for


@asynccontextmanager
async def appending(broker: Broker, **properties: float) -> AsyncIterator[Appender]:
    config = appender_config(settings_for(broker, "appends"))
    more = {name.replace("_", "."): value for name, value in properties.items()}
    appender = Appender({**config, **more})
    appender.open()
    yield appender
    await appender.close()


class AnsweringByHand:
    """Replaces librdkafka's producer; it answers its records once ``answer`` is set."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.answer = threading.Event()
        self._reports: list[Callable[[None, Answered], None]] = []

    def produce(
        self, _: str, value: bytes, on_delivery: Callable[[None, Answered], None], **__: int
    ) -> None:
        self.sent.append(value)
        self._reports.append(on_delivery)

    def poll(self, seconds: float) -> None:
        if self.answer.wait(min(seconds, 0.01)):
            self.answer.clear()
            reports, self._reports = self._reports, []
            for offset, report in enumerate(reports):
                report(None, Answered(offset))


class Answered(NamedTuple):
    at: int

    def offset(self) -> int:
        return self.at


async def test_appends_wait_while_others_are_not_answered_and_then_go_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer = AnsweringByHand()
    monkeypatch.setattr("streams.kafka.producers.Producer", lambda _: producer)
    appender = Appender({})
    appender.open()
    first = [appender.append("log", value) for value in (b"a", b"b")]
    await asyncio.sleep(0)
    later = []
    for value in (b"c", b"d"):
        later.append(appender.append("log", value))
        await asyncio.sleep(0)
    assert producer.sent == [b"a", b"b"]
    producer.answer.set()
    await asyncio.gather(*first)
    await asyncio.sleep(0)
    assert producer.sent == [b"a", b"b", b"c", b"d"]
    producer.answer.set()
    await asyncio.gather(*later)
    await appender.close()


async def test_a_missing_topic_is_refused(kafka_broker: Broker) -> None:
    async with appending(kafka_broker, topic_metadata_propagation_max_ms=500) as appender:
        with pytest.raises(TopicDeletedError, match="no longer exists"):
            await appender.append(kafka_broker.unique("missing"), b"x")


async def test_a_topic_that_was_compacted_since_names_the_check(kafka_broker: Broker) -> None:
    topic = kafka_broker.new_topic("log", config={"cleanup.policy": "compact"})
    async with appending(kafka_broker) as appender:
        with pytest.raises(BrokerRefusedError, match=r"cleanup\.policy.*firstseen topics check"):
            await appender.append(topic, b"x")


async def appended(appender: Appender, topic: str) -> int:
    for _ in range(30):
        with contextlib.suppress(AppendUnknownError):
            return await appender.append(topic, b"x")
    pytest.fail("no append succeeded")


async def test_without_an_answer_nothing_is_known(own_kafka_broker: Broker) -> None:
    topic = own_kafka_broker.new_topic("log")
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    async with appending(own_kafka_broker, message_timeout_ms=2000) as appender:
        await appended(appender, topic)  # a broker that has just started may be slow
        await asyncio.to_thread(server.kill)
        for future in [appender.append(topic, b"y") for _ in range(3)]:
            with pytest.raises(AppendUnknownError):
                await future
        with pytest.raises(AppendUnknownError):
            await appender.append(topic, b"z")
        await asyncio.to_thread(server.start)
        assert await appended(appender, topic) >= 1


async def test_a_close_ends_what_is_not_answered(kafka_broker: Broker) -> None:
    config = appender_config(settings_for(kafka_broker, "nobody"))
    appender = Appender({**config, "bootstrap.servers": "127.0.0.1:1"})
    appender.open()
    future = appender.append("log", b"x")
    await appender.close(0.2)
    with pytest.raises(AppendUnknownError):
        await future


async def test_a_producer_whose_records_are_lost_is_replaced(
    own_kafka_broker: Broker, tmp_path: Path
) -> None:
    """As after an unclean election: the broker has fewer records than the client has appended."""
    broker, server = own_kafka_broker, own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    topic = broker.new_topic("log")
    partition = server.data / f"{topic}-0"

    def lose() -> None:
        server.kill()
        shutil.rmtree(partition)
        (tmp_path / "kept").rename(partition)
        server.start()

    async with appending(broker) as appender:
        for number in range(6):
            assert await appender.append(topic, b"a") == number
            if number == 1:
                await asyncio.to_thread(shutil.copytree, partition, tmp_path / "kept")
        await asyncio.to_thread(lose)
        with pytest.raises(AppendUnknownError, match="out of order sequence"):
            await appender.append(topic, b"b")
        assert await asyncio.wait_for(appender.append(topic, b"c"), 10) == 2
