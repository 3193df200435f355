"""The log is read in order from any offset, never over a gap, and no faster than it is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from simhash_core.errors import FirstseenError
from streams.kafka import log_reader
from streams.kafka.client_config import log_reader_config
from streams.kafka.consumer_errors import TopicGoneError
from streams.kafka.log_reader import LogCutError, LogReader, LogRecords
from tests.rigs.brokers.broker import Broker
from tests.unit.intake.recording_owner import settings_for, until


class Log:
    """A topic of one partition with records of 10 bytes, and what a reader of it delivers."""

    def __init__(self, broker: Broker, records: int) -> None:
        self.broker = broker
        self.topic = broker.unique("log")
        self.batches: list[LogRecords] = []
        self.failures: list[FirstseenError] = []
        self.before_batch: Callable[[], Awaitable[object]] | None = None
        broker.create_topics({self.topic: 1})
        self.append(records)

    def append(self, records: int) -> None:
        """Append more."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for number in range(records):
            producer.produce(self.topic, b"%010d" % number, partition=0, timestamp=1000 + number)
        assert producer.flush(30) == 0

    def trim(self, before: int) -> None:
        """Delete the records before an offset."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        place = TopicPartition(self.topic, 0, before)
        admin.delete_records([place])[place].result(30)

    def reader(self, *, batch_records: int = 500) -> LogReader:
        """A reader, opened."""
        reader = LogReader(
            log_reader_config(settings_for(self.broker, self.topic)),
            self.topic,
            self.deliver,
            self.failures.append,
            batch_records=batch_records,
        )
        reader.open()
        return reader

    async def deliver(self, batch: LogRecords) -> None:
        """Keep a batch."""
        if self.before_batch is not None:
            await self.before_batch()
        self.batches.append(batch)

    def offsets(self, epoch: int) -> list[int]:
        """What one reading delivered."""
        return [
            offset
            for batch in self.batches
            if batch.epoch == epoch
            for offset, _, _ in batch.records
        ]


def test_records_come_with_offset_value_and_time(broker: Broker) -> None:
    """Given a log of 1,000 records, when it is read from 990, then those and later ones come, and
    its ends are told.
    """
    log = Log(broker, 1000)

    async def scene() -> None:
        reader = log.reader()
        assert (await reader.start_offset(), await reader.end_offset()) == (0, 1000)
        epoch = reader.seek(990)
        await until(lambda: log.offsets(epoch) == list(range(990, 1000)))
        await asyncio.to_thread(log.append, 3)
        await until(lambda: log.offsets(epoch) == list(range(990, 1003)))
        assert await reader.end_offset() == 1003
        await reader.close()

    asyncio.run(scene())
    assert log.batches[0].records[0] == (990, b"0000000990", 1990)
    assert log.failures == []


def test_no_batch_of_an_earlier_reading_comes(broker: Broker) -> None:
    """Given batches that wait for a slow owner, when the log is read from elsewhere, then none of
    the earlier reading is delivered but the one that was in hand.
    """
    log = Log(broker, 1000)

    async def scene() -> tuple[int, int]:
        gate = asyncio.Event()
        log.before_batch = gate.wait
        reader = log.reader(batch_records=10)
        first = reader.seek(0)
        await until(lambda: reader._batches.full)
        second = reader.seek(500)
        gate.set()
        await until(lambda: log.offsets(second)[-1:] == [999])
        await reader.close()
        return first, second

    first, second = asyncio.run(scene())
    assert second == first + 1
    assert log.offsets(second) == list(range(500, 1000))
    assert len(log.offsets(first)) <= 10
    assert max(len(batch.records) for batch in log.batches) <= 10


def test_a_slow_owner_is_waited_for(broker: Broker) -> None:
    """Given an owner that takes a batch only now and then, then nothing is lost or out of order."""
    log = Log(broker, 300)

    async def scene() -> int:
        log.before_batch = lambda: asyncio.sleep(0.01)
        reader = log.reader(batch_records=7)
        epoch = reader.seek(0)
        await until(lambda: log.offsets(epoch)[-1:] == [299])
        await reader.close()
        return epoch

    epoch = asyncio.run(scene())
    assert log.offsets(epoch) == list(range(300))


def test_a_log_that_is_cut_is_told_with_its_ends(kafka_broker: Broker) -> None:
    """Given a log that was trimmed to 40, when it is read from 10 or from past its end, then that
    is a failure with both ends; the same reader can then read from elsewhere.
    """
    log = Log(kafka_broker, 100)
    log.trim(40)

    async def scene() -> None:
        reader = log.reader()
        for wanted in (10, 200):
            reader.seek(wanted)
            await until(lambda: log.failures)
            (failure,) = log.failures
            assert isinstance(failure, LogCutError)
            assert (failure.wanted, failure.start, failure.end) == (wanted, 40, 100)
            log.failures.clear()
        assert await reader.start_offset() == 40
        epoch = reader.seek(40)
        await until(lambda: log.offsets(epoch) == list(range(40, 100)))
        # At the end there is nothing to read, and nothing wrong.
        reader.seek(100)
        await asyncio.sleep(0.3)
        await reader.close()

    asyncio.run(scene())
    assert log.failures == []


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_deleted_log_is_told(
    kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch, is_recreated: bool
) -> None:
    """Given a log that is deleted while it is read, and perhaps created again with fewer records,
    then that is a failure.
    """
    monkeypatch.setattr(log_reader, "_SILENT_SECONDS", 0.3)
    log = Log(kafka_broker, 10)

    async def scene() -> None:
        reader = log.reader()
        epoch = reader.seek(0)
        await until(lambda: len(log.offsets(epoch)) == 10)
        admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
        await asyncio.to_thread(admin.delete_topics([log.topic])[log.topic].result)
        if is_recreated:
            await asyncio.to_thread(kafka_broker.create_topics, {log.topic: 1})
            await asyncio.to_thread(log.append, 3)
        await until(lambda: log.failures)
        await reader.close()

    asyncio.run(scene())
    assert isinstance(log.failures[0], LogCutError if is_recreated else TopicGoneError)
    assert len(log.failures) == 1
