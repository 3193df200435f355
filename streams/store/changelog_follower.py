"""Follows partitions of the changelog as their owners commit: one consumer, in a thread of its own.

What is read goes to the event loop, one batch of one partition at a time. How far a partition was
read is known exactly, so that whoever wants its end can wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import groupby
from operator import methodcaller
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message, TopicPartition

from simhash_core.errors import FirstseenError
from streams.kafka.consumer_errors import judge
from streams.kafka.reader_thread import ReaderThread
from streams.store.changelog_reader import TO_THE_END, LoggedBatch

_BATCH: Final = 50
"""Records taken at one time: each may hold a packet of documents, which are written on the loop."""
_QUEUED_BATCHES: Final = 4
_EMPTY_FETCH_MS: Final = 100
"""How long the broker may hold a fetch that finds nothing, which is how the end is known."""
_LOOK_SECONDS: Final = 0.01

_partition_of = methodcaller("partition")


class _Read(NamedTuple):
    """What was read of one partition. ``number``: of the ``follow`` that it was read for.

    ``records``: None where there were none, and the end was seen. ``next``: the offset after it.
    """

    partition: int
    number: int
    records: LoggedBatch | None
    next: int


class ChangelogFollower(ReaderThread[_Read]):
    """Reads what is committed to partitions of the changelog. On the event loop.

    ``deliver`` takes one batch of a partition at a time. ``failed`` is called with what has ended
    the follower.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        deliver: Callable[[int, LoggedBatch], Awaitable[None]],
        failed: Callable[[FirstseenError], None],
    ) -> None:
        """Connect in the background; ``config``: librdkafka's, with a ``group.id``."""
        super().__init__(
            {
                **config,
                **TO_THE_END,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": _EMPTY_FETCH_MS,
                "fetch.message.max.bytes": 1024 * 1024,
                "queued.max.messages.kbytes": 16 * 1024,
            },
            topic,
            failed,
            batch_records=_BATCH,
            queued_batches=_QUEUED_BATCHES,
        )
        self._deliver = deliver
        self._number = 0
        self._numbers: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._lags: dict[int, int] = {}
        # Of the thread: what is being read.
        self._reading: dict[int, int] = {}

    # ---- on the loop

    def follow(self, partition: int, offset: int) -> None:
        """Read a partition from an offset on."""
        self._number += 1
        number = self._numbers[partition] = self._number
        self._delivered[partition] = offset
        self._submit(lambda: self._assign(partition, offset, number))

    def leave(self, partition: int) -> None:
        """Read a partition no more; nothing of it is delivered any more."""
        if self._numbers.pop(partition, None) is not None:
            del self._delivered[partition]
            self._submit(lambda: self._unassign(partition))

    def position(self, partition: int) -> int:
        """Return the offset before which all of a partition that is followed was delivered."""
        return self._delivered.get(partition, 0)

    async def end(self, partition: int, seconds: float) -> int:
        """Return the offset at which what is committed to a partition ends now.

        Raises ``UnansweredError``.
        """
        return (await self._offsets(partition, seconds))[1]

    async def reach(self, partition: int, offset: int, seconds: float) -> bool:
        """Wait until all before an offset is delivered; return whether that was within a time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.position(partition) < offset:
            if partition not in self._numbers or asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    @property
    def lag(self) -> int:
        """The records that were committed and not read yet, as far as the consumer knows."""
        return sum(self._lags.copy().values())

    async def _deliver_current(self, read: _Read) -> None:
        partition = read.partition
        if read.records is not None and self._numbers.get(partition) == read.number:
            await self._deliver(partition, read.records)
        if self._numbers.get(partition) == read.number:
            self._delivered[partition] = max(read.next, self._delivered[partition])

    # ---- the thread

    def _has_partitions(self) -> bool:
        return bool(self._reading)

    def _take(self, messages: list[Message]) -> None:
        for partition, group in groupby(messages, _partition_of):
            self._take_partition(partition, group)

    def _take_partition(self, partition: int, messages: Iterable[Message]) -> None:
        number = self._reading.get(partition)
        records: list[Message] = []
        end = None
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name of the code
                end = message.offset()
            else:
                self._raise_if_final(error)
        if number is None:
            return
        if records:
            batch = LoggedBatch.of(records, f"{self._topic}/{partition}")
            self._batches.put(_Read(partition, number, batch, batch.next_offset))
            self._note_lag(partition, batch.next_offset)
        if end is not None:
            self._batches.put(_Read(partition, number, None, end))
            self._lags[partition] = 0

    def _note_lag(self, partition: int, position: int) -> None:
        place = TopicPartition(self._topic, partition)
        _, end = self._consumer.get_watermark_offsets(place, cached=True)
        self._lags[partition] = max(0, end - position)

    def _raise_if_final(self, error: KafkaError) -> None:
        failure = judge(error, self._topic)
        if failure is not None:
            raise failure

    def _assign(self, partition: int, offset: int, number: int) -> None:
        place = TopicPartition(self._topic, partition, offset)
        if partition in self._reading:
            self._consumer.incremental_unassign([place])
        self._consumer.incremental_assign([place])
        self._reading[partition] = number

    def _unassign(self, partition: int) -> None:
        self._lags.pop(partition, None)
        if self._reading.pop(partition, None) is not None:
            self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
