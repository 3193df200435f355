"""The coordinator of transactions: producer ids and epochs, time-outs, two-phase commits.

The end of a transaction is decided at once. Its markers are written later, partition by partition,
and its producer cannot continue before the last one is written. A producer keeps its epoch, because
librdkafka does not support version 2 of transactions (KIP-890). So if a request of one transaction
arrives during the next one, the coordinator cannot tell them apart.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from tests.worker_simulation.network import Code, RefusedError
from tests.worker_simulation.partitions import Producer

if TYPE_CHECKING:
    from tests.worker_simulation.cluster import Cluster

OFFSETS: Final = ("__consumer_offsets", 0)
"""The partition with the group's offsets."""

Place = tuple[str, int]


class State(Enum):
    EMPTY = auto()
    ONGOING = auto()
    COMMITTING = auto()
    ABORTING = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True)
class _Known:
    """``is_lost``: with the power of its broker."""

    producer: Producer
    timeout_seconds: float
    state: State = State.EMPTY
    places: dict[Place, None] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None
    fencing: bool = False
    is_lost: bool = False


CoordinatorState = dict[str, _Known]


class TransactionCoordinator:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._later = cluster.loop.call_later
        self._tell = cluster.tell
        self._ids: dict[str, _Known] = {}
        self._producers = 0

    def new_producer(self) -> Producer:
        self._producers += 1
        return Producer(self._producers, 0)

    def init(self, transactional_id: str, timeout_seconds: float) -> Producer:
        """Renew a producer: its earlier epochs are refused, and its open transaction is aborted."""
        known = self._ids.get(transactional_id)
        if known is None:
            known = self._ids[transactional_id] = _Known(self.new_producer(), timeout_seconds)
            return known.producer
        if known.state is State.ONGOING:
            if not known.fencing:
                known.fencing = True
                self._bump(known)
                self._end(known, committed=False)
            raise RefusedError(Code.CONCURRENT_TRANSACTIONS)
        if known.state in {State.COMMITTING, State.ABORTING}:
            raise RefusedError(Code.CONCURRENT_TRANSACTIONS)
        known.timeout_seconds = timeout_seconds
        known.state = State.EMPTY
        known.fencing = False
        self._bump(known)
        return known.producer

    def add(self, transactional_id: str, producer: Producer, places: list[Place]) -> None:
        """Add partitions to the transaction; the first ones begin it."""
        known = self._of(transactional_id, producer)
        if known.state in {State.COMMITTING, State.ABORTING}:
            raise RefusedError(Code.CONCURRENT_TRANSACTIONS)
        if known.state is not State.ONGOING:
            known.state = State.ONGOING
            known.places.clear()
            self._limit(transactional_id, known)
        known.places.update(dict.fromkeys(places))

    def verify(self, transactional_id: str, producer: Producer, place: Place) -> None:
        """Refuse a record whose partition is not part of an open transaction."""
        known = self._of(transactional_id, producer)
        if known.state is not State.ONGOING or place not in known.places:
            raise RefusedError(Code.INVALID_TXN_STATE)

    def end(self, transactional_id: str, producer: Producer, *, committed: bool) -> None:
        known = self._of(transactional_id, producer)
        if known.state is State.ONGOING:
            self._tell(f"{transactional_id} {'commits' if committed else 'aborts'}")
            self._end(known, committed=committed)
            return
        done, under_way = (
            (State.COMMITTED, State.COMMITTING) if committed else (State.ABORTED, State.ABORTING)
        )
        if known.state is under_way:
            raise RefusedError(Code.CONCURRENT_TRANSACTIONS)
        if known.state is not done:
            raise RefusedError(Code.INVALID_TXN_STATE)

    # ---- a loss of power

    @property
    def is_any_open(self) -> bool:
        return any(each.state is State.ONGOING for each in self._ids.values())

    def kept(self) -> CoordinatorState:
        return {
            transactional_id: replace(each, places=dict(each.places), timer=None)
            for transactional_id, each in self._ids.items()
        }

    def put_back(self, state: CoordinatorState) -> None:
        """Lose all that has happened since the disk had a ``state``, which is used once.

        Transactions that were open then are open again, and ends that were decided get all their
        markers, some of them again. The ids of producers are never used twice.
        """
        for each in self._ids.values():
            each.is_lost = True
            if each.timer is not None:
                each.timer.cancel()
        self._ids = dict(state)
        for transactional_id, known in self._ids.items():
            if known.state is State.ONGOING:
                self._limit(transactional_id, known)
            elif known.state in {State.COMMITTING, State.ABORTING}:
                self._end(known, committed=known.state is State.COMMITTING)

    def _limit(self, transactional_id: str, known: _Known) -> None:
        known.timer = self._later(
            known.timeout_seconds, lambda: self._time_out(transactional_id, known)
        )

    def _of(self, transactional_id: str, producer: Producer) -> _Known:
        known = self._ids.get(transactional_id)
        if known is None or known.producer.id != producer.id:
            raise RefusedError(Code.PRODUCER_FENCED)
        if known.producer.epoch != producer.epoch:
            raise RefusedError(Code.PRODUCER_FENCED)
        return known

    def _bump(self, known: _Known) -> None:
        known.producer = Producer(known.producer.id, known.producer.epoch + 1)

    def _time_out(self, transactional_id: str, known: _Known) -> None:
        if known.state is State.ONGOING and self._cluster.network.away:
            known.timer = self._later(1.0, lambda: self._time_out(transactional_id, known))
        elif known.state is State.ONGOING:
            self._tell(f"{transactional_id} took too long: aborted")
            self._bump(known)
            self._end(known, committed=False)

    def _end(self, known: _Known, *, committed: bool) -> None:
        if known.timer is not None:
            known.timer.cancel()
        known.state = State.COMMITTING if committed else State.ABORTING
        places = list(known.places)
        producer = known.producer
        left = len(places)

        def write(place: Place) -> None:
            nonlocal left
            if known.is_lost:
                return
            self._cluster.write_marker(place, producer, committed)
            left -= 1
            if not left:
                known.state = State.COMMITTED if committed else State.ABORTED

        for place in places:
            self._later(self._cluster.marker_seconds(), write, place)
        if not places:
            known.state = State.COMMITTED if committed else State.ABORTED
