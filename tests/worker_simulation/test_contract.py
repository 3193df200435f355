"""Simulated and real clients of a worker keep the same promises (``streams.worker.clients``).

So results of the simulator hold on a real broker, as far as these promises go.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial

import pytest

from simhash_core.errors import FirstseenError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka.errors import (
    AbortedError,
    FencedError,
    StaleGenerationError,
    UnverifiedError,
)
from streams.kafka.log_reader import LogCutError
from streams.kafka.producers import (
    UNCHECKED,
    AppendUnknownError,
    CommitChecks,
    ProducerRecord,
    RecordTooLargeError,
)
from streams.settings.settings import GroupProtocol
from streams.worker.clients import OutputCommitter, PartitionReader
from tests.rigs.async_tests import WAIT_SECONDS, until
from tests.unit.kafka.recording_owner import RecordingOwner
from tests.worker_simulation.bench import MESSAGE_BYTES, Bench, BrokerBench, SimulatedBench

KAFKA = pytest.param("kafka", marks=pytest.mark.kafka)
TRIES = 5
TOO_LARGE = random.Random(1).randbytes(MESSAGE_BYTES + 10_000), bytes(3 * MESSAGE_BYTES)
"""Too large for the topic although compressed, and too large for the client."""


@pytest.fixture(params=["simulated", "embedded", KAFKA])
def bench(request: pytest.FixtureRequest) -> Bench:
    return _bench(request)


def _bench(
    request: pytest.FixtureRequest, protocol: GroupProtocol = GroupProtocol.CLASSIC
) -> Bench:
    if request.param == "simulated":
        return SimulatedBench(protocol=protocol)
    return BrokerBench(request.getfixturevalue(f"{request.param}_broker"), protocol)


@pytest.fixture(params=["simulated", KAFKA])
def isolating(request: pytest.FixtureRequest) -> Bench:
    """Return the clients on brokers whose transactions isolate and fence."""
    return _bench(request)


@pytest.fixture(params=["simulated", KAFKA])
def assigning(request: pytest.FixtureRequest) -> Bench:
    """Return the clients on brokers that assign the partitions of the group."""
    return _bench(request, GroupProtocol.CONSUMER)


@pytest.fixture
def runner(request: pytest.FixtureRequest) -> Bench:
    """Return the bench of a test, which also runs it (``tests.rigs.async_tests``)."""
    (name,) = {"bench", "isolating", "assigning"} & {*request.fixturenames}
    bench: Bench = request.getfixturevalue(name)
    return bench


class Worker(RecordingOwner):
    def __init__(self, bench: Bench, name: str) -> None:
        super().__init__()
        self.member = self.consumer = bench.member(name)


class Log:
    def __init__(self, reader: PartitionReader) -> None:
        self.reader = reader
        self.records: list[tuple[int, bytes]] = []
        self.failures: list[FirstseenError] = []
        reader.open(self._take, self.failures.append)

    def _take(self) -> None:
        while (batch := self.reader.take()) is not None:
            self.records += [(offset, value) for offset, value, _ in batch.records]


async def joined(bench: Bench) -> Worker:
    worker = Worker(bench, "a")
    worker.member.open(worker)
    await until(lambda: len(worker.owned) == 3)
    return worker


def values(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


# ---- a reader of one partition


async def test_reader_reads_in_order_from_any_offset(bench: Bench) -> None:
    topic = bench.topic("log", 1)
    bench.produce(topic, 0, values(20))
    log = Log(bench.reader(topic))
    log.reader.seek(5)
    await until(lambda: len(log.records) == 15)
    bench.produce(topic, 0, values(3, 20))
    await until(lambda: len(log.records) == 18)
    assert log.records == list(enumerate(values(23)))[5:]
    assert await log.reader.offsets() == (0, 23)
    await log.reader.close()


async def test_reader_returns_nothing_of_an_earlier_reading(bench: Bench) -> None:
    topic = bench.topic("log", 1)
    bench.produce(topic, 0, values(30))
    reader = bench.reader(topic)
    filled = asyncio.Event()
    reader.open(filled.set, lambda _: None)
    reader.seek(0)
    await filled.wait()
    reader.seek(25)
    offsets: list[int] = []

    def take() -> bool:
        while (batch := reader.take()) is not None:
            offsets.extend(offset for offset, _, _ in batch.records)
        return len(offsets) >= 5

    await until(take)
    assert offsets == [25, 26, 27, 28, 29]
    await reader.close()


async def test_reader_is_not_moved_over_a_gap(isolating: Bench) -> None:
    topic = isolating.topic("log", 1)
    isolating.produce(topic, 0, values(10))
    isolating.trim(topic, 6)
    log = Log(isolating.reader(topic))
    for wanted in (2, 20):
        log.reader.seek(wanted)
        await until(lambda: log.failures)
        (error,) = log.failures
        assert isinstance(error, LogCutError)
        assert (error.wanted, error.start, error.end) == (wanted, 6, 10)
        log.failures.clear()
    assert not log.records
    log.reader.seek(6)
    await until(lambda: len(log.records) == 4)
    assert [offset for offset, _ in log.records] == [6, 7, 8, 9]
    log.reader.seek(10)  # this is the end: there is nothing to read, and no error
    await asyncio.sleep(0.3)
    assert not log.failures
    await log.reader.close()


# ---- an appender


async def test_appender_keeps_order_and_tells_offsets(bench: Bench) -> None:
    topic = bench.topic("log", 1)
    appender = bench.appender()
    appender.open()
    futures = [appender.append(topic, value) for value in values(20)]
    assert await asyncio.gather(*futures) == list(range(20))
    await appender.close()
    assert bench.committed(topic, 0, 20) == values(20)


async def test_appender_names_a_record_that_is_too_large(isolating: Bench) -> None:
    topic = isolating.topic("log", 1)
    appender = isolating.appender()
    appender.open()
    assert await appender.append(topic, b"before") == 0
    for value in TOO_LARGE:
        with pytest.raises(RecordTooLargeError):
            await appender.append(topic, value)
    assert await appender.append(topic, b"after") == 1
    await appender.close()


async def test_appender_leaves_no_future_open(bench: Bench) -> None:
    topic = bench.topic("log", 1)
    appender = bench.appender()
    appender.open()
    futures = [appender.append(topic, value) for value in values(50)]
    closing = asyncio.ensure_future(appender.close())
    await asyncio.sleep(0)
    late = appender.append(topic, b"late")
    late.add_done_callback(lambda future: future.exception())
    await closing
    for future in futures:
        assert future.done()
        error = future.exception()
        assert error is None or isinstance(error, AppendUnknownError)
    appended = sum(future.exception() is None for future in futures)
    assert bench.committed(topic, 0, appended) == values(50)[:appended]


# ---- commits in transactions


class Commits:
    """A committer with a worker, an output topic and a changelog."""

    def __init__(self, bench: Bench, worker: Worker) -> None:
        self.worker = worker
        self.unique, self.changelog = bench.topic("unique", 1), bench.topic("changelog", 2)
        self.committer = self.another(bench)

    def another(self, bench: Bench) -> OutputCommitter:
        return bench.transactions("a", self.changelog)

    def records(self, *values: bytes) -> list[ProducerRecord]:
        """Return the same values for the output topic and for the changelog."""
        topics = self.unique, self.changelog
        return [ProducerRecord(topic, None, value, 0) for topic in topics for value in values]

    async def commit(
        self,
        value: bytes,
        offsets: Mapping[int, int],
        committer: OutputCommitter | None = None,
        checks: CommitChecks = UNCHECKED,
    ) -> dict[int, int]:
        committer = committer or self.committer
        metadata = await self.worker.member.metadata()
        return await committer.commit(self.records(value), offsets, metadata, checks=checks)


@asynccontextmanager
async def committing(bench: Bench) -> AsyncIterator[Commits]:
    commits = Commits(bench, await joined(bench))
    await commits.committer.open()
    yield commits
    await commits.committer.close()
    await commits.worker.member.close()


async def tried(commit: Callable[[], Awaitable[object]]) -> None:
    """Commit, and try again after an abort, as a worker does."""
    for _ in range(TRIES - 1):
        try:
            await commit()
        except AbortedError:
            continue
        return
    await commit()


async def test_commit_is_seen_whole(isolating: Bench) -> None:
    async with committing(isolating) as each:
        committer, worker = each.committer, each.worker
        records = [*each.records(b"1", b"2"), ProducerRecord(each.changelog, None, b"3", 1)]
        ends = await committer.commit(records, {0: 6, 2: 9}, worker.metadata, "note")
        assert ends == {0: 2, 1: 1}
        # The marker of the first transaction takes one more offset.
        assert await each.commit(b"4", {}) == {0: 4}
        assert await committer.commit([], {0: 7}, worker.metadata) == {}
        committed: dict[int, int] = {}
        while len(committed) < 3:
            committed = await worker.member.committed([0, 1, 2])
        assert committed == {0: 7, 1: -1, 2: 9}
    assert isolating.committed(each.unique, 0, 3) == [b"1", b"2", b"4"]


async def test_commit_of_another_generation_is_refused(isolating: Bench) -> None:
    async with committing(isolating) as first:
        stale = first.worker.metadata
        second = Worker(isolating, "b")
        second.member.open(second)
        await until(lambda: second.owned)
        with pytest.raises(StaleGenerationError):
            await first.committer.commit(first.records(b"stale"), {0: 7}, stale)
        await first.commit(b"fresh", {0: 8})
        await second.member.close()
        with pytest.raises(StaleGenerationError):
            await first.committer.commit(first.records(b"left"), {0: 9}, second.metadata)
    assert isolating.committed(first.unique, 0, 1) == [b"fresh"]


async def test_second_committer_of_a_name_fences_the_first(isolating: Bench) -> None:
    """If the first committer notices the fence only when it ends a transaction, it is unknown
    whether the transaction was committed.
    """
    async with committing(isolating) as each:
        first, second = each.committer, each.another(isolating)
        await each.commit(b"1", {0: 1}, first)
        await second.open()
        with pytest.raises(FencedError):
            await each.commit(b"2", {0: 2}, first)
        await each.commit(b"3", {0: 3}, second)
        await first.open()
        with pytest.raises((FencedError, UnansweredError)):
            await each.commit(b"4", {}, second)
        await each.commit(b"5", {0: 5}, first)
        await second.close()
    assert isolating.committed(each.unique, 0, 3) == [b"1", b"3", b"5"]


async def test_commit_that_fails_a_check_is_aborted(isolating: Bench) -> None:
    """What was read is checked in the first commit of a committer, what is sent in each."""
    checked: list[int] = []
    failing = ""

    def sent(ends: Mapping[int, int]) -> None:
        checked.append(ends[0])
        if failing == "sent":
            raise BrokerRefusedError("it is not committed")

    async def read() -> None:
        checked.append(-1)
        if failing == "read":
            raise BrokerRefusedError("it is not committed")

    async with committing(isolating) as each:
        for number, failing in enumerate(("sent", "read", "", "")):
            with pytest.raises(BrokerRefusedError) if failing else nullcontext():
                await each.commit(b"%d" % number, {0: number}, checks=CommitChecks(sent, read))
    assert checked == [1, 3, -1, 5, -1, 7]  # a marker takes an offset too
    assert isolating.committed(each.unique, 0, 2) == [b"2", b"3"]


async def test_commit_is_refused_after_a_failure_that_its_caller_does_not_know(
    isolating: Bench,
) -> None:
    async with committing(isolating) as each:
        for number, failures in enumerate((None, await each.committer.failures(), -1)):
            checks = CommitChecks(failures=failures)
            with pytest.raises(UnverifiedError) if failures == -1 else nullcontext():
                await each.commit(b"%d" % number, {0: number}, checks=checks)
    assert isolating.committed(each.unique, 0, 2) == [b"0", b"1"]


async def test_refused_record_aborts_a_commit(isolating: Bench) -> None:
    async with committing(isolating) as each:
        for value in TOO_LARGE:
            large = [*each.records(b"1"), ProducerRecord(each.unique, None, value, 0)]
            metadata = each.worker.metadata
            with pytest.raises(RecordTooLargeError):
                await tried(partial(each.committer.commit, large, {0: 5}, metadata))
        await tried(partial(each.commit, b"2", {0: 6}))
    assert isolating.committed(each.unique, 0, 1) == [b"2"]


# ---- a member of the group


async def test_member_reads_what_it_is_told_to(bench: Bench) -> None:
    for partition in range(3):
        bench.produce(bench.raw, partition, values(20))
    worker = Worker(bench, "a")
    worker.is_eager = False
    worker.member.open(worker)
    await until(lambda: len(worker.owned) == 3)
    await asyncio.sleep(0.3)
    assert not worker.offsets
    number = worker.read(1, 12)
    await until(lambda: len(worker.offsets[1]) == 8 and 1 in worker.fetches[-1].ended)
    assert worker.offsets == {1: list(range(12, 20))}
    assert {run.reading for fetched in worker.fetches for run in fetched.runs} == {number}
    assert all(event == "assigned" for event, _ in worker.events)
    await worker.member.close()


async def test_reading_again_drops_what_was_fetched(bench: Bench) -> None:
    bench.produce(bench.raw, 0, values(40))
    worker = Worker(bench, "a")
    worker.is_eager = False
    take, fetched = worker.fetched, asyncio.Event()
    worker.fetched = fetched.set  # type: ignore[method-assign]
    worker.member.open(worker)
    await until(lambda: 0 in worker.owned)
    worker.read(0, 0)
    await fetched.wait()
    number = worker.read(0, 30)
    worker.fetched = take  # type: ignore[method-assign]

    def again() -> list[int]:
        take()
        runs = (run for fetched in worker.fetches for run in fetched.runs)
        return [
            each.offset() or 0 for run in runs if run.reading == number for each in run.messages
        ]

    await until(lambda: len(again()) >= 10)
    assert again() == list(range(30, 40))
    await worker.member.close()


async def test_partition_that_is_stopped_or_paused_is_not_read(bench: Bench) -> None:
    worker = await joined(bench)
    bench.produce(bench.raw, 0, values(2))
    bench.produce(bench.raw, 1, values(2))
    await until(lambda: len(worker.offsets[0]) == 2 and len(worker.offsets[1]) == 2)
    worker.member.stop(0)
    worker.member.pause([1], paused=True)
    await asyncio.sleep(0.5)
    for partition in range(3):
        bench.produce(bench.raw, partition, values(3, 2))
    await until(lambda: len(worker.offsets[2]) == 3)
    await asyncio.sleep(0.3)
    assert worker.offsets[0] == worker.offsets[1] == [0, 1]
    worker.member.pause([1], paused=False)
    await until(lambda: len(worker.offsets[1]) == 5)
    worker.read(0, 3)
    await until(lambda: worker.offsets[0] == [0, 1, 3, 4])
    await worker.member.close()


async def _one_joins_another(bench: Bench) -> tuple[Worker, Worker, list[frozenset[int]]]:
    """Return two workers, and what the first one has given up to the second."""
    first, second = Worker(bench, "a"), Worker(bench, "b")
    given_up: list[frozenset[int]] = []

    async def give_up(partitions: frozenset[int]) -> None:
        assert not second.owned
        await asyncio.sleep(0.5)
        await first.member.commit({each: 40 + each for each in partitions})
        assert not second.owned
        given_up.append(partitions)

    first.on_revoke = give_up
    first.member.open(first)
    await until(lambda: len(first.owned) == 3)
    second.member.open(second)
    await until(lambda: second.owned)
    return first, second, given_up


async def test_partition_is_given_up_before_another_has_it(bench: Bench) -> None:
    first, second, given_up = await _one_joins_another(bench)
    for _ in range(3):
        if given_up:
            break
        # On a busy machine the session of the first one may end before it gives anything up.
        await first.member.close()
        await second.member.close()
        first, second, given_up = await _one_joins_another(bench)
    assert given_up == [second.owned]
    assert first.owned == {0, 1, 2} - second.owned
    offsets = {each: 40 + each if each in second.owned else -1 for each in range(3)}
    assert await second.member.committed(range(3)) == offsets
    first.on_revoke = None
    await first.member.close()
    await until(lambda: len(second.owned) == 3)
    assert first.events[-1][0] == "revoked"
    await second.member.close()


async def test_each_generation_is_announced(bench: Bench) -> None:
    first, second = Worker(bench, "a"), Worker(bench, "b")
    first.member.open(first)
    await until(lambda: len(first.owned) == 3)
    before = first.metadata
    second.member.open(second)
    await until(lambda: second.owned and len(first.owned) < 3)
    metadata = await first.member.metadata()
    await until(lambda: first.metadata == metadata)
    assert metadata != before
    await second.member.close()
    await first.member.close()


async def test_offsets_are_committed_outside_of_transactions(bench: Bench) -> None:
    worker = await joined(bench)
    await worker.member.commit({0: 4, 1: 2}, "note")
    assert await worker.member.committed([0, 1, 2]) == {0: 4, 1: 2, 2: -1}
    assert await worker.member.log_start(0) == 0
    await worker.member.close()
    with pytest.raises(FirstseenError):
        await worker.member.commit({0: 5})


async def test_offset_in_an_open_transaction_is_left_out(isolating: Bench) -> None:
    worker = await joined(isolating)
    commit = isolating.open_transaction(worker.metadata, 5)
    assert await worker.member.committed([0, 1]) == {1: -1}
    commit()
    committed: dict[int, int] = {}
    while 0 not in committed:
        committed = await worker.member.committed([0, 1])
    assert committed == {0: 5, 1: -1}
    await worker.member.close()


# ---- a group whose partitions the broker assigns


async def test_partition_that_the_broker_takes_away_is_given_up_first(assigning: Bench) -> None:
    first, second, given_up = await _one_joins_another(assigning)
    assert given_up == [second.owned]
    assert first.owned == {0, 1, 2} - second.owned
    first.on_revoke = None
    await first.member.close()
    await until(lambda: len(second.owned) == 3)
    await second.member.close()


async def test_epoch_of_a_member_that_keeps_its_partitions_rises(assigning: Bench) -> None:
    """Nothing announces that; a commit with the epoch before is refused."""
    async with committing(assigning) as each:
        worker, before = each.worker, each.worker.metadata
        worker.on_revoke = None
        others = [Worker(assigning, name) for name in "bc"]
        for other in others:
            other.member.open(other)
        await until(lambda: all(len(other.owned) == 1 for other in others))
        alone = await worker.member.metadata()
        fourth = Worker(assigning, "d")
        fourth.member.open(fourth)
        deadline = time.monotonic() + WAIT_SECONDS
        while (await worker.member.metadata()) == alone:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        moves = [name for name, partitions in worker.events if partitions]
        assert moves == ["assigned", "revoked"]
        await until(lambda: fourth.events)
        assert fourth.events == [("assigned", frozenset())]
        for stale in (before, alone):
            with pytest.raises(StaleGenerationError):
                await each.committer.commit(each.records(b"stale"), {0: 7}, stale)
        await each.commit(b"fresh", {0: 8})
        for other in (*others, fourth):
            await other.member.close()
    assert assigning.committed(each.unique, 0, 1) == [b"fresh"]


async def test_a_member_keeps_its_epoch_as_long_as_it_has_to_release_more(
    assigning: Bench,
) -> None:
    """So the broker takes offsets of what it has released; see ``GroupMember.holding``."""
    async with committing(assigning) as each:
        worker, before = each.worker, each.worker.metadata
        second, third = Worker(assigning, "b"), Worker(assigning, "c")
        revoked: list[frozenset[int]] = []
        is_committed = asyncio.Event()

        async def release(partitions: frozenset[int]) -> None:
            revoked.append(partitions)
            if len(revoked) == 1:
                third.member.open(third)
                await until(lambda: third.events)
            else:
                await is_committed.wait()

        worker.on_revoke = release
        second.member.open(second)
        await until(lambda: len(revoked) == 2 and second.owned)
        assert second.owned == revoked[0]
        offsets = dict.fromkeys(revoked[0], 7)
        await each.committer.commit(each.records(b"late"), offsets, before)
        is_committed.set()
        await until(lambda: third.owned == revoked[1])
        worker.on_revoke = None
        for other in (second, third):
            await other.member.close()
    assert assigning.committed(each.unique, 0, 1) == [b"late"]
