"""Reads one internal partition (log or reports) in order, from any offset, outside any group.

Each reading has a number, its *epoch*; records of earlier epochs are not returned. A gap is never
skipped: if the next offset does not exist, the owner gets the partition's first and end offsets.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Generic, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka.clients import Consumer, offset_range
from streams.kafka.errors import (
    TopicDeletedError,
    is_absent,
    is_of_client,
    judge,
    retrying_on_loop,
    topic_is_deleted,
)
from streams.kafka.thread_bridge import Calls, Inbox, Item, PollInterval, joined

# ---- A consumer of given partitions, outside any group, in its own thread.

logger = logging.getLogger(__name__)

_BLOCKED_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 2.0
"""The time-out of a request. It is longer than a broker may hold a fetch, because a request on the
same connection waits until the fetch ends."""
_AGAIN_SECONDS: Final = 0.05
_CLOSE_SECONDS: Final = 3.0


class ReaderThread(ABC, Generic[Item]):
    """Reads messages in a thread; a subclass turns them into items for the loop."""

    def __init__(
        self, config: Mapping[str, Any], topic: str, *, batch_records: int, queued_batches: int
    ) -> None:
        """Poll up to ``batch_records`` messages at a time; up to ``queued_batches`` items wait."""
        self._topic = topic
        self._failed: Callable[[FirstseenError], object] | None = None
        self._batch_records = batch_records
        self._wake = threading.Condition()
        self._calls = Calls(self._wake)
        self._batches: Inbox[Item] = Inbox(queued_batches, self._wake)
        self._config = dict(config)
        self._consumer = Consumer(self._config)
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self._interval = PollInterval()
        self._closing = False

    def open(
        self, filled: Callable[[], object], failed: Callable[[FirstseenError], object]
    ) -> None:
        """Start; call ``filled`` for each item, ``failed`` with the error that ends the thread."""
        self._failed = failed
        self._batches.open(filled)
        self._thread.start()

    async def close(self) -> None:
        self._closing = True
        with self._wake:
            self._wake.notify_all()
        await joined(self._thread, _CLOSE_SECONDS)
        self._batches.close()

    # ---- on the loop

    async def _offsets(self, partition: int, seconds: float) -> tuple[int, int]:
        """Return the first and the end offset of a partition; raise ``UnansweredError``."""
        again = retrying_on_loop(seconds, _AGAIN_SECONDS, is_of_client)
        try:
            return await again(self._calls.run, lambda: self._offset_range(partition))
        except KafkaException as error:
            raise UnansweredError(
                f"the broker did not return the start and the end of {self._topic}/{partition} "
                f"within {seconds:g} s: {error.args[0].str()}"
            ) from error
        except asyncio.CancelledError:
            if not self._closing:
                raise
            raise UnansweredError(f"the reader of {self._topic} has ended") from None

    def _submit(self, function: Callable[[], None]) -> None:
        self._calls.submit(function).add_done_callback(self._check)

    def _check(self, future: Future[None]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self._batches.call(self._fail, error)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, FirstseenError):
            logger.error("the reader of %s has ended", self._topic, exc_info=error)
            error = BrokerRefusedError(f"the reader of {self._topic} has failed: {error}")
        if self._failed is not None:
            self._failed(error)

    # ---- in the thread

    @abstractmethod
    def _take(self, messages: list[Message]) -> None:
        """Queue the messages, or raise the error that ends the reader."""

    def _has_partitions(self) -> bool:
        return True

    def _after_turn(self, heard: bool) -> None:  # noqa: FBT001 - most need nothing; one caller
        ...

    def _offset_range(self, partition: int) -> tuple[int, int]:
        return offset_range(self._consumer, self._topic, partition, _ANSWER_SECONDS)

    def _run(self) -> None:
        try:
            while not self._closing:
                if self._calls.serve():
                    self._interval.extend()
                if self._can_read():
                    self._turn()
                else:
                    self._wait()
        except Exception as error:  # noqa: BLE001 - the owner must learn of it, whatever it is
            self._batches.call(self._fail, error)
        finally:
            self._calls.close()
            self._consumer.close()

    def _can_read(self) -> bool:
        return self._has_partitions() and not self._batches.full

    def _wait(self) -> None:
        with self._wake:
            self._wake.wait_for(
                lambda: bool(self._calls) or self._closing or self._can_read(), _BLOCKED_SECONDS
            )

    def _turn(self) -> None:
        # A poll may be long right after a record, because calls, which need short polls, seldom
        # follow it.
        message = self._consumer.poll(self._interval.seconds)
        if message is not None:
            self._take([message, *self._consumer.consume(self._batch_records - 1, 0)])
        self._after_turn(message is not None)


_PARTITION: Final = 0
_SILENT_SECONDS: Final = 2.0
"""After this long without records, check that the partition still exists."""
_STUCK_SECONDS: Final = 10.0
"""After this long without records, although there are some, another client reads on. If a topic is
created again while brokers come and go, librdkafka (2.16) may ignore its new leader, as that has a
lower epoch. The time doubles until something comes, because a link may be slow."""
_STUCK_SECONDS_MAX: Final = 160.0
_CUT: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - a public code of librdkafka
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
# The client compares leader epochs (KIP-320), and names this reason only in the text.
_TRUNCATED: Final = KafkaError(KafkaError._LOG_TRUNCATION).str()  # noqa: SLF001 - the same


class LogRecords(NamedTuple):
    """Consecutive records: offset, value and timestamp in milliseconds of each.

    If another program has sent a transaction, the last one may be its marker, without a value.
    """

    epoch: int
    records: list[tuple[int, bytes, int]]


class LogCutError(FirstseenError):
    """The next offset is not in the partition: it was trimmed, or the topic was created again."""

    reason = ErrorReason.BROKER

    def __init__(self, topic: str, wanted: int, start: int, end: int) -> None:
        """``start`` is the partition's first offset, ``end`` the offset after the last record."""
        self.wanted = wanted
        self.start = start
        self.end = end
        has = f"offsets {start} to {end - 1}" if end > start else f"no record (end: {end})"
        if start <= wanted <= end:
            has = f"other records before it than were read ({has})"
        self.found = f"{topic} was to be read from offset {wanted}, but has {has}"
        why = "brokers have lost its last records"
        if wanted < start:
            why = "it was trimmed while this worker stood still"
        super().__init__(
            f"{self.found}: {why}, or it was deleted and created again. Start the worker again; if "
            "it ends so again, stop all workers, then run 'firstseen index new-log'"
        )


