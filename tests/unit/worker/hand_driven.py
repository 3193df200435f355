"""A whole worker on clients that a test drives by hand, without network; only stores have threads.

Appended and committed records are in lists of a ``Broker``. A test can hold each client or make it
fail. The worker is real, and has real stores on a disk in memory.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter, defaultdict, deque
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import fields
from pathlib import Path
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any, cast

import pytest
from confluent_kafka import Message
from prometheus_client import CollectorRegistry

from simhash_core.errors import FirstseenError
from simhash_core.index.look_up import Nearness
from simhash_core.log.participant import Participant
from simhash_core.log.records import Bundle, LogRecord, Packet
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.verdicts import Rejection
from streams.kafka.clients import RawOffset
from streams.kafka.errors import AbortedError, UnverifiedError
from streams.kafka.log_reader import LogRecords
from streams.kafka.producers import UNCHECKED, CommitChecks, ProducerRecord
from streams.kafka.raw_consumer import Fetched, GroupEvents, RawRecords, message_bytes
from streams.monitoring.metrics import Metrics
from streams.settings.settings import IntakeSettings, Settings
from streams.store.changelog import Changelog, LoggedBatch, Report
from streams.store.changelog_codec import PROGRESS_KEY, LoggedProgress
from streams.store.lineage import Lineage
from streams.store.recovery import Recovery, catch_up
from streams.store.row_codec import StoreIdentity
from streams.store.row_store import StoreCorruptError
from streams.store.shard_directory import open_shard
from streams.store.shard_store import ShardStore
from streams.worker.clients import Deliver, WorkerClients
from streams.worker.context import Observers, WorkerContext
from streams.worker.fingerprint import PendingRecord
from streams.worker.index_on_kafka import Claim
from streams.worker.log_codec import LogCodec
from streams.worker.outputs import OutputRules
from streams.worker.pipeline import Pipeline
from streams.worker.shard import Shard
from tests.rigs.async_tests import WAIT_SECONDS, until
from tests.rigs.memory_rows import MemoryDisk

SETTINGS = Settings(
    application_id="hand-driven",
    profile="classic",
    state_dir=Path("/hand-driven"),
    intake=IntakeSettings(idle_ms=0),
)
TOPICS = SETTINGS.topics
FINGERPRINTER = Fingerprinter(SETTINGS.index_profile())
WRITER = "hand-driven.worker"
RULES = OutputRules(
    FINGERPRINTER.identity, "the rules", WRITER, 64, TOPICS, include_body=False, application="app"
)
START_MS = 1_700_000_000_000
_FOLLOWED_SECONDS = 0.002


def text(number: int) -> str:
    """Return a text that is not near to any other."""
    rng = random.Random(number)
    return " ".join("".join(rng.choices(ascii_lowercase, k=6)) for _ in range(40))


async def turns(count: int = 50) -> None:
    """Give the event loop ``count`` turns, so that tasks run until they wait for the test."""
    for _ in range(count):
        await asyncio.sleep(0)


class Broker:
    """The appended and the committed records."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, int]] = []
        self.reports: list[tuple[bytes, int]] = []
        self.changelog: defaultdict[int, list[tuple[bytes | None, bytes | None]]]
        self.changelog = defaultdict(list)
        self.offsets: dict[int, int] = {}
        self.outputs: list[ProducerRecord] = []
        self.unstable: set[int] = set()

    def records(self) -> list[LogRecord]:
        codec = LogCodec(FINGERPRINTER.identity)
        return [codec.decode(value, f"log@{at}") for at, (value, _) in enumerate(self.log)]

    def logged(self, partition: int) -> list[LoggedProgress]:
        batches = [
            LoggedBatch([key], [value], [at], 0, "changelog")
            for at, (key, value) in enumerate(self.changelog[partition])
            if key == PROGRESS_KEY
        ]
        return [progress for each in batches for progress in each.decoded().progress]

    def commit(
        self, records: Sequence[ProducerRecord], offsets: Mapping[int, int]
    ) -> dict[int, int]:
        ends = self.ends(records)
        for each in records:
            if each.topic == TOPICS.changelog:
                assert each.partition is not None
                self.changelog[each.partition].append((each.key, each.value))
            else:
                self.outputs.append(each)
        self.offsets |= offsets
        return ends

    def ends(self, records: Sequence[ProducerRecord]) -> dict[int, int]:
        """Return where the changelog ends after these records, by partition."""
        counts = Counter(each.partition for each in records if each.topic == TOPICS.changelog)
        return {p: len(self.changelog[p]) + n for p, n in counts.items() if p is not None}

    def packets(self, partition: int) -> list[Packet]:
        bundles = [each for each in self.records() if isinstance(each, Bundle)]
        found = [packet for each in bundles for packet in each.packets()]
        return [each for each in found if each.chain.partition == partition]


