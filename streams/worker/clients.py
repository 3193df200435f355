"""Narrow protocols of what a worker needs from Kafka and its disk.

``streams.kafka`` implements them with librdkafka's clients, the simulator with simulated ones. The
worker makes all decisions on one event loop; an implementation only polls, produces and passes
records on. Callbacks run on that event loop, in the order of the events.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from simhash_core.errors import FirstseenError
from streams.kafka.clients import RawOffset
from streams.kafka.errors import RecordsLostError
from streams.kafka.log_reader import LogRecords
from streams.kafka.producers import UNCHECKED, CommitChecks, ProducerRecord
from streams.kafka.raw_consumer import Fetched, GroupEvents
from streams.store.changelog import LoggedBatch
from streams.store.lineage import Lineage
from streams.store.recovery import Recovery
from streams.store.shard_store import ShardStore
from streams.worker.index_on_kafka import Claim, Owned

logger = logging.getLogger(__name__)

_LOWER_END_SECONDS: Final = 15.0
"""How long a new leader of a partition may report an end that is too low."""
_AGAIN_SECONDS: Final = 0.2


class GroupMember(Protocol):
    """A member of the consumer group that reads the raw topic."""

    def open(self, events: GroupEvents) -> None: ...

    async def close(self) -> None:
        """Leave the group after ``GroupEvents.revoked``; a static member keeps its partitions."""

    def read(self, partition: int, offset: RawOffset, reading: int) -> None:
        """Read an owned partition from an offset; its records carry the number ``reading``.

        If brokers lost the record before the offset, this begins with the first record that came
        instead of lost ones. An earlier reading of the partition ends. The call has no effect if
        the partition is no longer owned.
        """

    def stop(self, partition: int) -> None:
        """Stop reading a partition; it stays owned."""

    def pause(self, partitions: Iterable[int], *, paused: bool) -> None:
        """Stop or resume fetching partitions; records fetched already may still come."""

    def take(self) -> Fetched | None:
        """Return the next fetched records, or None; the member then fetches as many more."""

    def gather(self, seconds: float) -> None:
        """Wait ``seconds`` before the next fetch, so that more records come together."""

    async def metadata(self) -> bytes: ...

    def holding(self) -> Callable[[], bool]:
        """Return a check for any thread: whether each later release waited for the worker.

        If ``GroupEvents.revoked`` takes too long, a member releases its partitions before that
        ends. Others may then own partitions of a commit that is still under way.
        """

    async def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the group's committed offsets; -1 if a partition has none.

        A partition with offsets in an open transaction is left out; the caller requests it again.
        Once a member has the offset of its partition, no earlier owner can commit any more. Raises
        ``UnansweredError``, ``BrokerRefusedError``.
        """

    async def commit(self, offsets: Mapping[int, int], note: str = "") -> None:
        """Commit offsets outside of a transaction, with ``note`` as metadata.

        Raises ``StaleGenerationError`` if the group has rebalanced without this member,
        ``AbortedError`` if the commit may be tried again, ``UnansweredError`` if the outcome is
        unknown.
        """

    async def log_start(self, partition: int) -> int:
        """Return the first offset of a partition; raises ``BrokerUnavailableError``."""


class PartitionReader(Protocol):
    """Reads an internal partition (log or reports) in order and without gaps, from any offset.

    After a ``seek``, it returns nothing that was read for an earlier one.
    """

    def open(
        self, filled: Callable[[], object], failed: Callable[[FirstseenError], object]
    ) -> None:
        """Begin on the running event loop; ``filled`` is called when there are records to take.

        ``failed`` is called with ``LogCutError`` or ``TopicDeletedError``, after which ``seek``
        begins again, or with the error that ended the reader.
        """

    async def close(self) -> None: ...
    def seek(self, offset: int) -> None: ...

    def take(self) -> LogRecords | None:
        """Return the next records since ``seek``, or None."""

    async def offsets(self) -> tuple[int, int]:
        """Return the first offset and the end offset; raises ``UnansweredError``."""


async def offsets_after(log: PartitionReader, seen: int) -> tuple[int, int]:
    """Return the offsets of the log, which was seen up to ``seen``.

    Raises ``RecordsLostError`` if it ends earlier, and ``UnansweredError``.
    """
    deadline, is_logged = time.monotonic() + _LOWER_END_SECONDS, False
    while (offsets := await log.offsets())[1] < seen:
        if not is_logged:
            is_logged = True
            logger.warning(
                "the log ends at %d, but had offsets up to %d: waiting up to %g s for its end",
                offsets[1],
                seen,
                _LOWER_END_SECONDS,
            )
        if time.monotonic() > deadline:
            raise RecordsLostError(f"the log had offsets up to {seen}, but ends at {offsets[1]}")
        await asyncio.sleep(_AGAIN_SECONDS)
    return offsets


