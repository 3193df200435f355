"""Simulated clients of the index: administration, changelog, and opening of stores.

``streams.store.recovery`` opens the stores on a disk in memory. They read their changelog with
``streams.store.changelog`` and a simulated consumer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import FirstseenError
from simhash_core.log.versions import UnreadableVersionError
from simhash_core.text.profiles import Profile
from streams.errors import BrokerUnavailableError, UnansweredError
from streams.kafka.clients import Consumer
from streams.monitoring.group_watch import decode_offset_metadata
from streams.monitoring.metrics import Metrics
from streams.settings.settings import Delivery, Settings
from streams.store.changelog import Changelog, LoggedBatch, RecoveryError, Report
from streams.store.changelog_codec import PROGRESS_KEY, LoggedProgress, furthest
from streams.store.lineage import Lineage
from streams.store.recovery import ShardStores
from streams.store.row_store import StoreDisk
from streams.store.shard_store import ShardStore
from streams.worker.index_on_kafka import Claim, Owned, refuse_other_identity
from tests.worker_simulation.cluster import Fetch, FetchAnswer
from tests.worker_simulation.host import Host
from tests.worker_simulation.loop import block, in_thread
from tests.worker_simulation.member import message_of
from tests.worker_simulation.network import Code, NoAnswerError, RefusedError
from tests.worker_simulation.partitions import Stored
from tests.worker_simulation.transactions import Place

_Answer = TypeVar("_Answer")

_ANSWER_SECONDS: Final = 10.0
_BATCH: Final = 20
"""The number of records of one changelog that are read at once."""


class SimulatedIndexAdmin:
    def __init__(
        self, host: Host, settings: Settings, identity: str, writer: str, reads: int
    ) -> None:
        """``reads``: the newest version of the formats that the worker's release reads."""
        self._host = host
        self._reads = reads
        self._topics = settings.topics
        self._identity = identity
        self._writer = writer
        self._has_transactions = settings.delivery is Delivery.EXACTLY_ONCE
        self._timeout_seconds = settings.session_timeout_seconds
        self._seen: set[str] = set()

    async def topic_id(self) -> str:
        return await self._ask("describe topic", self._topic_id)

    async def log_id(self) -> str:
        """Return the id without a request of its own: nobody deletes the log here."""
        return self._host.cluster.topics[self._topics.log].id

    async def partitions(self) -> int:
        return await self._ask("metadata", lambda: self._host.cluster.raw_partitions)

    async def claim(self) -> Claim | None:
        logged = await self._last_progress(0)
        if logged is None:
            return None
        progress = logged.progress
        claim = Claim(
            logged.identity,
            logged.reading,
            progress.position,
            progress.control,
            progress.clock,
        )
        refuse_other_identity(claim.identity, self._identity, "the simulated index")
        return claim

    async def lineages(self, partitions: Iterable[int]) -> dict[int, Lineage]:
        logged = {each: await self._last_progress(each) for each in partitions}
        return {partition: last.lineage for partition, last in logged.items() if last is not None}

    async def grow_changelog(self) -> None:
        """Give the changelog as many partitions as the raw topic has."""

        def grow() -> None:
            cluster = self._host.cluster
            cluster.add_partitions(self._topics.changelog, cluster.raw_partitions)

        await self._ask("create partitions", grow)

    async def members(self) -> dict[str, str]:
        def ids() -> dict[str, str]:
            self._host.cluster.listed(self._writer)
            return self._host.cluster.group.ids()

        return await self._ask("list group", ids)

    async def remember_members(self) -> None:
        self._seen |= await self._ask("list group", self._host.cluster.group.names)

    async def abort_left_open(self, partitions: Iterable[int]) -> None:
        """Abort open transactions of former owners of partitions and of members that left."""
        if not self._has_transactions:
            return
        writers = set(self._seen)
        for partition in partitions:
            logged = await self._last_progress(partition)
            if logged is not None:
                writers.add(logged.writer)
        members = await self._ask("list group", self._host.cluster.group.names)
        for writer in sorted(writers - members - {"", self._writer}):
            await self._abort(writer)
            self._seen.discard(writer)

    async def _abort(self, writer: str) -> None:
        transactions = self._host.cluster.transactions
        deadline = self._host.loop.time() + _ANSWER_SECONDS
        while self._host.loop.time() < deadline:
            try:
                await self._ask("abort", lambda: transactions.init(writer, self._timeout_seconds))
            except RefusedError:
                await asyncio.sleep(0.01)
            else:
                return
        raise UnansweredError(f"cannot abort the transaction of {writer}")

    async def delete_before(self, offset: int) -> None:
        place = self._topics.log, 0
        cluster = self._host.cluster
        cluster.tell(f"{self._host.name} deletes the log before {offset}")
        await self._ask("delete records", lambda: cluster.partition(place).trim(offset))

    def _topic_id(self) -> str:
        topic = self._host.cluster.topics.get(self._topics.raw)
        if topic is None:
            raise NoAnswerError("there is no such topic")
        return topic.id

    async def _last_progress(self, partition: int) -> LoggedProgress | None:
        def committed() -> list[Stored]:
            changelog = self._host.cluster.topics[self._topics.changelog]
            if partition >= len(changelog.partitions):
                raise RecoveryError(f"cannot read {self._topics.changelog}/{partition}: unknown")
            return changelog.partitions[partition].read_committed()

        records = await self._ask("read claim", committed)
        refuse_newer([each.value for each in records], self._reads)
        return last_progress(records)

    async def _ask(self, name: str, work: Callable[[], _Answer]) -> _Answer:
        try:
            return await self._host.in_client(self._host.ask_until(name, work, _ANSWER_SECONDS))
        except NoAnswerError as error:
            raise UnansweredError(f"no answer: {error}") from error