class Reader:
    """A ``PartitionReader`` of a list; if ``is_held``, it returns nothing."""

    def __init__(self, records: list[tuple[bytes, int]]) -> None:
        self.records = records
        self.is_held = False
        self.error: FirstseenError | None = None
        self._next: int | None = None
        self._epoch = 0
        self._filled: Callable[[], object] = lambda: None

    def open(
        self,
        filled: Callable[[], object],
        failed: Callable[[FirstseenError], object],  # noqa: ARG002 - nothing ends it
    ) -> None:
        self._filled = filled

    async def close(self) -> None:
        self._next = None

    def append(self, value: bytes) -> int:
        self.records.append((value, START_MS + len(self.records)))
        self._filled()
        return len(self.records) - 1

    def release(self) -> None:
        self.is_held = False
        self._filled()

    def seek(self, offset: int) -> None:
        self._next = offset
        self._epoch += 1
        self._filled()

    def take(self) -> LogRecords | None:
        if self.is_held or self._next is None or self._next >= len(self.records):
            return None
        first, self._next = self._next, len(self.records)
        records = [(first + at, *each) for at, each in enumerate(self.records[first:])]
        return LogRecords(self._epoch, records)

    async def offsets(self) -> tuple[int, int]:
        if self.error is not None:
            raise self.error
        return 0, len(self.records)


class Appender:
    """A ``RecordAppender``; it acknowledges records of the topics ``dropped``, but loses them.

    ``errors`` has the errors of the next appends to a topic, although the broker has the records.
    """

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._readers = readers
        self.dropped: set[str] = set()
        self.errors: defaultdict[str, deque[FirstseenError]] = defaultdict(deque)
        self.appended: list[str] = []

    def open(self) -> None: ...
    async def close(self) -> None: ...
    def append(self, topic: str, value: bytes) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.appended.append(topic)
        reader = self._readers[topic]
        is_dropped = topic in self.dropped
        offset = len(reader.records) if is_dropped else reader.append(value)
        if self.errors[topic]:
            future.set_exception(self.errors[topic].popleft())
        else:
            future.set_result(offset)
        return future


