"""What the member fetched becomes batches, within limits; what is not due is not taken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from streams.kafka.clients import Producer
from streams.kafka.raw_consumer import RawRecords
from streams.monitoring.metrics import Metrics
from streams.settings.settings import BatchSettings, InFlightSettings, IntakeSettings, Settings
from streams.worker import consume
from streams.worker.consume import Intake, TopicRecreatedError
from streams.worker.shard import Shard
from tests.rigs.brokers.broker import Broker as RealBroker
from tests.unit.kafka.recording_owner import RecordingOwner, settings_for
from tests.unit.kafka.recording_owner import until as until_read
from tests.unit.worker.hand_driven import (
    START_MS,
    TOPICS,
    Broker,
    HandDriven,
    Member,
    text,
    turns,
    until,
)

SETTINGS = Settings(
    batch=BatchSettings(documents=10),
    intake=IntakeSettings(idle_ms=0),
    in_flight=InFlightSettings(documents=20),
)


class _Events:
    def fetched(self) -> None:
        """Need nothing: a test takes batches when it wants."""


class Scene:
    """An intake with some shards, whose member a test drives."""

    def __init__(self, *partitions: int) -> None:
        self.member = Member(Broker())
        self.member._events = _Events()  # type: ignore[assignment]
        self.shards = {each: Shard(each, number) for number, each in enumerate(partitions, 1)}
        self.wakes = 0
        self.intake = Intake(
            SETTINGS, self.member, self.shards, Metrics(CollectorRegistry()), self._wake
        )
        for shard in self.shards.values():
            self.intake.begin(shard, 0)

    def _wake(self) -> None:
        self.wakes += 1

    def put(self, partition: int, offsets: range, size: int = 10, reading: int = 0) -> None:
        """Fetch records; the partition is at its end then."""
        messages = [
            Message(
                topic=TOPICS.raw,
                partition=partition,
                offset=offset,
                value=b"x" * size,
                timestamp=(1, START_MS + offset),
            )
            for offset in offsets
        ]
        number = reading or self.shards[partition].number
        run = RawRecords(partition, number, messages, size * len(messages))
        self.member.put(run, ended=[partition])

    def take(self) -> list[tuple[int, list[int]]]:
        """Take a batch: partitions, and offsets."""
        return [
            (run.partition, [each.offset() or 0 for each in run.messages])
            for run in self.intake.batch()
        ]


def test_a_shard_is_read_from_its_offset_with_its_number() -> None:
    """Given shards, then the member reads each from its progress, with the number of the shard."""
    scene = Scene(3, 5)
    assert scene.member.reads == [(3, 0, 1), (5, 0, 2)]


def test_records_of_an_earlier_reading_are_dropped() -> None:
    """Given records that carry the number of a shard that is closed, then they are not taken."""
    scene = Scene(3)
    scene.put(3, range(4), reading=7)
    assert scene.take() == []
    scene.put(3, range(4))
    assert scene.take() == [(3, [0, 1, 2, 3])]


def test_what_a_closed_shard_had_is_dropped_and_counts_no_more() -> None:
    """Given a shard that is closed with records here, then none of them is taken."""
    scene = Scene(3, 5)
    scene.put(3, range(4))
    scene.put(5, range(2))
    scene.intake.end(scene.shards.pop(3))
    assert scene.take() == [(5, [0, 1])]


def test_a_batch_has_bounded_records_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given records of 1,000 bytes and one of 9,000, when batches may have 10 records and 5,000
    bytes, then none has more, but the one that the large record has for itself.
    """
    monkeypatch.setattr(consume, "_BATCH_BYTES", 5000)
    scene = Scene(0)
    scene.put(0, range(23), 100)
    scene.put(0, range(23, 30), 1000)
    scene.put(0, range(30, 31), 9000)
    scene.put(0, range(31, 33), 1000)
    sizes = []
    while batch := scene.take():
        sizes.append([len(offsets) for _, offsets in batch])
    assert sizes == [[10], [10], [7], [3], [1], [2]]


def test_nothing_is_taken_while_too_much_is_in_flight() -> None:
    """Given as many documents in flight as may be, then nothing is taken, and nothing more is asked
    of the member, until half of them are put out; then the stage is woken.
    """
    scene = Scene(0)
    scene.intake.taken_in(20, 100)
    scene.put(0, range(4))
    assert scene.intake.is_held
    assert scene.take() == []
    assert len(scene.member._fetched) == 1
    wakes = scene.wakes
    scene.intake.put_out(9, 50)
    assert scene.take() == []
    assert scene.wakes == wakes
    scene.intake.put_out(1, 0)
    assert scene.wakes == wakes + 1
    assert scene.take() == [(0, [0, 1, 2, 3])]


