"""The interface of a worker for code outside of the data path."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import chain
from typing import Final, NamedTuple, Protocol

from simhash_core.documents import Content
from simhash_core.errors import FirstseenError
from simhash_core.log.participant import LEADING_SHARD, Waiting
from simhash_core.verdicts import Answer


class CheckUnavailableError(FirstseenError):
    """The index cannot answer a query about a text now; the message says why and what to do."""


def partition_ranges(partitions: Iterable[int]) -> str:
    """Return partitions in order, such as ``0 4-9``: a worker may have a thousand of them."""
    runs: list[list[int]] = []
    for each in sorted(partitions):
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    shown = [[f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run) for run in runs]  # noqa: PLR2004 - a pair is shorter
    return " ".join(chain.from_iterable(shown)) or "none"


class ShardState(NamedTuple):
    is_open: bool
    entries: int  # documents in the index
    waiting: int  # raw records without outputs
    next_offset: int  # of the next raw record to output
    log_position: int  # the lowest log offset needed after a restart
    recovery_remaining: int  # changelog records to read; 0 once it is open


class NextStep(Enum):
    READ = auto()  # no raw record is in memory
    TURN = auto()  # it was read, and records of other partitions, or workers, come first
    VERDICT = auto()  # it was read but has no verdict
    COMMIT = auto()  # it can be output


class Waits(NamedTuple):
    """What a worker's documents wait for, as its event loop last noted it."""

    undecided: Waiting | None = None  # what the next undecided packet of the log waits for
    is_full: bool = False  # too much is in flight to read raw records
    steps: Mapping[int, NextStep] = {}  # of open shards, by raw partition

    def is_own_step(self, partition: int, *, ready: bool) -> bool:
        """Return whether this worker must act; ``ready`` is ``WorkerView.ready``."""
        step = self.steps.get(partition, NextStep.READ)
        if step is NextStep.COMMIT:
            return True
        if step is NextStep.TURN:
            return False  # with a long backlog of many partitions, its turn may be minutes away
        if step is NextStep.VERDICT:
            return ready and (self.undecided is None or self.undecided.own_turn)
        return ready and not self.is_full

    def awaited(self, opening: Mapping[int, object]) -> str | None:
        """Return which worker documents wait for, or None; ``opening`` are this worker's shards."""
        if self.undecided is None or self.undecided.own_turn:
            return None
        shards, leader = self.undecided.shards, self.undecided.leader
        if shards:
            named = ", ".join(
                f"shard {shard} ({_holder(shard, worker, opening)})"
                for shard, worker in sorted(shards.items())[:_NAMED_SHARDS]
            )
            more = len(shards) - _NAMED_SHARDS
            return f"the reports of {named}{f' and {more} more' if more > 0 else ''}"
        if leader is not None:
            return f"the verdict of the leader, worker {_in_group(leader)}"
        if LEADING_SHARD in opening:
            return f"a leader: shard {LEADING_SHARD} is being opened here"
        return f"a leader: the owner of shard {LEADING_SHARD} is not the leader yet"


_NAMED_SHARDS: Final = 5


def _holder(shard: int, worker: str | None, opening: Container[int]) -> str:
    if shard in opening:
        return "being opened here"
    return "owner unknown" if worker is None else f"last owned by worker {_in_group(worker)}"


def _in_group(worker: str) -> str:
    """Return a worker's name in the group, without the part that changes with each start."""
    return worker.rpartition(".")[0] or worker


class WorkerView(Protocol):
    """A worker as seen from outside; all but ``look_up`` is thread-safe."""

    @property
    def ready(self) -> bool:
        """Whether all assigned shards are open, the log is read, and raw records can be read."""
        ...

    @property
    def failure(self) -> FirstseenError | None: ...

    @property
    def leads(self) -> bool: ...

    @property
    def leader(self) -> str | None: ...

    @property
    def format_version(self) -> int | None:
        """The version in force in the log; None before a control record is read."""
        ...

    @property
    def without_standby(self) -> Sequence[int]:
        """Shards of this worker without an open standby, where the settings want any."""
        ...

    @property
    def log_position(self) -> int | None:
        """The next log offset to read; None before reading begins."""
        ...

    def why_not_ready(self) -> str | None: ...

    def shards(self) -> Mapping[int, ShardState]: ...

    def waits(self) -> Waits: ...

    async def look_up(self, content: Content, limit: int, scope: str = "") -> Answer:
        """Return the whole index's answer on a document; call it on the worker's event loop.

        ``limit`` bounds the neighbours. Raises ``CheckUnavailableError`` where the worker is not
        ready, or no leader answers in time.
        """
        ...
