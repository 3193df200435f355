"""Fetched records become batches within limits; records that are not due are not taken."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import numpy as np
import pytest
from confluent_kafka import Message

from simhash_core.index.look_up import Nearness
from simhash_core.log.participant import Participant
from streams.errors import BrokerUnavailableError
from streams.kafka.raw_consumer import RawRecords, message_bytes
from streams.settings.settings import BatchSettings, InFlightSettings, IntakeSettings, Settings
from streams.worker import consume
from streams.worker.consume import (
    BATCHES_IN_FLIGHT,
    BUSY_DOCUMENTS,
    BUSY_SECONDS,
    GATHER_DOCUMENTS,
    GATHER_SECONDS,
    GATHER_SECONDS_MAX,
    PARTITION_DOCUMENTS,
    PARTITION_SECONDS,
    BatchPace,
    Intake,
    TopicRecreatedError,
)
from streams.worker.fingerprint import PendingRecord
from streams.worker.shard import AssignmentState, Shard
from tests.rigs.async_tests import until
from tests.rigs.manual_clock import ManualClock
from tests.unit.worker.hand_driven import (
    FINGERPRINTER,
    START_MS,
    TOPICS,
    WRITER,
    Broker,
    HandDriven,
    Member,
    context_of,
    text,
    turns,
)

IN_FLIGHT_BYTES = 20 * 1024 * 1024
SETTINGS = Settings(
    batch=BatchSettings(documents=10),
    in_flight=InFlightSettings(documents=20, bytes=IN_FLIGHT_BYTES),
)


class Scene:
    """An intake with some shards, whose group member the test drives."""

    def __init__(self, *partitions: int, idle_ms: int = 0, window_ms: int | None = None) -> None:
        self.member = Member(Broker())
        intake = IntakeSettings(idle_ms=idle_ms)
        settings = msgspec.structs.replace(SETTINGS, intake=intake)
        nearness = Nearness(FINGERPRINTER.scheme, None, window_ms)
        participant: Participant[PendingRecord] = Participant(WRITER, nearness)
        context = context_of(participant, settings, member=self.member)
        self.shards = context.shards
        self.shards |= {each: Shard(each, number) for number, each in enumerate(partitions, 1)}
        self.wakes = 0
        self.intake = Intake(context, self._wake)
        for shard in self.shards.values():
            self.intake.begin(shard, 0)

    def _wake(self) -> None:
        self.wakes += 1

    def put(
        self,
        partition: int,
        offsets: range,
        size: int = 10,
        reading: int = 0,
        epoch: int = -1,
    ) -> None:
        """Fetch records up to the end of the partition."""
        messages = [
            Message(
                topic=TOPICS.raw,
                partition=partition,
                offset=offset,
                value=b"x" * size,
                timestamp=(1, START_MS + offset),
                leader_epoch=epoch,
            )
            for offset in offsets
        ]
        number = reading or self.shards[partition].number
        run = RawRecords(partition, number, messages, sum(map(message_bytes, messages)))
        self.member.put(run, ended=[partition])

    def take(self) -> list[tuple[int, list[int]]]:
        return [(run.partition, offsets_of(run)) for run in self.intake.batch()]


def offsets_of(run: RawRecords) -> list[int]:
    return [each.offset() or 0 for each in run.messages]


def test_records_of_an_earlier_reading_and_of_a_closed_shard_are_dropped() -> None:
    scene = Scene(3, 5)
    assert scene.member.reads == [(3, 0, 1), (5, 0, 2)]
    scene.put(3, range(4))
    scene.put(5, range(4), reading=7)
    scene.put(5, range(2))
    scene.intake.end(scene.shards.pop(3))
    scene.put(3, range(4, 6), reading=1)
    assert scene.take() == [(5, [0, 1])]
    assert scene.take() == []


def test_a_batch_has_bounded_records_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "_BATCH_BYTES", 7000)
    scene = Scene(0)
    scene.put(0, range(23), 100)
    scene.put(0, range(23, 30), 1000)
    scene.put(0, range(30, 31), 9000)
    scene.put(0, range(31, 33), 1000)
    sizes, behind = [], []
    while batch := scene.take():
        sizes.append([len(offsets) for _, offsets in batch])
        behind.append(scene.intake.is_behind)
    assert sizes == [[10], [10], [7], [3], [1], [2]]
    assert behind == [True] * 5 + [False], "it is full, or leaves records"


async def test_a_batch_waits_for_a_partition_that_may_have_earlier_records() -> None:
    scene = Scene(0, 1, idle_ms=50)
    scene.put(0, range(2))
    assert scene.take() == scene.take() == []
    await until(lambda: scene.wakes)
    assert scene.take() == [(0, [0, 1])]


async def test_an_archive_is_taken_in_when_all_shards_are_open() -> None:
    """Otherwise those that open first fill the worker, and move the watermark."""
    scene = Scene(0, 1, window_ms=30 * 86_400_000)
    scene.shards[0].state = AssignmentState.OPEN
    scene.intake._merge.at_end(scene.shards[1].queue)
    scene.put(0, range(10))
    scene.put(0, range(10, 30))
    assert scene.take() == []
    scene.shards[1].state = AssignmentState.OPEN
    scene.put(1, range(5))
    await until(lambda: scene.wakes)
    assert scene.take() == [(0, [*range(5)]), (1, [*range(5)])]
    scene.intake.alignment.taken_in(START_MS, [np.array([START_MS])])
    scene.shards[1].state = AssignmentState.OPENING
    assert scene.take() == []


async def test_records_before_all_that_wait_are_taken_in_beyond_the_limit() -> None:
    """A shard has come from another worker, and this worker is full of later documents."""
    scene = Scene(0, 1, window_ms=30 * 86_400_000)
    alignment = scene.intake.alignment
    scene.intake._merge.at_end(scene.shards[0].queue)
    scene.shards[0].state = AssignmentState.OPEN
    scene.shards[1].state = AssignmentState.OPENING
    alignment.taken_in(START_MS + 9, [np.array([START_MS + 9])])
    scene.intake.taken_in(20, 100)
    assert scene.intake.is_held
    assert scene.take() == []
    scene.shards[1].state = AssignmentState.OPEN
    assert scene.take() == []
    assert not alignment.is_settled, "its records are not here yet"
    scene.put(1, range(15))
    assert scene.take() == [(1, [*range(10)])]
    alignment.taken_in(START_MS + 8, [])
    assert not alignment.is_settled
    scene.intake.taken_in(20, 100)
    assert scene.take() == [], "there is a limit"
    assert alignment.is_settled


@pytest.mark.parametrize(("documents", "size"), [(1, 0), (0, IN_FLIGHT_BYTES // 20)])
def test_nothing_is_taken_while_too_much_is_in_flight_or_after_the_end(
    documents: int, size: int
) -> None:
    """Records are limited in number and size; 20 of these reach one of the limits."""
    scene = Scene(0)
    scene.intake.taken_in(20 * documents, 20 * size)
    scene.put(0, range(4))
    assert scene.intake.is_held
    assert scene.take() == []
    assert len(scene.member._fetched) == 1
    wakes = scene.wakes
    scene.intake.committed(9 * documents, 9 * size)
    assert scene.take() == []
    assert scene.wakes == wakes
    scene.intake.committed(documents, size)
    assert scene.wakes == wakes + 1
    assert scene.take() == [(0, [0, 1, 2, 3])]
    scene.put(0, range(4, 6))
    scene.intake.stop()
    assert scene.take() == []


def test_a_partition_with_much_here_is_paused_until_half_is_taken() -> None:
    scene = Scene(0)
    scene.put(0, range(40), 800_000)
    paused = []
    while scene.take():
        paused.append(0 in scene.member.paused)
    assert paused == [True] * 5 + [False] * 3


def test_a_topic_that_ends_before_the_offset_is_an_error_after_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consume, "_TURNED_BACK_SECONDS", 3600.0)
    scene = Scene(0)
    shard = scene.shards[0]
    scene.intake.begin(shard, 100)
    scene.put(0, range(10))
    scene.put(0, range(100, 102))  # fetched before the reading was stopped
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


def test_a_partition_that_goes_back_to_an_old_record_is_read_again() -> None:
    """The client began with the earliest record before it had compared epochs."""
    scene = Scene(0)
    scene.put(0, range(10), epoch=3)
    assert scene.take() == [(0, [*range(10)])]
    scene.put(0, range(2), epoch=3)
    assert scene.take() == []
    assert scene.member.reads == [(0, 0, 1), (0, 10, 1)]
    scene.put(0, range(10, 12), epoch=3)
    assert scene.take() == [(0, [10, 11])]
    scene.intake.measure()


def test_a_partition_that_goes_back_to_a_record_of_another_leader_has_lost_records() -> None:
    scene = Scene(0)
    shard = scene.shards[0]
    scene.put(0, range(7), epoch=3)
    scene.put(0, range(7, 10), epoch=5)
    scene.put(0, range(8, 20), epoch=6)
    scene.put(0, range(20, 30), epoch=6)
    assert scene.take() == [(0, [*range(10)])]
    assert [shard.epochs.before(each) for each in (0, 7, 8, 10)] == [-1, 3, 5, 5]
    assert (shard.lost_from, scene.member.stopped) == (8, [0])


@pytest.mark.parametrize(("start", "lost"), [(5, 3), (0, 0)], ids=["deleted", "compacted"])
async def test_a_gap_before_the_start_of_a_partition_is_counted_as_deleted_unread(
    worker: HandDriven,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    start: int,
    lost: int,
) -> None:
    """Other gaps have no records."""

    async def log_start(_: int) -> int:
        return start

    monkeypatch.setattr(worker.member, "log_start", log_start)
    caplog.set_level(logging.WARNING)
    await worker.open(0, 1, 2)
    worker.fetch(2, 4, [text(0)])
    await until(lambda: len(worker.outputs) == 1)
    worker.fetch(1, 0, [text(1), text(2)])
    await until(lambda: len(worker.outputs) == 3)
    worker.fetch(1, 5, [text(3)])
    await until(lambda: len(worker.outputs) == 4)
    await turns()
    skipped = [
        worker.registry.get_sample_value(
            "firstseen_skipped_messages_total", {"topic": TOPICS.raw, "partition": partition}
        )
        for partition in "12"
    ]
    assert skipped == [lost, 0], "a new shard begins with the first record"
    assert ("offsets 2 to 4 were deleted" in caplog.text) == bool(lost)


async def test_a_shard_commits_the_end_of_a_partition_whose_last_records_were_deleted(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = 5

    async def log_start(_: int) -> int:
        return start

    monkeypatch.setattr(worker.member, "log_start", log_start)
    await worker.open(0, 1)
    worker.fetch(1, 0, [text(1), text(2)])
    await until(lambda: len(worker.outputs) == 2)
    worker.member.put(ended=[1], empty={1: 5})
    await turns()
    await worker.pipeline.tick()
    await until(lambda: worker.broker.offsets.get(1) == 5)
    start = 8
    worker.member.put(ended=[1], empty={1: 8})
    worker.fetch(1, 8, [text(3)])  # behind a gap that is counted already
    await until(lambda: len(worker.outputs) == 3)
    await turns()
    labels = {"topic": TOPICS.raw, "partition": "1"}
    assert worker.registry.get_sample_value("firstseen_skipped_messages_total", labels) == 6


@pytest.mark.parametrize("is_known", [True, False], ids=["answer", "no answer"])
async def test_a_gap_is_counted_once_although_its_shard_moves(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """If the start of the partition is unknown, the shard goes on behind the gap as well."""
    go = asyncio.Event()

    async def log_start(_: int) -> int:
        await go.wait()
        if not is_known:
            raise BrokerUnavailableError("no answer")
        return 5

    monkeypatch.setattr(worker.member, "log_start", log_start)
    labels = {"topic": TOPICS.raw, "partition": "1"}

    def skipped() -> float | None:
        return worker.registry.get_sample_value("firstseen_skipped_messages_total", labels)

    await worker.open(0, 1)
    await worker.output(1, text(1))
    for count in (0, 4):
        worker.member.put(ended=[1], empty={1: 5})
        await turns()
        if not count:
            await worker.revoke(1)
        go.set()
        await turns()
        assert skipped() == count
        if not count:
            go.clear()
            await worker.open(1)
    await worker.pipeline.tick()
    await until(lambda: worker.broker.offsets.get(1) == 5)


# ---- the pace of batches


@pytest.mark.parametrize(
    ("records", "every_seconds", "partitions", "fast", "is_full", "expected"),
    [
        pytest.param(2, 0.01, 1, 300.0, False, 0.0, id="slow"),
        pytest.param(10, 0.05, 1, 300.0, False, 0.0, id="slow, in batches"),
        pytest.param(1, 0.01, 64, 300.0, False, 0.0, id="slow, many partitions"),
        pytest.param(1, 0.002, 1, 300.0, False, GATHER_SECONDS, id="fast"),
        pytest.param(10, 0.02, 2, 300.0, False, GATHER_SECONDS, id="fast, in batches"),
        pytest.param(10, 0.02, 4, 300.0, False, 4 * PARTITION_SECONDS, id="fast, four partitions"),
        pytest.param(20, 0.02, 64, 300.0, False, GATHER_SECONDS_MAX, id="fast, many partitions"),
        pytest.param(1, 0.01, 1, 50.0, False, GATHER_SECONDS, id="what is fast is chosen"),
        pytest.param(250, 0.05, 1, 300.0, True, 0.0, id="full batches"),
    ],
)
def test_a_fast_stream_is_gathered_unless_its_batches_are_full(
    records: int,
    every_seconds: float,
    partitions: int,
    fast: float,
    is_full: bool,
    expected: float,
) -> None:
    clock = ManualClock()
    pace = BatchPace(clock, fast=fast)
    for _ in range(round(1.0 / every_seconds)):
        clock.now += every_seconds
        pace.began(records, partitions, is_full=is_full)
    assert pace.seconds() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rate", "partitions", "in_flight", "documents"),
    [
        pytest.param(3_000, 1, 0, GATHER_DOCUMENTS + PARTITION_DOCUMENTS, id="one partition"),
        pytest.param(3_000, 16, 0, GATHER_DOCUMENTS + 16 * PARTITION_DOCUMENTS, id="many"),
        pytest.param(3_000, 1, 150, 150 / BATCHES_IN_FLIGHT, id="slow brokers"),
        pytest.param(3_000, 1, 3_000, 3_000 * GATHER_SECONDS_MAX, id="very slow brokers"),
    ],
)
def test_a_batch_waits_for_enough_documents(
    rate: int, partitions: int, in_flight: int, documents: float
) -> None:
    clock = ManualClock()
    pace = BatchPace(clock)
    for _ in range(1_000):
        clock.now += 0.002
        pace.began(rate // 500, partitions, in_flight)
    assert rate * pace.seconds() == pytest.approx(documents, rel=0.01)


@pytest.mark.parametrize(
    ("rate", "documents"),
    [(20, 20 * BUSY_SECONDS), (100, BUSY_DOCUMENTS), (250, BUSY_DOCUMENTS)],
)
def test_a_slow_stream_waits_while_the_event_loop_is_busy(rate: int, documents: float) -> None:
    clock, busy = ManualClock(), ManualClock()
    pace = BatchPace(clock, cpu=busy)

    def run(seconds: int, share: float) -> float:
        """Begin batches of one document; return for how many the next one waits."""
        for _ in range(seconds * rate):
            clock.now += 1 / rate
            busy.now += share / rate
            pace.began(1)
        return rate * pace.seconds()

    assert run(5, 0.5) == 0.0
    assert run(5, 0.7) == pytest.approx(documents, rel=0.15)
    assert run(5, 0.4) == pytest.approx(documents, rel=0.15), "its larger batches make it less busy"
    assert run(5, 0.2) == 0.0


def test_the_wait_ends() -> None:
    clock = ManualClock()
    pace = BatchPace(clock)
    assert pace.seconds() == 0.0, "the first batch begins at once"
    pace.began(100)
    clock.now += GATHER_SECONDS / 2
    assert pace.seconds() == pytest.approx(GATHER_SECONDS / 2)
    clock.now += GATHER_SECONDS
    assert pace.seconds() == 0.0