def test_nothing_is_taken_after_the_end() -> None:
    """Given a worker that stops, then nothing is taken any more."""
    scene = Scene(0)
    scene.put(0, range(4))
    scene.intake.stop()
    assert scene.take() == []


def test_a_partition_with_much_here_is_paused_until_half_is_taken() -> None:
    """Given a partition that brings more than may wait here, then the member pauses it, and fetches
    it again when half of that is taken.
    """
    scene = Scene(0)
    scene.put(0, range(40), 100_000)
    paused = []
    while scene.take():
        paused.append(0 in scene.member.paused)
    assert paused == [True, True, False, False]


def test_a_topic_that_ends_before_the_offset_is_an_error_after_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a shard that is to be read from offset 100, when offset 0 comes, then nothing is taken
    and the partition is stopped; it is an error, with both offsets, only when the worker has had
    time to see that the topic is another one. A new shard of the partition is read.
    """
    monkeypatch.setattr(consume, "_TURNED_BACK_SECONDS", 3600.0)
    scene = Scene(0)
    shard = scene.shards[0]
    scene.intake.begin(shard, 100)
    scene.put(0, range(10))
    assert scene.take() == []
    assert scene.member.stopped == [0]
    scene.intake.measure()
    monkeypatch.setattr(consume, "_TURNED_BACK_SECONDS", -1.0)
    with pytest.raises(TopicRecreatedError, match=r"/0 .* offset 100.* offset 0 ") as raised:
        scene.intake.measure()
    assert SETTINGS.topics.raw in str(raised.value)

    scene.intake.end(shard)
    scene.intake.measure()
    scene.shards[0] = Shard(0, 2)
    scene.intake.begin(scene.shards[0], 0)
    scene.put(0, range(2))
    assert scene.take() == [(0, [0, 1])]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("start", "lost"), [(5, 3), (0, 0)], ids=["deleted", "compacted"])
def test_records_that_were_deleted_unread_are_counted(
    start: int, lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Given a gap in the offsets that come, when the partition begins behind it, then what lies
    before its start was deleted unread: that is logged and counted; other gaps hold no records.
    """

    async def scene(worker: HandDriven) -> None:
        worker.member.log_start = log_start  # type: ignore[method-assign]
        worker.fetch(1, 0, [text(1), text(2)])
        await until(lambda: len(worker.outputs) == 2)
        worker.fetch(1, 5, [text(3)])
        await until(lambda: len(worker.outputs) == 3)
        await turns()
        labels = {"topic": TOPICS.raw, "partition": "1"}
        skipped = worker.registry.get_sample_value("firstseen_skipped_messages_total", labels)
        assert skipped == lost

    async def log_start(partition: int) -> int:
        assert partition == 1
        return start

    with caplog.at_level(logging.WARNING):
        play(scene)
    assert ("offsets 2 to 4 were deleted" in caplog.text) == bool(lost)


def play(scene: Callable[[HandDriven], Coroutine[Any, Any, None]]) -> None:
    """Play a scene with a worker whose shards 0 and 1 are open."""

    async def run() -> None:
        async with HandDriven().running() as worker:
            await worker.open(0, 1)
            await scene(worker)

    asyncio.run(run())


def test_a_backlog_of_a_broker_comes_by_timestamps(broker: RealBroker) -> None:
    """Given a backlog in which the records of partition 2 are older than those of 1, and those of
    1 than those of 0, when a member fetches all three, then 2 comes before 1 and 1 before 0.
    """
    topic = broker.new_topic("raw", 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for partition in range(3):
        for number in range(600):
            time_ms = START_MS + (2 - partition) * 10_000 + number
            producer.produce(topic, b"x" * 100, partition=partition, timestamp=time_ms)
    assert producer.flush(30) == 0
    settings = Settings(
        application_id=topic,
        batch=BatchSettings(documents=100),
        intake=IntakeSettings(idle_ms=10_000),
    )
    offsets: dict[int, list[int]] = {0: [], 1: [], 2: []}
    partitions: list[int] = []

    async def scene() -> None:
        owner = RecordingOwner(is_eager=False)
        owner.is_held = True
        member = owner.open(settings_for(broker, topic), topic)
        await until_read(lambda: owner.owned == {0, 1, 2})
        shards = {partition: Shard(partition, partition + 1) for partition in range(3)}
        metrics = Metrics(CollectorRegistry())
        intake = Intake(settings, member, shards, metrics, lambda: None)
        for shard in shards.values():
            intake.begin(shard, 0)

        def is_read() -> bool:
            for run in intake.batch():
                partitions.append(run.partition)
                offsets[run.partition] += [each.offset() or 0 for each in run.messages]
            return len(offsets[0]) == 600

        await until_read(is_read)
        await member.close()

    asyncio.run(scene())
    assert partitions == sorted(partitions, reverse=True)
    assert offsets == {partition: list(range(600)) for partition in range(3)}