class Member:
    """A ``GroupMember``; ``generation`` is the current group metadata."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._events: GroupEvents | None = None
        self._fetched: deque[Fetched] = deque()
        self.is_closed = False
        self.generation = b"generation 1"
        self.reads: list[tuple[int, int, int]] = []
        self.stopped: list[int] = []
        self.paused: set[int] = set()
        self.error: FirstseenError | None = None

    def open(self, events: GroupEvents) -> None:
        self._events = events

    async def close(self) -> None:
        self.is_closed = True

    def read(self, partition: int, offset: RawOffset, reading: int) -> None:
        self.reads.append((partition, offset.next, reading))

    def stop(self, partition: int) -> None:
        self.stopped.append(partition)

    def pause(self, partitions: Iterable[int], *, paused: bool) -> None:
        (self.paused.update if paused else self.paused.difference_update)(partitions)

    def put(
        self,
        *runs: RawRecords,
        ended: Iterable[int] = (),
        empty: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._fetched.append(Fetched(list(runs), frozenset(ended), empty))
        if self._events is not None:
            self._events.fetched()

    def take(self) -> Fetched | None:
        return self._fetched.popleft() if self._fetched else None

    def gather(self, seconds: float) -> None: ...
    def holding(self) -> Callable[[], bool]:
        return lambda: True

    async def metadata(self) -> bytes:
        return self.generation

    async def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        if self.error is not None:
            raise self.error
        stable = set(partitions) - self._broker.unstable
        return {partition: self._broker.offsets.get(partition, -1) for partition in stable}

    async def commit(self, offsets: Mapping[int, int], note: str = "") -> None:  # noqa: ARG002
        self._broker.offsets |= offsets

    async def log_start(self, partition: int) -> int:  # noqa: ARG002 - as of each
        return 0


class Commit:
    """One call of the committer: it waits for ``go``, and then fails with ``error``, if any.

    If ``is_done``, the broker commits it, even if the worker gets an error.
    """

    def __init__(
        self, error: FirstseenError | None = None, *, is_held: bool = False, is_done: bool = False
    ) -> None:
        self.error = error
        self.is_done = is_done or error is None
        self.go = asyncio.Event()
        self.began = asyncio.Event()
        if not is_held:
            self.go.set()


class Committer:
    """An ``OutputCommitter``, which commits all or nothing; ``script`` has the next commits."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.script: deque[Commit] = deque()
        self.calls: list[tuple[list[int], bytes]] = []
        self.failed = 0
        self.records_max = 1 << 20  # a transaction with more takes too long

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def failures(self) -> int:
        return self.failed

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,
        note: str = "",  # noqa: ARG002
        ends: Mapping[int, int] = MappingProxyType({}),  # noqa: ARG002 - the broker fences
        checks: CommitChecks = UNCHECKED,
    ) -> dict[int, int]:
        changed = {each.partition for each in records if each.topic == TOPICS.changelog}
        assert changed == offsets.keys(), "a commit must have the offsets of each shard in it"
        assert offsets, "a commit must have offsets"
        if checks.failures is not None and self.failed > checks.failures:
            raise UnverifiedError("a connection has failed")
        if len(records) > self.records_max:
            raise AbortedError("it took too long")
        self.calls.append((sorted(offsets), group_metadata))
        step = self.script.popleft() if self.script else Commit()
        self._broker.unstable |= offsets.keys()
        step.began.set()
        await step.go.wait()
        try:
            checks.sent(self._broker.ends(records))
            await checks.read()
        finally:
            self._broker.unstable -= offsets.keys()
        sent = self._broker.commit(records, offsets) if step.is_done else {}
        if step.error is not None:
            raise step.error
        return sent


class Index:
    """An ``IndexAdmin``; each request raises ``error``, if any."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.error: FirstseenError | None = None
        self.foreign_claim: Claim | None = None
        self.writers = {RULES.writer}  # the members of the group
        self.log = "log-id"
        self.has_grown = False

    async def topic_id(self) -> str:
        if self.error is not None:
            raise self.error
        return "raw-id"

    async def log_id(self) -> str:
        return self.log

    async def partitions(self) -> int:
        return 4

    async def claim(self) -> Claim | None:
        """Return the last progress of shard 0, or that of a worker outside of this process."""
        logged = self._broker.logged(0)
        if not logged:
            return self.foreign_claim
        progress = logged[-1].progress
        place = progress.position, progress.control
        return Claim(logged[-1].identity, logged[-1].reading, *place, clock=progress.clock)

    async def lineages(self, partitions: Iterable[int]) -> dict[int, Lineage]:
        logged = {each: self._broker.logged(each) for each in partitions}
        return {partition: each[-1].lineage for partition, each in logged.items() if each}

    async def grow_changelog(self) -> None:
        await asyncio.sleep(0)
        self.has_grown = True

    async def remember_members(self) -> None: ...
    async def members(self) -> dict[str, str]:
        return dict.fromkeys(self.writers, "")

    async def abort_left_open(self, partitions: Iterable[int]) -> None:  # noqa: ARG002
        assert self.has_grown, "the changelog may lack a partition that is to be read"

    async def delete_before(self, offset: int) -> None: ...


class _ListedChangelog:
    may_be_cut = may_go_back = False

    def __init__(self, records: list[tuple[bytes | None, bytes | None]], partition: int) -> None:
        self._records = records
        self._name = f"changelog/{partition}"

    def read(
        self,
        start: int,
        _: Report,
        lacks: Callable[[], str] = str,
        *,
        waits: bool = False,  # noqa: ARG002 - every record can be read
    ) -> Iterator[LoggedBatch]:
        for at, (key, value) in enumerate(self._records[start:], start):
            yield LoggedBatch([key], [value], [at], START_MS, self._name)
        assert not lacks(), f"{self._name} is behind the group: {lacks()}"


class Stores:
    """A ``StoreOpener`` on a disk in memory, which refuses to open a store twice.

    Openings of a shard wait for its gate in ``gates``. ``errors`` has the errors of its next
    openings. If ``is_deaf``, an interrupted opening still completes.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._disk = MemoryDisk()
        self.gates: dict[int, threading.Event] = {}
        self.errors: defaultdict[int, deque[FirstseenError]] = defaultdict(deque)
        self.is_deaf = False
        self.begun: list[int] = []

    def open(self, partition: int, committed_next: int, interrupted: threading.Event) -> ShardStore:
        self.begun.append(partition)
        if (gate := self.gates.get(partition)) is not None:
            assert gate.wait(WAIT_SECONDS), "nobody opens the gate"
        if interrupted.is_set() and not self.is_deaf:
            raise InterruptedError
        if self.errors[partition]:
            raise self.errors[partition].popleft()
        path = Path(f"/hand-driven/shard-{partition}")
        identity = StoreIdentity(FINGERPRINTER.identity, "hand-driven", partition)
        try:
            store = open_shard(path, identity, 64, self._disk)
        except StoreCorruptError:
            self._disk.discard(path)
            store = open_shard(path, identity, 64, self._disk)
        listed = _ListedChangelog(self._broker.changelog[partition], partition)
        log = cast(Changelog, listed)
        catch_up(store, log, FINGERPRINTER.identity, committed_next, lambda _: None)
        return store

    def measure(self) -> None: ...
    def recoveries(self) -> Mapping[int, Recovery]:
        return {}


