"""The simulated Kafka: topics, one group, transactions, and requests to them.

Each method is the work of a broker for one request; ``Network`` transports the request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.worker_simulation.assigning_coordinator import AssigningCoordinator
from tests.worker_simulation.group import (
    Committed,
    GroupCoordinator,
    GroupMetadata,
    GroupState,
)
from tests.worker_simulation.loop import EPOCH_SECONDS, SimulatedLoop
from tests.worker_simulation.network import Code, Network, RefusedError
from tests.worker_simulation.partitions import (
    EMPTY,
    Headers,
    Partition,
    PartitionState,
    Producer,
    Stored,
)
from tests.worker_simulation.transactions import (
    OFFSETS,
    CoordinatorState,
    Place,
    TransactionCoordinator,
)

_MILLISECONDS: Final = 1_000
_FETCH_SECONDS: Final = 2.0
"""How long a broker holds a fetch without records."""


class Fetch(NamedTuple):
    """``losses``: as in the response with the record before ``offset``; None: none was read."""

    place: Place
    offset: int
    losses: int | None = None


class FetchAnswer(NamedTuple):
    """The result for one partition.

    ``next``: the offset to read next, ``end``: its log's end, ``losses``: how often the partition
    has lost records.
    """

    records: list[Stored]
    next: int
    end: int
    error: Code | None = None
    losses: int = 0

    def losses_after(self, before: int | None) -> int | None:
        """Return the ``losses`` for the next fetch; ``before`` were those for this one."""
        return self.losses if self.records else before


class Append(NamedTuple):
    place: Place
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()


class ClusterState(NamedTuple):
    """What the disks of all brokers have at one moment."""

    partitions: dict[tuple[str, int], PartitionState]  # by id of the topic, and number
    transactions: CoordinatorState
    group: GroupState


@dataclass(slots=True)
class Topic:
    """One topic; ``id`` differs between topics that have this name one after the other."""

    id: str
    partitions: list[Partition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """``delay_seconds`` pass before the first generation of the group.

    ``markers_seconds`` is how long the marker of a transaction sometimes takes at most.
    ``keeps_last``: members that give partitions up give up their first ones, shard 0 among them.
    ``assigns``: the group has the protocol ``consumer``.
    ``forgets_pending``: as the coordinator of Kafka 3, if it refuses the offsets of a late request.
    """

    session_seconds: float = 6.0
    rebalance_seconds: float = 30.0
    delay_seconds: float = 0.0
    record_bytes: int = 1 << 30
    markers_seconds: float = 0.01
    slow_markers: float = 0.0
    keeps_last: bool = False
    forgets_pending: bool = False
    assigns: bool = False


class Cluster:
    def __init__(
        self,
        loop: SimulatedLoop,
        raw_topic: str,
        limits: ClusterLimits,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.loop = loop
        self._raw_topic = raw_topic
        self.limits = limits
        self.tell = tell
        self.topics: dict[str, Topic] = {}
        self.random = random.Random(loop.random.random())
        self.network = Network(loop, random.Random(loop.random.random()), tell=tell)
        self.group = (AssigningCoordinator if limits.assigns else GroupCoordinator)(self)
        self.transactions = TransactionCoordinator(self)
        self.listed: Callable[[str], None] = lambda _: None
        """Called with the name of a worker that queries the members of the group."""
        self._topic_ids = 0
        self._waiting: dict[Place, dict[asyncio.Future[None], None]] = {}

    def now_ms(self) -> int:
        return int((EPOCH_SECONDS + self.loop.time()) * _MILLISECONDS)

    # ---- topics

    def create_topic(self, name: str, partitions: int) -> Topic:
        self._topic_ids += 1
        topic = self.topics[name] = Topic(f"id-{self._topic_ids}")
        self.add_partitions(name, partitions)
        return topic

    def add_partitions(self, name: str, partitions: int) -> None:
        topic = self.topics[name]
        for number in range(len(topic.partitions), partitions):
            place = name, number
            topic.partitions.append(Partition(self.now_ms, lambda place=place: self._wake(place)))  # type: ignore[misc]

    def delete_topic(self, name: str) -> None:
        topic = self.topics.pop(name)
        if name == self._raw_topic:
            self.group.offsets.clear()
        for number in range(len(topic.partitions)):
            self._wake((name, number))

    @property
    def raw_partitions(self) -> int:
        """The number of partitions that the group can assign."""
        topic = self.topics.get(self._raw_topic)
        return 0 if topic is None else len(topic.partitions)

    def partition(self, place: Place) -> Partition:
        name, number = place
        topic = self.topics.get(name)
        if topic is None or number >= len(topic.partitions):
            raise RefusedError(Code.UNKNOWN_TOPIC)
        return topic.partitions[number]

    # ---- a loss of power

    def kept(self) -> ClusterState:
        partitions = {
            (topic.id, number): partition.kept()
            for topic in self.topics.values()
            for number, partition in enumerate(topic.partitions)
        }
        return ClusterState(partitions, self.transactions.kept(), self.group.kept())

    def put_back(self, state: ClusterState) -> None:
        """Lose all that has happened since the disks had a ``state``, which is used once.

        Partitions that were added or created again since are empty: controllers keep what they
        have written.
        """
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                partition.put_back(state.partitions.get((topic.id, number), EMPTY))
        self.transactions.put_back(state.transactions)
        self.group.put_back(state.group)
        self.network.losses += 1

    # ---- requests

    def produce(
        self,
        append: Append,
        producer: Producer,
        sequence: int,
        transactional_id: str | None = None,
    ) -> int:
        if len(append.value or b"") > self.limits.record_bytes:
            raise RefusedError(Code.RECORD_TOO_LARGE)
        partition = self.partition(append.place)
        if transactional_id is not None:
            self.transactions.verify(transactional_id, producer, append.place)
        return partition.append(
            append.key,
            append.value,
            append.timestamp_ms,
            append.headers,
            producer=producer,
            sequence=sequence,
            transactional=transactional_id is not None,
        )

    def fetch(
        self, wanted: Sequence[Fetch], limit: int, *, committed: bool
    ) -> asyncio.Future[dict[Place, FetchAnswer]]:
        """Return the readable records of partitions, as soon as there are any."""
        future: asyncio.Future[dict[Place, FetchAnswer]] = self.loop.create_future()
        answers = self._read(wanted, limit, committed=committed)
        asked = ((each.offset, answers[each.place]) for each in wanted)
        if any(each.records or each.error or each.next > offset for offset, each in asked):
            future.set_result(answers)
            return future
        news: asyncio.Future[None] = self.loop.create_future()
        for each in wanted:
            self._waiting.setdefault(each.place, {})[news] = None

        def over(_: object = None) -> None:
            timer.cancel()
            for each in wanted:
                self._waiting[each.place].pop(news, None)
            if not future.done():
                future.set_result(self._read(wanted, limit, committed=committed))

        timer = self.loop.call_later(_FETCH_SECONDS, over)
        news.add_done_callback(over)
        return future

    def read_now(self, wanted: Fetch, limit: int, *, committed: bool) -> FetchAnswer:
        return self._read([wanted], limit, committed=committed)[wanted.place]

    def _read(
        self, wanted: Sequence[Fetch], limit: int, *, committed: bool
    ) -> dict[Place, FetchAnswer]:
        answers = {}
        for place, offset, losses in wanted:
            try:
                partition = self.partition(place)
                partition.check_losses(offset, losses)
                records, following = partition.read(offset, limit, committed=committed)
                end = partition.stable_end if committed else partition.end
                answers[place] = FetchAnswer(
                    records, following, end, losses=len(partition.lost_from)
                )
            except RefusedError as error:
                answers[place] = FetchAnswer([], offset, offset, error.code)
        return answers

    def _wake(self, place: Place) -> None:
        for news in self._waiting.pop(place, ()):
            if not news.done():
                news.set_result(None)
        self._waiting[place] = {}

    def offsets(self, place: Place, *, committed: bool = False) -> tuple[int, int]:
        partition = self.partition(place)
        return partition.start, partition.stable_end if committed else partition.end

    def add_offsets(
        self,
        transactional_id: str,
        producer: Producer,
        metadata: GroupMetadata,
        offsets: Mapping[int, Committed],
    ) -> None:
        try:
            self.transactions.verify(transactional_id, producer, OFFSETS)
        except RefusedError:
            if self.limits.forgets_pending:
                self.group.forget_pending(producer.id, metadata, offsets)
            raise
        self.group.commit_in_transaction(producer.id, metadata, offsets)

    def marker_seconds(self) -> float:
        """Draw how long the next marker takes."""
        longest = self.limits.markers_seconds
        if self.random.random() >= self.limits.slow_markers:
            longest = min(longest, 0.005)
        return self.random.uniform(0.0002, longest)

    def write_marker(self, place: Place, producer: Producer, committed: bool) -> None:
        if place == OFFSETS:
            self.group.mark(producer.id, committed=committed)
            return
        topic = self.topics.get(place[0])
        if topic is not None and place[1] < len(topic.partitions):
            topic.partitions[place[1]].mark(producer, committed=committed)
