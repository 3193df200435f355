"""The log is read in order from any offset, never past a gap, and not faster than its owner."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from simhash_core.errors import FirstseenError
from streams.errors import BrokerRefusedError
from streams.kafka import log_reader
from streams.kafka.client_config import log_reader_config
from streams.kafka.clients import AdminClient, Producer
from streams.kafka.errors import TopicDeletedError
from streams.kafka.log_reader import LogCutError, LogReader, LogRecords
from tests.rigs.async_tests import until
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.unit.kafka.recording_owner import settings_for


class Log:
    """A topic of one partition with records of 10 bytes, and the owner of a reader.

    If ``is_held``, the owner takes no records.
    """

    def __init__(self, broker: Broker, records: int) -> None:
        self.broker = broker
        self.topic = broker.unique("log")
        self.batches: list[LogRecords] = []
        self.failures: list[FirstseenError] = []
        self.is_held = False
        self.take: Callable[[], None] = lambda: None
        broker.create_topics({self.topic: 1})
        self.append(records)

    def append(self, records: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for number in range(records):
            producer.produce(self.topic, b"%010d" % number, partition=0, timestamp=1000 + number)
        assert producer.flush(30) == 0

    def reader(self, *, batch_records: int = 500) -> LogReader:
        config = log_reader_config(settings_for(self.broker, self.topic))
        reader = LogReader(config, self.topic, batch_records=batch_records)

        def take() -> None:
            while not self.is_held and (batch := reader.take()) is not None:
                self.batches.append(batch)

        self.take = take
        reader.open(take, self.failures.append)
        return reader

    def release(self) -> None:
        self.is_held = False
        self.take()

    @property
    def offsets(self) -> list[int]:
        return [offset for batch in self.batches for offset, _, _ in batch.records]


async def test_a_slow_owner_is_waited_for(broker: Broker) -> None:
    log = Log(broker, 300)
    log.is_held = True
    reader = log.reader(batch_records=7)
    reader.seek(0)
    while len(log.offsets) < 200:
        await until(lambda: reader._batches.full)
        assert len(reader._batches._items) == 4
        log.release()
        log.is_held = True
    log.release()
    await until(lambda: log.offsets[-1:] == [299])
    await reader.close()
    assert log.offsets == list(range(300))
    assert log.batches[0].records[0] == (0, b"0000000000", 1000)
    assert max(len(batch.records) for batch in log.batches) <= 7


async def test_another_client_reads_on_if_one_is_stuck(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_reader, "_SILENT_SECONDS", 0.05)
    monkeypatch.setattr(log_reader, "_STUCK_SECONDS", 0.2)
    log = Log(broker, 3)
    reader = log.reader()
    reader.seek(0)
    await until(lambda: log.offsets == [0, 1, 2])
    stuck = reader._consumer
    await reader._calls.run(lambda: stuck.pause([TopicPartition(log.topic, 0)]))
    await asyncio.sleep(0.5)
    assert reader._consumer is stuck, "there is nothing to read"
    log.append(2)
    await until(lambda: log.offsets == [0, 1, 2, 3, 4])
    assert reader._consumer is not stuck
    assert "has records from offset 3 to 4: another client reads on" in caplog.text
    await reader.close()
    assert log.failures == []


@pytest.mark.parametrize("is_recreated", [False, True])
async def test_a_deleted_log_is_a_failure(
    kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch, is_recreated: bool
) -> None:
    monkeypatch.setattr(log_reader, "_SILENT_SECONDS", 0.3)
    log = Log(kafka_broker, 10)
    reader = log.reader()
    reader.seek(0)
    await until(lambda: len(log.offsets) == 10)
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    await asyncio.to_thread(admin.delete_topics([log.topic])[log.topic].result)
    if is_recreated:
        await asyncio.to_thread(kafka_broker.create_topics, {log.topic: 1})
        await asyncio.to_thread(log.append, 3)
    await until(lambda: log.failures)
    await reader.close()
    assert isinstance(log.failures[0], LogCutError if is_recreated else TopicDeletedError)
    assert len(log.failures) == 1


async def test_an_offset_that_does_not_exist_is_reported_once(broker: Broker) -> None:
    log = Log(broker, 10)
    reader = log.reader()
    reader.seek(1_000)
    await until(lambda: log.failures)
    reader._submit(lambda: reader._note(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)))
    reader.seek(0)
    await until(lambda: len(log.offsets) == 10)
    await reader.close()
    (failure,) = log.failures
    assert isinstance(failure, LogCutError)
    assert (failure.wanted, failure.start, failure.end) == (1_000, 0, 10)


async def test_lost_records_are_noticed_where_others_have_their_offsets(
    own_kafka_broker: Broker, tmp_path: Path
) -> None:
    """As after an unclean election: another broker leads, has less, and gets new records."""
    log, server = Log(own_kafka_broker, 10), own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    partition = server.data / f"{log.topic}-0"
    shutil.copytree(partition, tmp_path / "kept")
    log.append(5)
    reader = log.reader()
    reader.seek(0)
    await until(lambda: len(log.offsets) == 15)

    def lose_and_append() -> None:
        server.kill()
        shutil.rmtree(partition)
        (tmp_path / "kept").rename(partition)
        server.start()
        log.append(20)

    # Its thread notices the loss late.
    reader._submit(lose_and_append)
    await until(lambda: log.failures)
    await reader.close()
    (failure,) = log.failures
    assert isinstance(failure, LogCutError)
    assert "other records before it than were read" in str(failure)
    assert (failure.wanted, failure.start, failure.end) == (15, 0, 30)
    assert not any(offset > 14 for offset in log.offsets)


def message(offset: int, error: KafkaError | None = None) -> Message:
    """Return what the client would: a record, or an error in place of one."""
    fake = create_autospec(Message, instance=True)
    fake.error.return_value, fake.offset.return_value = error, offset
    fake.value.return_value, fake.timestamp.return_value = b"%010d" % offset, (1, 1000 + offset)
    assert isinstance(fake, Message)
    return fake


@pytest.mark.parametrize("before", [0, 2])
async def test_after_an_error_about_an_offset_that_exists_it_reads_on(
    broker: Broker, before: int
) -> None:
    """No record is read twice, even if some came along with the error."""
    log = Log(broker, 10)
    reader = log.reader()
    reader.seek(0)
    await until(lambda: len(log.offsets) == 10)

    def stop_as_librdkafka_does() -> None:
        log.append(5)
        reader._consumer.unassign()
        error = message(0, KafkaError(KafkaError.OFFSET_OUT_OF_RANGE))
        reader._take([*map(message, range(10, 10 + before)), error])

    reader._submit(stop_as_librdkafka_does)
    await until(lambda: log.offsets[-1:] == [14])
    await reader.close()
    assert log.offsets == list(range(15))
    assert not log.failures


async def test_only_a_lasting_error_ends_it(embedded_broker: Broker) -> None:
    log = Log(embedded_broker, 10)
    reader = log.reader()
    reader.seek(0)
    reader._submit(lambda: reader._note(KafkaError(KafkaError._TRANSPORT)))
    await until(lambda: len(log.offsets) == 10)
    assert not log.failures
    reader._submit(lambda: reader._note(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    await until(lambda: log.failures)
    await reader.close()
    assert isinstance(log.failures[0], BrokerRefusedError)
