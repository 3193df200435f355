"""Outputs, changelog records and offsets become visible together or not at all."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import TopicPartition

from simhash_core.documents import SourcePosition
from streams.errors import UnansweredError
from streams.kafka.client_config import output_config
from streams.kafka.clients import Consumer
from streams.kafka.embedded_broker import EmbeddedBroker
from streams.kafka.errors import AbortedError, FencedError, TransactionError, UnverifiedError
from streams.kafka.producers import (
    AcknowledgedProducer,
    AcknowledgedSends,
    CommitChecks,
    ProducerRecord,
    RecordTooLargeError,
    SendThread,
)
from streams.kafka.transactions import OutputTransactions
from tests.rigs.async_tests import until
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.unit.kafka.recording_owner import RecordingOwner, settings_for


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
        consumer = self.owner.open(self.settings, self.raw)
        await until(lambda: self.owner.owned)
        yield self.owner.metadata
        await consumer.close()

    async def transactions(
        self, *, timeout_seconds: float = 10, **config: float
    ) -> OutputTransactions:
        made = OutputTransactions(
            {**output_config(self.settings), **{k.replace("_", "."): v for k, v in config.items()}},
            f"{self.name}-worker",
            source_topic=self.raw,
            changelog_topic=self.changelog,
            timeout_seconds=timeout_seconds,
        )
        await made.open()
        return made

    async def sends(
        self, commit: Callable[[Mapping[int, int], str], Awaitable[None]]
    ) -> AcknowledgedSends:
        config = output_config(self.settings)
        client = SendThread(config, changelog_topic=self.changelog, answer_seconds=10)
        made = AcknowledgedSends(client, commit, changelog_topic=self.changelog)
        await made.open()
        return made

    def record(self, value: bytes) -> ProducerRecord:
        return ProducerRecord(self.unique, b"key", value, headers=(("header", b"1"),))

    def entry(self, partition: int) -> ProducerRecord:
        return ProducerRecord(self.changelog, b"e", b"entry", partition)

    def outputs(self) -> list[bytes | None]:
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
    for _ in range(20):
        with contextlib.suppress(UnansweredError, AbortedError, FencedError):
            await commits.commit(records, {}, group)
            return
    pytest.fail("no commit succeeded")


async def test_a_broker_that_stands_still_leaves_it_unknown(kafka_broker: Broker) -> None:
    scene = Scene(kafka_broker)
    server = kafka_broker.server
    assert isinstance(server, KafkaBroker)

    async with scene.member() as group:
        commits = await scene.transactions(timeout_seconds=2)
        await commits.commit([scene.record(b"a")], {0: 1}, group)
        server.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(UnansweredError):
                await commits.commit([scene.record(b"b")], {0: 2}, group)
        finally:
            server.send_signal(signal.SIGCONT)
        await commit_at_last(commits, [scene.record(b"c")], group)
        await commits.close()

    assert [value for value in scene.outputs() if value != b"b"] == [b"a", b"c"]


async def test_a_client_that_hangs_counts_as_a_failure(
    kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = await Scene(kafka_broker).transactions()
    before = await commits.failures()

    async def hangs(*_: object) -> None:
        raise TimeoutError

    with monkeypatch.context() as patched:
        patched.setattr(commits._thread, "run", hangs)
        with pytest.raises(UnansweredError, match="hangs"):
            await commits.open()
    assert await commits.failures() == before + 1
    await commits.close()


async def test_a_transaction_that_fails_slowly_names_its_time_limit(
    kafka_broker: Broker,
) -> None:
    """The producer waits for the topic that is missing until no time is left."""
    scene = Scene(kafka_broker)
    async with scene.member() as metadata:
        made = await scene.transactions(timeout_seconds=2)
        missing = ProducerRecord(f"{scene.name}.missing", b"k", b"v")
        limit = r"of the 2 s that a transaction may take.* raise session_timeout_seconds"
        with pytest.raises((AbortedError, UnansweredError), match=limit):
            await made.commit([missing], {0: 1}, metadata)
        await made.close()


async def test_a_missing_topic_is_no_success(kafka_broker: Broker) -> None:
    scene = Scene(kafka_broker)
    async with scene.member() as group:
        commits = await scene.transactions(topic_metadata_propagation_max_ms=300)
        record = ProducerRecord(f"{scene.name}.missing", b"k", b"v")
        records = [record, scene.entry(0)]
        with pytest.raises((AbortedError, TransactionError)):
            await commits.commit(records, {0: 1}, group)
        # From the second try on each record has a report, so the message can name its topic.
        with pytest.raises((AbortedError, TransactionError), match=record.topic):
            await commits.commit(records, {0: 1}, group)
        await commits.close()


async def test_acknowledged_sends_commit_offsets_after_the_records(broker: Broker) -> None:
    scene = Scene(broker)
    async with scene.member() as group:
        assert scene.owner.consumer is not None
        sends = await scene.sends(scene.owner.consumer.commit)
        records = [scene.record(b"a"), scene.entry(1), scene.entry(1), scene.entry(0)]
        assert await sends.commit(records, {0: 5}, group) == {1: 2, 0: 1}
        assert await scene.owner.committed([0]) == {0: 5}
        assert await sends.commit([scene.entry(1)], {}, group) == {1: 3}
        await sends.close()
    assert scene.outputs() == [b"a"]


def test_only_an_internal_record_may_be_too_large_because_of_removals() -> None:
    record = ProducerRecord("log", None, bytes(9))
    output = record._replace(topic="unique", about=[SourcePosition("raw", 0, 5)])
    assert "raise batch.bundles of all workers first" in str(RecordTooLargeError([record]))
    assert "(raw/0@5): its max.message.bytes was lowered. '" in str(RecordTooLargeError([output]))


async def test_acknowledged_sends_commit_no_offset_with_a_record_too_large(
    kafka_broker: Broker,
) -> None:
    scene = Scene(kafka_broker, {"max.message.bytes": "2000"})
    committed: list[object] = []

    async def commit(offsets: object, _note: str) -> None:
        committed.append(offsets)

    sends = await scene.sends(commit)
    with pytest.raises(RecordTooLargeError):
        await sends.commit([scene.record(os.urandom(5000))], {0: 1}, b"")
    assert committed == []
    await sends.commit([scene.record(b"small")], {0: 1}, b"")
    await sends.close()
    assert committed == [{0: 1}]


class FailingClient:
    """A ``SendClient`` whose connection fails with each send of a topic in ``fails_with``."""

    def __init__(self, *fails_with: str) -> None:
        self.sent: list[str] = []
        self._fails_with = fails_with
        self._failures = 0

    async def send(self, records: Sequence[ProducerRecord]) -> dict[int, int]:
        self.sent.append(records[0].topic)
        self._failures += records[0].topic in self._fails_with
        return {0: 1}

    async def failures(self) -> int:
        return self._failures

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("fails_with", "known", "sent"),
    [
        pytest.param((), 0, ["unique", "changelog", "offsets"], id="no failure"),
        pytest.param((), -1, [], id="before the commit"),
        pytest.param(("unique",), 0, ["unique"], id="before the progress is stored"),
        pytest.param(
            ("changelog",), 0, ["unique", "changelog", "unique", "offsets"], id="as it is stored"
        ),
        pytest.param(("unique",), None, ["unique", "changelog", "offsets"], id="ignored"),
    ],
)
async def test_acknowledged_sends_notice_failed_connections(
    fails_with: tuple[str, ...], known: int | None, sent: list[str]
) -> None:
    """``known`` is how many failures the caller knows. Outputs may be lost with a connection."""
    client = FailingClient(*fails_with)

    async def commit(_offsets: object, _note: str) -> None:
        client.sent.append("offsets")

    sends = AcknowledgedSends(client, commit, changelog_topic="changelog")
    records = [ProducerRecord("changelog", b"p", b"", 0), ProducerRecord("unique", b"k", b"")]
    is_refused = sent[-1:] != ["offsets"]
    with pytest.raises(UnverifiedError) if is_refused else contextlib.nullcontext():
        await sends.commit(records, {0: 1}, b"", checks=CommitChecks(failures=known))
    assert client.sent == sent


def test_an_acknowledged_producer_counts_failed_connections() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("changelog")
        config = {"bootstrap.servers": broker.bootstrap_servers}
        producer = AcknowledgedProducer(config, 10.0, changelog_topic="changelog")
        record = ProducerRecord("changelog", b"p", b"", 0)
        assert producer.send([record]) == {0: 1}
        assert producer.failures() == 0
    deadline = time.monotonic() + 20.0
    while not producer.failures():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert producer.failures() == 1
    producer.close()


async def test_transactions_need_a_broker_that_answers(kafka_broker: Broker) -> None:
    config = output_config(settings_for(kafka_broker, "nobody"))
    with pytest.raises(UnansweredError):
        await OutputTransactions(
            {**config, "bootstrap.servers": "127.0.0.1:1"},
            "nobody",
            source_topic="a",
            changelog_topic="b",
            timeout_seconds=1,
        ).open()