class Channel(asyncio.Queue[object]):
    async def send(self, *, value: object) -> None:
        await self.put(value)


class _Observer:
    def note(self, outputs: Sequence[PendingRecord], now_ms: int) -> None: ...
    def note_rejections(self, rejections: Sequence[Rejection], now_ms: int) -> None: ...


class Follower:
    """A ``ChangelogClient``, which looks for news every few milliseconds."""

    def __init__(self, broker: Broker, deliver: Deliver) -> None:
        self._broker = broker
        self._deliver = deliver
        self._next: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None
        self.lag = 0

    def begin(self, failed: Callable[[FirstseenError], object]) -> None:  # noqa: ARG002
        self._task = asyncio.ensure_future(self._read())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def follow(self, partition: int, offset: int) -> None:
        self._next[partition] = offset

    def leave(self, partition: int) -> None:
        self._next.pop(partition, None)

    async def end(self, partition: int, seconds: float) -> int:  # noqa: ARG002
        return len(self._broker.changelog[partition])

    async def reach(self, partition: int, offset: int, seconds: float) -> bool:  # noqa: ARG002
        await until(lambda: self._next.get(partition, offset) >= offset)
        return partition in self._next

    async def _read(self) -> None:
        while True:
            for partition, first in self._next.copy().items():
                records = self._broker.changelog[partition][first:]
                for at, (key, value) in enumerate(records, first):
                    name = f"changelog/{partition}"
                    batch = LoggedBatch([key], [value], [at], START_MS, name)
                    await self._deliver(partition, batch)
                    if partition in self._next:
                        self._next[partition] = at + 1
            await asyncio.sleep(_FOLLOWED_SECONDS)


def context_of(
    participant: Participant[PendingRecord] | None = None,
    settings: Settings = SETTINGS,
    **clients: object,
) -> WorkerContext:
    """Return the context of one part of a worker, with only these clients."""
    absent = dict.fromkeys(each.name for each in fields(WorkerClients))
    return WorkerContext(
        settings,
        RULES,
        WorkerClients(**cast(Any, absent | clients)),
        Observers(Metrics(CollectorRegistry()), _Observer(), lambda _: None),
        participant or Participant(WRITER, Nearness.of(FINGERPRINTER.profile)),
        LogCodec(FINGERPRINTER.identity),
        lambda error: pytest.fail(str(error)),
    )


