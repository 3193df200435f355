"""Outputs, changelog records and offsets become visible together or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import TopicPartition

from streams.errors import UnansweredError
from streams.kafka.client_config import output_config
from streams.kafka.clients import Consumer
from streams.kafka.errors import AbortedError, FencedError, TransactionError
from streams.kafka.producers import AcknowledgedSends, ProducerRecord, RecordTooLargeError
from streams.kafka.transactions import OutputTransactions
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.unit.kafka.recording_owner import RecordingOwner, settings_for, until


class Scene:
    """A raw topic with one partition, an output topic and a changelog with two, and a member."""

    def __init__(self, broker: Broker, config: dict[str, str] | None = None) -> None:
        self.broker = broker
        self.name = broker.unique("commit")
        self.raw = f"{self.name}.raw"
        self.unique = f"{self.name}.unique"
        self.changelog = f"{self.name}.changelog"
        broker.create_topics({self.raw: 1, self.changelog: 2})
        broker.create_topics({self.unique: 1}, config)
        self.settings = settings_for(broker, self.name)
        self.owner = RecordingOwner()

    @asynccontextmanager
    async def member(self) -> AsyncIterator[bytes]:
        """Join the group; yields its metadata."""
        consumer = self.owner.open(self.settings, self.raw)
        await until(lambda: self.owner.owned)
        yield self.owner.metadata
        await consumer.close()

    async def transactions(
        self, *, name: str = "worker", timeout_seconds: float = 10, **config: float
    ) -> OutputTransactions:
        """Those of a worker, opened."""
        made = OutputTransactions(
            {**output_config(self.settings), **{k.replace("_", "."): v for k, v in config.items()}},
            f"{self.name}-{name}",
            source_topic=self.raw,
            changelog_topic=self.changelog,
            timeout_seconds=timeout_seconds,
        )
        await made.open()
        return made

    def record(self, value: bytes) -> ProducerRecord:
        """An output."""
        return ProducerRecord(self.unique, b"key", value, headers=(("header", b"1"),))

    def entry(self, partition: int, value: bytes = b"entry") -> ProducerRecord:
        """A record of the changelog."""
        return ProducerRecord(self.changelog, b"e", value, partition)

    def outputs(self) -> list[bytes | None]:
        """What readers of committed records see."""
        reader = Consumer(
            self.broker.consumer_settings(
                self.broker.unique("reader"),
                isolation_level="read_committed",
                enable_partition_eof="true",
            )
        )
        try:
            reader.assign([TopicPartition(self.unique, 0, 0)])
            values = []
            while (message := reader.poll(10)) is not None and message.error() is None:
                values.append(message.value())
            return values
        finally:
            reader.close()


async def commit_at_last(
    commits: OutputTransactions, records: list[ProducerRecord], group: bytes
) -> None:
    """Commit, and again where that may be tried."""
    for _ in range(20):
        with contextlib.suppress(UnansweredError, AbortedError, FencedError):
            await commits.commit(records, {}, group)
            return
    pytest.fail("no commit succeeded")


def test_records_and_offsets_are_committed_together(kafka_broker: Broker) -> None:
    """Given three commits, then their outputs are there in order, the group has the last offsets,
    and each commit says where the changelog goes on, by partition.
    """
    scene = Scene(kafka_broker)

    async def play() -> None:
        async with scene.member() as group:
            commits = await scene.transactions()
            first = await commits.commit(
                [scene.record(b"a"), scene.entry(1), scene.entry(0), scene.entry(1)], {0: 1}, group
            )
            assert first == {0: 1, 1: 2}
            second = await commits.commit([scene.record(b"b"), scene.entry(1)], {0: 2}, group)
            # One more, for the marker of the first transaction.
            assert second == {1: 4}
            assert await commits.commit([], {0: 9}, group) == {}
            assert await scene.owner.committed([0]) == {0: 9}
            await commits.close()

    asyncio.run(play())
    assert scene.outputs() == [b"a", b"b"]
    message = kafka_broker.read_partition(scene.unique, 1)[0]
    assert message.key() == b"key"
    assert message.headers() == [("header", b"1")]


def test_a_record_too_large_aborts_all(kafka_broker: Broker) -> None:
    """Given an output topic that takes 2,000 bytes, when a commit has more, then that is told with
    the reason, nothing of it is seen, and the next commit succeeds.
    """
    scene = Scene(kafka_broker, {"max.message.bytes": "2000"})

    async def play() -> None:
        async with scene.member() as group:
            commits = await scene.transactions()
            # That of the broker has no report on a single record the first time.
            large = [scene.record(b"a"), scene.record(os.urandom(5000))]
            for expected in (AbortedError, RecordTooLargeError):
                with pytest.raises(expected):
                    await commits.commit(large, {0: 1}, group)
            with pytest.raises(RecordTooLargeError):
                await commits.commit([scene.record(bytes(100_000_000))], {0: 1}, group)
            # The producer may need another abort to count on from where it was.
            await commit_at_last(commits, [scene.record(b"b")], group)
            await commits.close()

    asyncio.run(play())
    assert scene.outputs() == [b"b"]


def test_another_life_of_the_worker_fences(kafka_broker: Broker) -> None:
    """Given two producers of one name, when the second has opened, then the first can commit
    nothing, until it opens again.
    """
    scene = Scene(kafka_broker)

    async def play() -> None:
        async with scene.member() as group:
            first = await scene.transactions()
            await first.commit([scene.record(b"a")], {}, group)
            second = await scene.transactions()
            with pytest.raises(FencedError):
                await first.commit([scene.record(b"lost")], {0: 1}, group)
            await second.commit([scene.record(b"b")], {0: 1}, group)
            await first.commit([scene.record(b"c")], {0: 2}, group)
            await first.close()
            await second.close()

    asyncio.run(play())
    assert scene.outputs() == [b"a", b"b", b"c"]


def test_a_broker_that_stands_still_leaves_it_unknown(own_kafka_broker: Broker) -> None:
    """Given a broker that is stopped for longer than an answer may take, then it is not known what
    is committed; the next commit, once it is back, succeeds with a new producer.
    """
    scene = Scene(own_kafka_broker)
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    assert server._process is not None
    group_id = server._process.pid

    async def play() -> None:
        async with scene.member() as group:
            commits = await scene.transactions(timeout_seconds=2)
            await commits.commit([scene.record(b"a")], {0: 1}, group)
            os.killpg(group_id, signal.SIGSTOP)
            try:
                with pytest.raises(UnansweredError):
                    await commits.commit([scene.record(b"b")], {0: 2}, group)
            finally:
                os.killpg(group_id, signal.SIGCONT)
            await commit_at_last(commits, [scene.record(b"c")], group)
            await commits.close()

    asyncio.run(play())
    assert [value for value in scene.outputs() if value != b"b"] == [b"a", b"c"]


def test_a_missing_topic_is_no_success(kafka_broker: Broker) -> None:
    """Given an output topic that does not exist, then the commit fails."""
    scene = Scene(kafka_broker)

    async def play() -> None:
        async with scene.member() as group:
            commits = await scene.transactions(topic_metadata_propagation_max_ms=300)
            record = ProducerRecord(f"{scene.name}.missing", b"k", b"v")
            with pytest.raises((AbortedError, TransactionError)):
                await commits.commit([record, scene.entry(0)], {0: 1}, group)
            await commits.close()

    asyncio.run(play())


def test_acknowledged_sends_commit_offsets_after_the_records(broker: Broker) -> None:
    """Given delivery at least once, when records are committed, then they are there and then the
    offsets; a commit of offsets that fails leaves the records seen, and is raised.
    """
    scene = Scene(broker)
    committed: list[dict[int, int]] = []

    async def play() -> None:
        async with scene.member() as group:
            assert scene.owner.consumer is not None
            sends = AcknowledgedSends(
                output_config(scene.settings),
                scene.owner.consumer.commit,
                changelog_topic=scene.changelog,
                answer_seconds=10,
            )
            await sends.open()
            records = [scene.record(b"a"), scene.entry(1), scene.entry(1), scene.entry(0)]
            assert await sends.commit(records, {0: 5}, group) == {1: 2, 0: 1}
            committed.append(await scene.owner.committed([0]))
            assert await sends.commit([scene.entry(1)], {}, group) == {1: 3}
            await sends.close()

    asyncio.run(play())
    assert committed == [{0: 5}]
    assert scene.outputs() == [b"a"]


def test_acknowledged_sends_tell_a_record_too_large(kafka_broker: Broker) -> None:
    """Given a topic that takes 2,000 bytes, when more is sent, then that is told, no offset is
    committed, and the next commit succeeds.
    """
    scene = Scene(kafka_broker, {"max.message.bytes": "2000"})
    committed: list[object] = []

    async def commit(offsets: object, note: str) -> None:
        del note
        committed.append(offsets)

    async def play() -> None:
        sends = AcknowledgedSends(
            output_config(scene.settings),
            commit,
            changelog_topic=scene.changelog,
            answer_seconds=10,
        )
        await sends.open()
        with pytest.raises(RecordTooLargeError):
            await sends.commit([scene.record(os.urandom(5000))], {0: 1}, b"")
        assert committed == []
        await sends.commit([scene.record(b"small")], {0: 1}, b"")
        await sends.close()

    asyncio.run(play())
    assert committed == [{0: 1}]


def test_transactions_need_a_broker_that_answers(kafka_broker: Broker) -> None:
    """Given an address where no broker is, then opening says that it did not answer."""
    scene = Scene(kafka_broker)

    async def play() -> None:
        with pytest.raises(UnansweredError):
            await OutputTransactions(
                {**output_config(scene.settings), "bootstrap.servers": "127.0.0.1:1"},
                "nobody",
                source_topic="a",
                changelog_topic="b",
                timeout_seconds=1,
            ).open()

    asyncio.run(play())