def refuse_newer(values: Iterable[bytes | None], reads: int) -> None:
    """Refuse changelog records like the release before."""
    for value in values:
        if value and value[0] > reads:
            raise UnreadableVersionError("a record of the changelog", value[0], reads)


def last_progress(records: Iterable[Stored]) -> LoggedProgress | None:
    return furthest(None, logged_progress(records))


def logged_batch(records: Sequence[Stored], name: str) -> LoggedBatch:
    return LoggedBatch(
        [each.key for each in records],
        [each.value for each in records],
        [each.offset for each in records],
        records[-1].timestamp_ms,
        name,
    )


def logged_progress(records: Iterable[Stored]) -> list[LoggedProgress]:
    kept = [record for record in records if record.key == PROGRESS_KEY]
    return list(logged_batch(kept, "changelog").decoded().progress) if kept else []


class _Interruption:
    """A ``threading.Event`` that waits in virtual time."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        block(seconds)
        return self._event.is_set()


class _Consumer:
    """A consumer of one partition, in a thread; each read takes the seconds of ``slowness``."""

    def __init__(self, host: Host, slowness: Callable[[], float], *, committed: bool) -> None:
        self._host = host
        self._slowness = slowness
        self._committed = committed
        self._place: Place = ("", 0)
        self._next = 0
        self._losses: int | None = None

    def get_watermark_offsets(
        self,
        partition: TopicPartition,
        timeout: float,
        cached: bool,  # noqa: ARG002 - of a Consumer
    ) -> tuple[int, int]:
        place = partition.topic, partition.partition
        return self._ask(
            lambda: self._host.cluster.offsets(place, committed=self._committed), timeout
        )

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._place = partitions[0].topic, partitions[0].partition
        self._next, self._losses = partitions[0].offset, None

    def consume(self, number: int, seconds: float) -> list[Message]:
        left = self._slowness()
        block(max(left, 0.0005))
        wanted = Fetch(self._place, self._next, self._losses)
        try:
            answer = self._ask(
                lambda: self._host.cluster.read_now(
                    wanted, min(number, _BATCH), committed=self._committed
                ),
                seconds,
            )
        except KafkaException:
            return []
        if answer.error is Code.OFFSET_OUT_OF_RANGE:
            return [Message(error=KafkaError(KafkaError._AUTO_OFFSET_RESET))]
        self._next, self._losses = answer.next, answer.losses_after(self._losses)
        messages = [message_of(self._place, stored) for stored in answer.records]
        if answer.next >= answer.end:
            end = KafkaError(KafkaError._PARTITION_EOF)
            messages.append(Message(error=end, offset=answer.next))
            if not answer.records:
                block(seconds)
        return messages

    def close(self) -> None:
        pass

    def _ask(self, work: Callable[[], _Answer], timeout: float) -> _Answer:
        network = self._host.cluster.network
        deadline = self._host.loop.time() + timeout
        while True:
            block(network.random.uniform(0.0005, 0.005))
            if network.reaches(self._host.machine):
                try:
                    return work()
                except RefusedError:
                    pass
            if self._host.loop.time() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            block(0.1)


class _Changelog(Changelog):
    """A changelog that is read with a simulated consumer."""

    def read(
        self,
        start: int,
        report: Report,
        lacks: Callable[[], str] = str,
        *,
        waits: bool = False,
    ) -> Iterator[LoggedBatch]:
        for batch in super().read(start, report, lacks, waits=waits):
            refuse_newer(batch.values, self.config["reads"])
            yield batch

    @contextmanager
    def consumer(self, isolation: str = "read_committed") -> Iterator[Consumer]:
        host, slowness = self.config["host"], self.config["slowness"]
        consumer = _Consumer(host, slowness, committed=isolation == "read_committed")
        yield cast(Consumer, consumer)


class SimulatedStores(ShardStores):
    """A ``StoreOpener`` on a disk in memory.

    ``slowness`` draws how many seconds each read of a changelog takes.
    """

    def __init__(
        self,
        host: Host,
        settings: Settings,
        identity: str,
        profile: Profile,
        metrics: Metrics,
        disk: StoreDisk,
        slowness: Callable[[], float],
        reads: int,
    ) -> None:
        self._host = host
        changelog_id = host.cluster.topics[settings.topics.changelog].id
        config = {"host": host, "slowness": slowness, "reads": reads}
        super().__init__(settings, config, identity, changelog_id, metrics, disk)
        self._profile = profile

    def _changelog(self, partition: int, interrupted: threading.Event) -> Changelog:
        settings = self._settings
        return _Changelog(
            settings.topics.changelog,
            partition,
            self._config,
            settings.send_timeout_seconds,
            cast(threading.Event, _Interruption(interrupted)),
            may_be_cut=self._may_be_cut,
            may_go_back=not self._has_transactions,
        )

    def open(self, partition: int, committed_next: int, interrupted: threading.Event) -> ShardStore:
        """Open a store; closing it takes some time in a thread."""
        store = super().open(partition, committed_next, interrupted)
        close, draw = store.close, self._host.cluster.network.random

        def close_slowly() -> None:
            if in_thread():
                block(draw.uniform(0.0, 0.5))
            close()

        store.close = close_slowly  # type: ignore[method-assign]
        return store

    def measure(self) -> None:
        """Do nothing: RocksDB has no figures here."""


Deliver = Callable[[int, LoggedBatch], Awaitable[None]]


class SimulatedFollower:
    """A ``ChangelogClient`` on the simulated cluster."""

    def __init__(self, host: Host, topic: str, deliver: Deliver) -> None:
        self._host = host
        self._topic = topic
        self._deliver = deliver
        self._next: dict[int, int] = {}
        self._number: dict[int, int] = {}
        self._follows = 0
        self._news = asyncio.Event()
        self._closed = False
        self._done: dict[int, int] = {}

    def begin(self, failed: Callable[[FirstseenError], object]) -> None:
        del failed  # nothing ends the client
        self._host.start(self._read())

    async def close(self) -> None:
        self._closed = True
        self._next.clear()
        self._news.set()

    def follow(self, partition: int, offset: int) -> None:
        self._follows += 1
        self._number[partition] = self._follows
        self._next[partition] = self._done[partition] = offset
        self._news.set()

    def leave(self, partition: int) -> None:
        self._next.pop(partition, None)
        self._number.pop(partition, None)

    async def end(self, partition: int, seconds: float) -> int:
        _, end = await self._host.offsets((self._topic, partition), seconds, committed=True)
        return end

    async def reach(self, partition: int, offset: int, seconds: float) -> bool:
        deadline = self._host.loop.time() + seconds
        while self._done.get(partition, offset) < offset:
            if partition not in self._number or self._host.loop.time() > deadline:
                return False
            await asyncio.sleep(0.01)
        return True

    @property
    def lag(self) -> int:
        """The number of committed records that are not read yet."""
        return 0

    async def _read(self) -> None:
        while not self._closed:
            if not self._next:
                self._news.clear()
                await self._news.wait()
                continue
            self._news.clear()
            numbers = dict(self._number)
            wanted = [Fetch((self._topic, p), offset) for p, offset in self._next.items()]
            try:
                fetch = partial(self._host.cluster.fetch, wanted, 50, committed=True)
                answers = await self._host.ask("follow", fetch, 5.0)
            except NoAnswerError:
                await self._host.pause()
                continue
            for (_, partition), answer in answers.items():
                if self._number.get(partition) != numbers[partition] or answer.error:
                    continue
                self._next[partition] = answer.next
                await self._host.in_program(partial(self._delivery, partition, answer))

    def _delivery(self, partition: int, answer: FetchAnswer) -> Coroutine[Any, Any, None]:
        number = self._number.get(partition)

        async def deliver() -> None:
            if answer.records:
                batch = logged_batch(answer.records, f"{self._topic}/{partition}")
                await self._deliver(partition, batch)
            if self._number.get(partition) == number:
                self._done[partition] = answer.next

        return deliver()


def owners_of(host: Host, settings: Settings, writer: str) -> Owned | None:
    """Return who owns which shards, as ``GroupOwners`` finds it; this blocks, in a thread."""
    block(host.cluster.network.random.uniform(0.001, 0.05))
    if not host.cluster.network.reaches(host.machine):
        raise BrokerUnavailableError("the other workers of the group are unknown")
    group = host.cluster.group
    if settings.delivery is Delivery.EXACTLY_ONCE:
        return group.owned()
    owned: dict[str, set[int]] = {writer: set()}
    for partition, committed in group.offsets.items():
        if (note := decode_offset_metadata(committed.note)) is not None:
            owned.setdefault(note.worker, set()).add(partition)
    return {name: frozenset(partitions) for name, partitions in owned.items()}