class RecordAppender(Protocol):
    """Appends records to partition 0 of internal topics."""

    def open(self) -> None: ...

    async def close(self) -> None:
        """Wait a limited time for pending appends; then they fail with ``AppendUnknownError``."""

    def append(self, topic: str, value: bytes) -> asyncio.Future[int]:
        """Append a record; the result is its offset.

        The future may have ``RecordTooLargeError``, ``BrokerRefusedError`` or
        ``AppendUnknownError``.
        """


class OutputCommitter(Protocol):
    """Commits outputs, changelog records and raw offsets: all or none if the broker can do this."""

    async def open(self) -> None:
        """Fence an earlier process with this worker's transactional id."""

    async def failures(self) -> int:
        """Return how often a broker may have failed, for commits in transactions."""

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,
        note: str = "",
        ends: Mapping[int, int] = MappingProxyType({}),
        checks: CommitChecks = UNCHECKED,
    ) -> dict[int, int]:
        """Commit records, and by raw partition the next offset to read, with ``note`` as metadata.

        Returns by changelog partition the offset after the last of ``records`` there. If this
        offset is not the one in ``ends``, no raw offset is committed for that partition, because
        another worker has written there too. ``checks`` are called before the end of a
        transaction; if one raises an error, nothing is committed. Raises the errors of
        ``streams.kafka.errors``.
        """

    async def close(self) -> None:
        """Release the client after the running commit."""


class IndexAdmin(Protocol):
    """Queries and maintenance of the index; each may raise ``FirstseenError``."""

    async def topic_id(self) -> str: ...
    async def log_id(self) -> str: ...
    async def partitions(self) -> int: ...
    async def claim(self) -> Claim | None: ...
    async def lineages(self, partitions: Iterable[int]) -> dict[int, Lineage]:
        """Return the lineage in the last progress of changelog partitions that have one."""

    async def grow_changelog(self) -> None: ...
    async def remember_members(self) -> None: ...

    async def members(self) -> dict[str, str]:
        """Return the names of all workers in the group, each with its member id."""

    async def abort_left_open(self, partitions: Iterable[int]) -> None: ...
    async def delete_before(self, offset: int) -> None: ...


class StoreOpener(Protocol):
    """Opens the stores of shards with everything that is committed; the calls block."""

    def open(self, partition: int, committed_next: int, interrupted: threading.Event) -> ShardStore:
        """Raises ``InterruptedError`` soon after ``interrupted`` is set, and ``FirstseenError``."""

    def measure(self) -> None: ...

    def recoveries(self) -> Mapping[int, Recovery]:
        """Return the recovery state of each shard that was opened; any thread may call this."""


Deliver = Callable[[int, LoggedBatch], Awaitable[None]]
"""Takes records of a changelog partition, one batch at a time."""


class ChangelogClient(Protocol):
    """Reads partitions of the changelog as their owners commit."""

    def begin(self, failed: Callable[[FirstseenError], object]) -> None:
        """Begin to deliver; ``failed`` is called with the error that ended the client."""

    async def close(self) -> None: ...
    def follow(self, partition: int, offset: int) -> None: ...

    def leave(self, partition: int) -> None:
        """Stop reading a partition; nothing more of it is delivered."""

    async def end(self, partition: int, seconds: float) -> int:
        """Return the end of the committed records of a partition; raises ``UnansweredError``."""

    async def reach(self, partition: int, offset: int, seconds: float) -> bool:
        """Wait until everything before an offset is delivered; return False after a time-out."""

    @property
    def lag(self) -> int:
        """The number of committed records that are not read yet, as far as known."""


@dataclass(frozen=True, slots=True)
class WorkerClients:
    """All clients of a worker.

    ``follow`` returns a client for the changelogs of standbys. ``owners`` returns who owns which
    shards, None during a rebalance; it blocks, and raises ``BrokerUnavailableError``.
    """

    member: GroupMember
    log: PartitionReader
    reports: PartitionReader
    appender: RecordAppender
    committer: OutputCommitter
    index: IndexAdmin
    stores: StoreOpener
    follow: Callable[[Deliver], ChangelogClient]
    owners: Callable[[], Owned | None]
