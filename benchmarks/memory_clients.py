"""What a worker speaks with, in memory: for benchmarks of the event loop.

Nothing waits, so that what a step takes is the worker's own; and no answer comes within the step
that asks. Stores are real ones.
"""

# ruff: noqa: ARG002 - clients are told more than these need
from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Message

from simhash_core.errors import FirstseenError
from simhash_core.log.records import NO_CONTROL
from streams.kafka.log_reader import LogRecords
from streams.kafka.producers import ProducerRecord
from streams.kafka.raw_consumer import Fetched, GroupEvents, RawRecords
from streams.store.recovery import Recovery
from streams.store.rocksdb_store import block_cache
from streams.store.row_codec import StoreIdentity
from streams.store.shard_directory import RocksDisk, open_shard
from streams.store.shard_store import ShardStore
from streams.worker.clients import ChangelogClient, Deliver, WorkerClients
from streams.worker.index_on_kafka import Claim

_READ_RECORDS: Final = 500
TIME_MS: Final = 1_700_000_000_000


class MemoryPartition:
    """An internal partition: implements ``PartitionReader``, and takes what is appended."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.position = 0
        self._filled: Callable[[], object] = lambda: None

    def append(self, value: bytes) -> int:
        self.values.append(value)
        self._filled()
        return len(self.values) - 1

    def open(
        self, filled: Callable[[], object], failed: Callable[[FirstseenError], object]
    ) -> None:
        self._filled = filled

    async def close(self) -> None: ...

    def seek(self, offset: int) -> None:
        self.position = offset
        self._filled()

    def take(self) -> LogRecords | None:
        """Return as many records as a fetch brings."""
        first = self.position
        values = self.values[first : first + _READ_RECORDS]
        self.position += len(values)
        records = [(first + number, value, TIME_MS) for number, value in enumerate(values)]
        return LogRecords(0, records) if records else None

    async def offsets(self) -> tuple[int, int]:
        return 0, len(self.values)


class MemoryAppender:
    def __init__(self, partitions: Mapping[str, MemoryPartition]) -> None:
        self._partitions = partitions

    def open(self) -> None: ...
    async def close(self) -> None: ...

    def append(self, topic: str, value: bytes) -> asyncio.Future[int]:
        """Append; the answer comes in a later step, as from a broker."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        loop.call_soon(future.set_result, self._partitions[topic].append(value))
        return future


class MemoryMember:
    """The only member of its group: what the benchmark sends is fetched."""

    def __init__(self) -> None:
        self.events: GroupEvents | None = None
        self._numbers: dict[int, int] = {}
        self._fetched: deque[Fetched] = deque()

    def send(self, messages: Mapping[int, list[Message]]) -> None:
        """Let records of partitions be fetched, all with one poll."""
        runs = [
            RawRecords(partition, self._numbers[partition], records, sum(map(len, records)))
            for partition, records in messages.items()
        ]
        self._fetched.append(Fetched(runs, frozenset(messages)))
        assert self.events is not None
        self.events.fetched()

    def open(self, events: GroupEvents) -> None:
        self.events = events

    async def close(self) -> None: ...

    def read(self, partition: int, offset: int, reading: int) -> None:
        self._numbers[partition] = reading

    def stop(self, partition: int) -> None: ...
    def pause(self, partitions: Iterable[int], *, paused: bool) -> None: ...

    def take(self) -> Fetched | None:
        return self._fetched.popleft() if self._fetched else None

    def gather(self, seconds: float) -> None: ...

    async def metadata(self) -> bytes:
        return b""

    async def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, -1)

    async def commit(self, offsets: Mapping[int, int], note: str = "") -> None: ...

    async def log_start(self, partition: int) -> int:
        return 0


class MemoryCommitter:
    """Commits at once; counts the raw records that are put out."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,
        note: str = "",
    ) -> dict[int, int]:
        await asyncio.sleep(0)  # the answer comes in a later step
        self.offsets.update(offsets)
        for partition in offsets:
            self._ends[partition] = self._ends.get(partition, 0) + 2
        return {partition: self._ends[partition] for partition in offsets}


class MemoryIndexAdmin:
    """An index that has begun, of a topic without an id."""

    def __init__(self, identity: str, reading: str, partitions: int) -> None:
        self._claim = Claim(identity, reading, 0, NO_CONTROL)
        self._partitions = partitions

    async def topic_id(self) -> str:
        return ""

    async def partitions(self) -> int:
        return self._partitions

    async def claim(self) -> Claim | None:
        return self._claim

    async def grow_changelog(self) -> None: ...
    async def note_members(self) -> None: ...
    async def abort_left_open(self, partitions: Iterable[int]) -> None: ...
    async def delete_before(self, offset: int) -> None: ...


class DirectoryStores:
    """Opens real stores, as they are in a directory; there is no changelog."""

    def __init__(self, directory: Path, identity: str, bits: int) -> None:
        self._directory = directory
        self._identity = identity
        self._bits = bits
        self._cache = block_cache()

    def open(
        self, partition: int, committed_next: int = 0, interrupted: threading.Event | None = None
    ) -> ShardStore:
        owner = StoreIdentity(self._identity, "benchmark", partition)
        path = self._directory / f"shard-{partition}"
        return open_shard(path, owner, self._bits, RocksDisk(self._cache))

    def measure(self) -> None: ...

    def recoveries(self) -> Mapping[int, Recovery]:
        return {}


class MemoryCluster:
    def __init__(
        self, topics: tuple[str, str], index: MemoryIndexAdmin, stores: DirectoryStores
    ) -> None:
        """``topics``: the names of the log and of the topic of reports."""
        self.member = MemoryMember()
        self.log, self.reports = MemoryPartition(), MemoryPartition()
        self.committer = MemoryCommitter()
        self.clients = WorkerClients(
            member=self.member,
            log=self.log,
            reports=self.reports,
            appender=MemoryAppender(dict(zip(topics, (self.log, self.reports), strict=True))),
            committer=self.committer,
            index=index,
            stores=stores,
            follow=_follow,
            owners=lambda: None,
        )


def _follow(deliver: Deliver) -> ChangelogClient:
    raise NotImplementedError("a worker of a benchmark keeps no standbys")