class LogReader(ReaderThread[LogRecords]):
    """A ``PartitionReader`` of partition 0; ``seek`` restarts it after a cut or deleted topic."""

    def __init__(self, config: Mapping[str, Any], topic: str, *, batch_records: int = 500) -> None:
        super().__init__(config, topic, batch_records=batch_records, queued_batches=4)
        self._epoch = 0
        # Only the thread uses these.
        self._reading = 0
        self._next = 0
        self._heard_at = 0.0
        self._end = 0
        self._stuck_since: float | None = None
        self._patience = _STUCK_SECONDS
        self._was_absent = False
        self._is_assigned = False
        self._is_truncated = False
        self._error: FirstseenError | None = None

    def seek(self, offset: int) -> None:
        self._epoch += 1
        epoch = self._epoch
        self._submit(lambda: self._assign(offset, epoch))

    def take(self) -> LogRecords | None:
        while (batch := self._batches.take()) is not None:
            if batch.epoch == self._epoch:
                return batch
        return None

    async def offsets(self, seconds: float = 10.0) -> tuple[int, int]:
        return await self._offsets(_PARTITION, seconds)

    # ---- the thread

    def _take(self, messages: list[Message]) -> None:
        records: list[tuple[int, bytes, int]] = []
        for message in messages:
            error, offset = message.error(), message.offset() or 0
            if error is None:
                records.append((offset, message.value() or b"", message.timestamp()[1]))
                self._next = offset + 1
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public code of librdkafka
                self._note(error)
            elif offset > self._next:
                # The client returns no markers of transactions. Without the last one, the owner
                # would wait for the end of the partition until somebody else appends a record.
                records.append((offset - 1, b"", 0))
                self._next = offset
        if records:
            self._batches.put(LogRecords(self._reading, records))

    def _after_turn(self, heard: bool) -> None:  # noqa: FBT001 - of ReaderThread
        now = time.monotonic()
        if heard:
            self._heard_at, self._stuck_since, self._patience = now, None, _STUCK_SECONDS
        elif self._is_assigned and now - self._heard_at > _SILENT_SECONDS:
            self._check_partition()
            self._heard_at = time.monotonic()
        if self._error is not None:
            raise self._error

    def _assign(self, offset: int, epoch: int) -> None:
        self._consumer.assign([TopicPartition(self._topic, _PARTITION, offset)])
        self._reading, self._next = epoch, offset
        self._is_assigned = True
        self._is_truncated = False

    def _stop_with(self, error: FirstseenError) -> None:
        """Stop reading until the next ``seek``, and report why, unless that was called already."""
        epoch = self._reading

        def on_loop() -> None:
            if epoch == self._epoch:
                self._fail(error)

        self._consumer.unassign()
        self._is_assigned = False
        self._batches.call(on_loop)

    def _note(self, error: KafkaError) -> None:
        if error.code() in _CUT:
            # One reading may get several such errors.
            self._is_truncated |= _TRUNCATED in error.str()
            if self._is_assigned and not self._is_cut() and not self._is_truncated:
                self._assign(self._next, self._reading)  # it was unknown only for a moment
        elif topic_is_deleted(error, self._consumer, self._topic):
            self._stop_with(TopicDeletedError(self._topic))
        else:
            self._error = self._error or judge(error, self._topic)

    def _check_partition(self) -> None:
        """Check the partition: a consumer does not report that it was deleted or replaced."""
        if (is_cut := self._is_cut()) is not None:
            self._was_absent = False
            if not is_cut:
                self._replace_stuck_client()
            return
        was_absent, self._was_absent = self._was_absent, is_absent(self._consumer, self._topic)
        # This must happen twice, because a broker that has just started may not know the topic yet.
        if was_absent and self._was_absent:
            self._stop_with(TopicDeletedError(self._topic))

    def _replace_stuck_client(self) -> None:
        """Read on with another client if this one returns nothing of what there is for long."""
        now = time.monotonic()
        if self._next >= self._end:
            self._stuck_since = None
            return
        self._stuck_since = self._stuck_since or now
        if now - self._stuck_since < self._patience:
            return
        logger.warning(
            "nothing of %s came for %.0f s, although it has records from offset %d to %d: another "
            "client reads on",
            self._topic,
            now - self._stuck_since,
            self._next,
            self._end - 1,
        )
        self._stuck_since, self._patience = None, min(2 * self._patience, _STUCK_SECONDS_MAX)
        self._consumer.close()
        self._consumer = Consumer(self._config)
        self._assign(self._next, self._reading)

    def _is_cut(self) -> bool | None:
        """Report a missing next offset, or lost records before it; return None without a response.

        A partition that lost records may have got others since, at the same offsets.
        """
        try:
            start, end = self._offset_range(_PARTITION)
        except KafkaException:
            return None
        if start <= self._next <= end and not self._is_truncated:
            self._end = end
            return False
        self._stop_with(LogCutError(self._topic, self._next, start, end))
        return True
