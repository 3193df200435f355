"""A shard: one assignment of one raw partition to this worker, until its release.

It has everything that the worker knows of the partition: fetched records, store, index entries,
pending records, progress. If a partition comes back, it gets a new ``Shard``, and the old one stays
closed. So no second mapping has to be updated.
"""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final

from confluent_kafka import Message

from simhash_core.errors import ProtocolError
from simhash_core.log.records import NO_EPOCH, Progress
from simhash_core.log.shards import OwnedShard
from streams.kafka.clients import RawOffset
from streams.monitoring.metrics import AcquisitionPhase
from streams.store.shard_store import ShardStore
from streams.worker.fingerprint import PendingRecord
from streams.worker.timestamp_merge import RawQueue

_PHASES: Final = tuple(AcquisitionPhase)
_AFTER_ASSIGNMENT: Final = _PHASES[_PHASES.index(AcquisitionPhase.REBALANCE) + 1 :]


class AssignmentState(Enum):
    """The state of a shard; states only change in this order."""

    # Its store opens and the index is filled, so that it can join the next session.
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()  # it no longer takes part; a thread may still use its store
    CLOSED = auto()


class Acquisition:
    """When the phases of one acquisition ended, on the clock ``now``.

    ``began_at`` is when this worker saw that the group rebalances, or an error after which it opens
    the shard again. It is None if the worker saw nothing before the assignment.
    """

    def __init__(
        self, began_at: float | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self.assigned_at = now()
        self.began_at = began_at
        self.is_over = False
        self._ended: dict[AcquisitionPhase, float] = {}

    def opens(self) -> None:
        """Begin to open the shard, perhaps again; phases that ended before no longer count."""
        self._ended.clear()

    def ended(self, phase: AcquisitionPhase) -> None:
        """Note the end of a phase; only the first call per phase counts."""
        if phase not in self._ended:
            self._ended[phase] = self._now()

    def has(self, phase: AcquisitionPhase) -> bool:
        return phase in self._ended

    def seconds(self) -> dict[AcquisitionPhase, float]:
        """Return the duration of each phase that ended, in seconds after the phase before.

        A phase that ended before an earlier one takes 0 s, because an output may be written before
        the log is read to its end.
        """
        found: dict[AcquisitionPhase, float] = {}
        if self.began_at is not None:
            found[AcquisitionPhase.REBALANCE] = max(0.0, self.assigned_at - self.began_at)
        latest = self.assigned_at
        for phase in _AFTER_ASSIGNMENT:
            if (at := self._ended.get(phase)) is not None:
                found[phase] = max(0.0, at - latest)
                latest = max(at, latest)
        return found

    def total(self) -> float:
        """Return the seconds until the first output, or until the last phase without an output."""
        began = self.assigned_at if self.began_at is None else self.began_at
        last = self._ended.get(AcquisitionPhase.OUTPUT)
        if last is None:
            last = max(self._ended.values(), default=self.assigned_at)
        return max(0.0, last - began)


_NOTHING_READ: Final = RawOffset(0)


class LeaderEpochs:
    """The leader epochs of the raw records that were read, by their first offsets (KIP-320)."""

    def __init__(self, start: RawOffset = _NOTHING_READ) -> None:
        self._first = [start.next - 1]
        self._epochs = [start.leader_epoch]

    def read(self, messages: Sequence[Message]) -> None:
        """Note consecutive records, whose epochs rise."""
        if epoch_of(messages[-1]) <= self._epochs[-1]:
            return
        for message in messages:
            if (epoch := epoch_of(message)) > self._epochs[-1]:
                self._first.append(message.offset() or 0)
                self._epochs.append(epoch)

    def before(self, offset: int) -> int:
        """Return the epoch of the last record before an offset, or else the earliest one known."""
        return self._epochs[max(0, bisect_left(self._first, offset) - 1)]


def epoch_of(message: Message) -> int:
    epoch = message.leader_epoch()
    return NO_EPOCH if epoch is None else epoch


class Shard:
    """A shard, on the event loop.

    Attributes:
        number: The number of the assignment, which rises; fetched records carry it.
        slot: The slot of its index entries, after filling and until ``owned`` has it.
        epochs: The leaders that wrote its raw records, once the store is open.
        reads_as_before: Whether the reading rules are those of its last commit.
        lost_from: The raw offset from which on brokers lost records that this worker had read.
        progress: Where the shard continues, once the store is open.
        is_new: Whether its first progress must be committed before its documents are in the log.
        has_committed: Whether this worker has committed progress of this assignment.
        log_end: The end of the log before the changelog was read.
        is_filled: Whether it can join the next session.
        standby: The store of the standby that becomes the shard when the session begins.
        is_in_use: Whether its opening is running, which then releases the shard if it is closed.
        owned: Its part in the protocol while it is open.
        acquisition: How long each phase of its opening took.
    """

    def __init__(self, partition: int, number: int, acquisition: Acquisition | None = None) -> None:
        self.partition = partition
        self.epochs = LeaderEpochs()
        self.reads_as_before = False
        self.lost_from: int | None = None
        self.number = number
        self.state = AssignmentState.OPENING
        self.interrupted = threading.Event()
        self.queue = RawQueue(partition, number)
        self.store: ShardStore | None = None
        self.slot: int | None = None
        self.progress: Progress | None = None
        self.is_new = False
        self.has_committed = False
        self.log_end: int | None = None
        self.is_filled = False
        self.standby: ShardStore | None = None
        self.is_in_use = False
        self.owned: OwnedShard[PendingRecord] | None = None
        self.acquisition = acquisition or Acquisition()
        self._released = asyncio.Event()

    @property
    def is_opening(self) -> bool:
        return self.state is AssignmentState.OPENING

    @property
    def is_open(self) -> bool:
        """Whether it takes part; commits for it are only allowed while it does."""
        return self.state is AssignmentState.OPEN

    def opened(self, owned: OwnedShard[PendingRecord]) -> None:
        if self.state is not AssignmentState.OPENING:
            raise ProtocolError(f"shard {self.partition} is {self.state.name}, and cannot open")
        self.state = AssignmentState.OPEN
        self.owned = owned
        self.slot = None

    def close(self) -> None:
        """Stop taking part, at once; a second call has no effect."""
        if self.state in (AssignmentState.OPENING, AssignmentState.OPEN):
            self.state = AssignmentState.CLOSING
            self.interrupted.set()

    def release(self) -> None:
        self.state = AssignmentState.CLOSED
        self._released.set()

    async def released(self) -> None:
        await self._released.wait()
