"""Reads one internal partition in order, from any offset, outside any group: log and reports.

A new reading has a number, its *epoch*: what was fetched for an earlier one is not delivered. The
partition is never read over a gap: where the wanted offset is not there (any more), the owner
learns where it begins and ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka.consumer_errors import TopicGoneError, is_absent, judge, topic_is_gone
from streams.kafka.hand_over import Calls, HandOver, PollInterval, joined
from streams.kafka.partition_offsets import offset_range
from streams.kafka.retries import is_of_client, retrying_on_loop

logger = logging.getLogger(__name__)

_PARTITION: Final = 0
_BLOCKED_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 2.0
"""More than a fetch may be held by a broker: what is asked on its connection waits behind it."""
_AGAIN_SECONDS: Final = 0.05
_SILENT_SECONDS: Final = 2.0
"""After so long without records it is checked that the partition is still there."""
_CLOSE_SECONDS: Final = 10.0
_CUT: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - a public code of librdkafka
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)


class LogRecords(NamedTuple):
    """Consecutive records: of each its offset, value and timestamp in milliseconds."""

    epoch: int
    records: list[tuple[int, bytes, int]]


class LogCutError(FirstseenError):
    """The wanted offset is not in the partition: it was trimmed, or the topic created again."""

    reason = ErrorReason.BROKER

    def __init__(self, topic: str, wanted: int, start: int, end: int) -> None:
        """``start``, ``end``: first offset of the partition, and the one after the last."""
        self.wanted = wanted
        self.start = start
        self.end = end
        super().__init__(
            f"{topic} was to be read from offset {wanted}, but has offsets {start} to {end - 1}"
            if end > start
            else f"{topic} was to be read from offset {wanted}, but has no record (end: {end})"
        )


class LogReader:
    """A consumer of partition 0 of a topic, in a thread of its own.

    ``deliver`` is awaited for one batch at a time, of at most ``batch_records``; at most
    ``queued_batches`` wait for it. ``failed`` is called with ``LogCutError`` or ``TopicGoneError``,
    after which ``seek`` begins again, or with what has ended the reader.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        deliver: Callable[[LogRecords], Awaitable[None]],
        failed: Callable[[FirstseenError], None],
        *,
        batch_records: int = 500,
        queued_batches: int = 4,
    ) -> None:
        """Connect in the background; nothing is read before ``seek``."""
        self._topic = topic
        self._failed = failed
        self._batch_records = batch_records
        self._deliver = deliver
        self._wake = threading.Condition()
        self._calls = Calls(self._wake)
        self._batches = HandOver(queued_batches, self._deliver_current, self._fail, self._wake)
        self._consumer = Consumer({**config, "error_cb": self._on_error})
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self._epoch = 0
        self._closing = False
        # Of the thread: what is being read.
        self._reading = 0
        self._next = 0
        self._interval = PollInterval()
        self._heard = 0.0
        self._was_absent = False
        self._is_assigned = False
        self._error: FirstseenError | None = None

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

    def seek(self, offset: int) -> int:
        """Read from an offset; return the epoch of this reading. No earlier one is delivered."""
        self._epoch += 1
        epoch = self._epoch
        self._calls.submit(lambda: self._assign(offset, epoch)).add_done_callback(self._check)
        return epoch

    async def start_offset(self, seconds: float = 10.0) -> int:
        """Return the offset of the first record; raises ``UnansweredError``."""
        return (await self.offsets(seconds))[0]

    async def end_offset(self, seconds: float = 10.0) -> int:
        """Return the offset after the last record; raises ``UnansweredError``."""
        return (await self.offsets(seconds))[1]

    async def offsets(self, seconds: float = 10.0) -> tuple[int, int]:
        """Return the offset of the first record, and the one after the last.

        Raises ``UnansweredError``.
        """
        again = retrying_on_loop(seconds, _AGAIN_SECONDS, is_of_client)
        try:
            return await again(self._calls.ask, self._watermarks)
        except KafkaException as error:
            raise UnansweredError(
                f"the broker does not report within {seconds:g} s where {self._topic} begins and "
                f"ends: {error.args[0].str()}"
            ) from error
        except asyncio.CancelledError:
            if not self._closing:
                raise
            raise UnansweredError(f"the reader of {self._topic} has ended") from None

    async def _deliver_current(self, batch: LogRecords) -> None:
        if batch.epoch == self._epoch:
            await self._deliver(batch)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, FirstseenError):
            logger.error("the reader of %s has ended", self._topic, exc_info=error)
            error = BrokerRefusedError(f"the reader of {self._topic} has failed: {error}")
        self._failed(error)

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                if self._calls.serve():
                    self._interval.extend()
                self._turn()
        except Exception as error:  # noqa: BLE001 - the owner must learn of it, whatever it is
            self._batches.call(self._fail, error)
        finally:
            self._calls.close()
            self._consumer.close()

    def _turn(self) -> None:
        if self._batches.full:
            with self._wake:
                self._wake.wait_for(
                    lambda: not self._batches.full or bool(self._calls) or self._closing,
                    _BLOCKED_SECONDS,
                )
            return
        # After a record polls stay long: seldom does a call follow one, which short ones are for.
        message = self._consumer.poll(self._interval.seconds)
        if message is not None:
            self._take([message, *self._consumer.consume(self._batch_records - 1, 0)])
            self._heard = time.monotonic()
        elif self._is_assigned and time.monotonic() - self._heard > _SILENT_SECONDS:
            self._check_partition()
            self._heard = time.monotonic()
        if self._error is not None:
            raise self._error

    def _take(self, messages: list[Message]) -> None:
        records = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._note(error)
            else:
                offset, (_, timestamp_ms) = message.offset() or 0, message.timestamp()
                records.append((offset, message.value() or b"", timestamp_ms))
        if records:
            self._next = records[-1][0] + 1
            self._batches.put(LogRecords(self._reading, records))

    def _assign(self, offset: int, epoch: int) -> None:
        self._consumer.assign([TopicPartition(self._topic, _PARTITION, offset)])
        self._reading, self._next = epoch, offset
        self._is_assigned = True

    def _stop_with(self, error: FirstseenError) -> None:
        """Read no more until the next ``seek``, and report why, unless that was called already."""
        epoch = self._reading

        def on_loop() -> None:
            if epoch == self._epoch:
                self._fail(error)

        self._consumer.unassign()
        self._is_assigned = False
        self._batches.call(on_loop)

    def _watermarks(self) -> tuple[int, int]:
        return offset_range(self._consumer, self._topic, _PARTITION, _ANSWER_SECONDS)

    def _note(self, error: KafkaError) -> None:
        if error.code() in _CUT:
            # More than one may come for a reading.
            if self._is_assigned and not self._is_cut():
                self._assign(self._next, self._reading)  # it was only not known for a moment
        elif topic_is_gone(error, self._consumer, self._topic):
            self._stop_with(TopicGoneError(self._topic))
        else:
            self._error = self._error or judge(error, self._topic)

    def _check_partition(self) -> None:
        """See whether the partition was deleted, or is another: a silent consumer does not say."""
        if self._is_cut() is not None:
            self._was_absent = False
            return
        was_absent, self._was_absent = self._was_absent, is_absent(self._consumer, self._topic)
        # Twice: a broker that has just started may not know it for a moment.
        if was_absent and self._was_absent:
            self._stop_with(TopicGoneError(self._topic))

    def _is_cut(self) -> bool | None:
        """Return whether what is to be read next is not there, and report it; None: not known."""
        try:
            start, end = self._watermarks()
        except KafkaException:
            return None
        if start <= self._next <= end:
            return False
        self._stop_with(LogCutError(self._topic, self._next, start, end))
        return True

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._error = self._error or judge(error, self._topic)

    def _check(self, future: Future[None]) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            assert isinstance(error, Exception)
            self._batches.call(self._fail, error)
