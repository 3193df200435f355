"""Reads one internal partition in order, from any offset, outside any group: log and reports.

A new reading has a number, its *epoch*: what was fetched for an earlier one is not delivered. The
partition is never read over a gap: where the wanted offset is not there (any more), the owner
learns where it begins and ends.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import ErrorReason, FirstseenError
from streams.kafka.consumer_errors import TopicGoneError, is_absent, judge, topic_is_gone
from streams.kafka.reader_thread import ReaderThread

_PARTITION: Final = 0
_SILENT_SECONDS: Final = 2.0
"""After so long without records it is checked that the partition is still there."""
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


class LogReader(ReaderThread[LogRecords]):
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
        super().__init__(
            {**config, "error_cb": self._on_error},
            topic,
            failed,
            batch_records=batch_records,
            queued_batches=queued_batches,
        )
        self._deliver = deliver
        self._epoch = 0
        # Of the thread: what is being read.
        self._reading = 0
        self._next = 0
        self._heard_at = 0.0
        self._was_absent = False
        self._is_assigned = False
        self._error: FirstseenError | None = None

    def seek(self, offset: int) -> int:
        """Read from an offset; return the epoch of this reading. No earlier one is delivered."""
        self._epoch += 1
        epoch = self._epoch
        self._submit(lambda: self._assign(offset, epoch))
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
        return await self._offsets(_PARTITION, seconds)

    async def _deliver_current(self, item: LogRecords) -> None:
        if item.epoch == self._epoch:
            await self._deliver(item)

    # ---- the thread

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

    def _after_turn(self, heard: bool) -> None:  # noqa: FBT001 - of ReaderThread
        now = time.monotonic()
        if heard:
            self._heard_at = now
        elif self._is_assigned and now - self._heard_at > _SILENT_SECONDS:
            self._check_partition()
            self._heard_at = time.monotonic()
        if self._error is not None:
            raise self._error

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
            start, end = self._offset_range(_PARTITION)
        except KafkaException:
            return None
        if start <= self._next <= end:
            return False
        self._stop_with(LogCutError(self._topic, self._next, start, end))
        return True

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._error = self._error or judge(error, self._topic)
