"""Follows partitions of the changelog as their owners commit: one consumer, in a thread of its own.

What is read goes to the event loop, one batch of one partition at a time. How far a partition was
read is known exactly, so that whoever wants its end can wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import groupby
from operator import methodcaller
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import FirstseenError
from streams.errors import UnansweredError
from streams.kafka.consumer_errors import judge
from streams.kafka.hand_over import Calls, HandOver, PollInterval, joined
from streams.kafka.partition_offsets import offset_range
from streams.kafka.retries import is_of_client, retrying_on_loop
from streams.store.changelog_reader import LoggedBatch

logger = logging.getLogger(__name__)

_BATCH: Final = 50
"""Records taken at one time: each may hold a packet of documents, which are written on the loop."""
_QUEUED_BATCHES: Final = 4
_BLOCKED_SECONDS: Final = 0.05
_EMPTY_FETCH_MS: Final = 100
"""How long the broker may hold a fetch that finds nothing, which is how the end is known."""
_ANSWER_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.01
_CLOSE_SECONDS: Final = 10.0

_partition_of = methodcaller("partition")


class _Read(NamedTuple):
    """What was read of one partition. ``number``: of the ``follow`` that it was read for.

    ``records``: None where there were none, and the end was seen. ``next``: the offset after it.
    """

    partition: int
    number: int
    records: LoggedBatch | None
    next: int


class ChangelogFollower:
    """Reads what is committed to partitions of the changelog. On the event loop.

    ``deliver`` takes one batch of a partition at a time. ``failed`` is called with what has ended
    the follower.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        deliver: Callable[[int, LoggedBatch], Awaitable[None]],
        failed: Callable[[Exception], None],
    ) -> None:
        """Connect in the background; ``config``: librdkafka's, with a ``group.id``."""
        self._topic = topic
        self._deliver = deliver
        self._wake = threading.Condition()
        self._calls = Calls(self._wake)
        self._batches: HandOver[_Read] = HandOver(
            _QUEUED_BATCHES, self._deliver_current, failed, self._wake
        )
        self._failed = failed
        self._consumer = Consumer(
            {
                **config,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": _EMPTY_FETCH_MS,
                "fetch.message.max.bytes": 1024 * 1024,
                "queued.max.messages.kbytes": 16 * 1024,
            }
        )
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self._number = 0
        self._numbers: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._lags: dict[int, int] = {}
        self._closing = False
        # Of the thread: what is being read.
        self._reading: dict[int, int] = {}
        self._interval = PollInterval()

    def open(self) -> None:
        """Begin, on the running loop."""
        self._batches.open()
        self._thread.start()

    async def close(self) -> None:
        """End the thread; nothing is delivered any more."""
        self._closing = True
        with self._wake:
            self._wake.notify_all()
        await joined(self._thread, _CLOSE_SECONDS)
        await self._batches.close()

    # ---- on the loop

    def follow(self, partition: int, offset: int) -> None:
        """Read a partition from an offset on."""
        self._number += 1
        number = self._numbers[partition] = self._number
        self._delivered[partition] = offset
        self._calls.submit(lambda: self._assign(partition, offset, number)).add_done_callback(
            self._check
        )

    def leave(self, partition: int) -> None:
        """Read a partition no more; nothing of it is delivered any more."""
        if self._numbers.pop(partition, None) is not None:
            del self._delivered[partition]
            self._calls.submit(lambda: self._unassign(partition)).add_done_callback(self._check)

    def position(self, partition: int) -> int:
        """Return the offset before which all of a partition that is followed was delivered."""
        return self._delivered.get(partition, 0)

    async def end(self, partition: int, seconds: float) -> int:
        """Return the offset at which what is committed to a partition ends now.

        Raises ``UnansweredError``.
        """
        again = retrying_on_loop(seconds, _AGAIN_SECONDS, is_of_client)
        try:
            return await again(self._calls.ask, lambda: self._end(partition))
        except (KafkaException, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self._closing:
                raise
            raise UnansweredError(
                f"the broker does not say within {seconds:g} s where the changelog "
                f"{self._topic}/{partition} ends"
            ) from error

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

    def _check(self, future: Any) -> None:  # noqa: ANN401 - of a client's call
        if not future.cancelled() and (error := future.exception()) is not None:
            self._batches.call(self._failed, error)

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                if self._calls.serve():
                    self._interval.extend()
                self._turn()
        except Exception as error:  # noqa: BLE001 - the owner must learn of it, whatever it is
            self._batches.call(self._failed, error)
        finally:
            self._calls.close()
            self._consumer.close()

    def _turn(self) -> None:
        if self._batches.full or not self._reading:
            with self._wake:
                self._wake.wait_for(
                    lambda: bool(self._calls) or self._closing or self._can_read(),
                    _BLOCKED_SECONDS,
                )
            return
        message = self._consumer.poll(self._interval.seconds)
        if message is None:
            return
        self._interval.extend()
        messages = [message, *self._consumer.consume(_BATCH - 1, 0)]
        for partition, group in groupby(messages, _partition_of):
            self._take(partition, list(group))

    def _can_read(self) -> bool:
        return bool(self._reading) and not self._batches.full

    def _take(self, partition: int, messages: Iterable[Message]) -> None:
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
                self._judge(error)
        if number is None:
            return
        if records:
            batch = LoggedBatch(
                [each.key() for each in records],
                [each.value() for each in records],
                [each.offset() or 0 for each in records],
                records[-1].timestamp()[1],
                f"{self._topic}/{partition}",
            )
            self._batches.put(_Read(partition, number, batch, batch.next_offset))
            self._note_lag(partition, batch.next_offset)
        if end is not None:
            self._batches.put(_Read(partition, number, None, end))
            self._lags[partition] = 0

    def _note_lag(self, partition: int, position: int) -> None:
        place = TopicPartition(self._topic, partition)
        _, end = self._consumer.get_watermark_offsets(place, cached=True)
        self._lags[partition] = max(0, end - position)

    def _judge(self, error: KafkaError) -> None:
        failure: FirstseenError | None = judge(error, self._topic)
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

    def _end(self, partition: int) -> int:
        return offset_range(self._consumer, self._topic, partition, _ANSWER_SECONDS)[1]