class HandDriven:
    """A worker; ``failures`` has the errors that ended it, ``sent`` documents by raw partition."""

    def __init__(self, broker: Broker | None = None) -> None:
        self.broker = broker or Broker()
        self.log, self.reports = Reader(self.broker.log), Reader(self.broker.reports)
        self.appender = Appender({TOPICS.log: self.log, TOPICS.reports: self.reports})
        self.member = Member(self.broker)
        self.committer = Committer(self.broker)
        self.index = Index(self.broker)
        self.stores = Stores(self.broker)
        self.registry = CollectorRegistry()
        self.failures: list[BaseException] = []
        self.sent: defaultdict[int, int] = defaultdict(int)
        self._channels = [Channel(1) for _ in range(4)]
        self.pipeline = Pipeline(
            SETTINGS,
            FINGERPRINTER,
            RULES,
            Observers(Metrics(self.registry), _Observer(), lambda _: None),
            WorkerClients(
                self.member,
                self.log,
                self.reports,
                self.appender,
                self.committer,
                self.index,
                self.stores,
                lambda deliver: Follower(self.broker, deliver),
                lambda: None,
            ),
            self._channels,
            self.failures.append,
        )

    @property
    def shards(self) -> Mapping[int, Shard]:
        return self.pipeline.shards

    def assign(self, *partitions: int) -> None:
        """Let the group assign partitions, in the current generation."""
        self.pipeline.assigned(frozenset(partitions), self.member.generation)

    def revoke(self, *partitions: int) -> asyncio.Future[None]:
        """Let the group revoke partitions; the result is done when the worker releases them."""
        given_up = self.pipeline.revoked(frozenset(partitions), self.member.generation)
        return asyncio.ensure_future(given_up)

    async def open(self, *partitions: int) -> None:
        self.assign(*partitions)
        await until(lambda: all(self.is_open(each) for each in partitions))

    def is_open(self, partition: int) -> bool:
        shard = self.shards.get(partition)
        return shard is not None and shard.is_open

    def send(self, partition: int, *texts: str) -> None:
        """Produce documents to a raw partition; they are fetched when the shard is read.

        The id of each document is its partition and offset, such as ``1@7``.
        """
        first = self.sent[partition]
        self.sent[partition] += len(texts)
        self.fetch(partition, first, texts)

    async def output(self, partition: int, *texts: str) -> None:
        """Produce documents, and wait until each document that was sent is output once."""
        self.send(partition, *texts)
        await until(lambda: len(self.outputs) == sum(self.sent.values()))

    async def kept(self, partition: int) -> ShardStore:
        """Output a document, ``text(1)``, and let the group revoke its shard; return its store."""
        await self.output(partition, text(1))
        store = self.shards[partition].store
        assert store is not None
        await self.revoke(partition)
        return store

    async def failure(self) -> BaseException:
        """Wait for the only failure of the worker, and take it."""
        await until(lambda: self.failures)
        (failure,) = self.failures
        self.failures.clear()
        return failure

    def fetch(self, partition: int, first: int, texts: Sequence[str]) -> None:
        self.member.put(self.records(partition, first, texts), ended=[partition])

    def records(self, partition: int, first: int, texts: Sequence[str]) -> RawRecords:
        messages = [
            Message(
                topic=TOPICS.raw,
                partition=partition,
                offset=at,
                key=b"%d@%d" % (partition, at),
                value=json.dumps({"id": f"{partition}@{at}", "text": text}).encode(),
                timestamp=(1, START_MS + at),
                headers=[],
            )
            for at, text in enumerate(texts, first)
        ]
        reading = self.shards[partition].number
        return RawRecords(partition, reading, messages, sum(map(message_bytes, messages)))

    @property
    def outputs(self) -> list[tuple[str, str]]:
        return [(each.topic, (each.key or b"").decode()) for each in self.broker.outputs]

    @property
    def reports_appended(self) -> int:
        return self.appender.appended.count(TOPICS.reports)

    def hold_commit(self, error: FirstseenError | None = None) -> Commit:
        """Let the next commit wait for its ``go``, and then fail with the error, if any."""
        held = Commit(error, is_held=True)
        self.committer.script.append(held)
        return held

    async def _run(self, channel: Channel, stage: Callable[[], Awaitable[None]]) -> None:
        while True:
            await channel.get()
            try:
                await stage()
            except Exception as error:  # noqa: BLE001 - it ends the worker, whatever it is
                self.failures.append(error)
                return

    async def start(self) -> None:
        pipeline = self.pipeline
        stages = (pipeline.fingerprint, pipeline.look_up, pipeline.decide, pipeline.commit)
        self._tasks = [
            asyncio.ensure_future(self._run(channel, stage))
            for channel, stage in zip(self._channels, stages, strict=True)
        ]
        await pipeline.open()

    async def stop(self) -> None:
        """End the worker; it must not have failed, unless the test took its failures."""
        for gate in self.stores.gates.values():
            gate.set()
        for step in self.committer.script:
            step.go.set()
        await asyncio.wait_for(self.pipeline.close(), WAIT_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        assert self.failures == []
