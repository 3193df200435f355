"""Recovery: a block table is brought up to the end of its shard's changelog.

The table is a view of the log. It is never ahead of it, only behind, because it is written after
the commit; so the tail of the log, from the offset that the table holds, is all that is missing.
An empty table is the same case with the whole log for a tail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from simhash_core.entries import Change, Progress
from simhash_core.errors import FirstseenError, IndexMismatchError
from streams.changelog_codec import decode_change
from streams.errors import UnansweredError
from streams.passing_errors import PASSING_ERRORS
from streams.rocksdb_table import RocksBlockTable
from streams.state_codec import PROGRESS_KEY, StateDecodeError, decode_progress

_BATCH: Final = 10_000
_POLL_SECONDS: Final = 0.05
_AGAIN_SECONDS: Final = 0.2
_EMPTY_FETCH_MS: Final = 10
"""How long the broker may hold a fetch that finds nothing, which is how the end is known."""

Report = Callable[[int], None]
"""Told how many records are left to read, about."""


class RecoveryError(FirstseenError):
    """The changelog cannot be read, or does not fit the table; the message says what to do."""


class LoggedBatch(NamedTuple):
    """Records read together, in order; where the log goes on, and when the last was written.

    ``log`` names the log in errors.
    """

    keys: list[bytes]
    values: list[bytes | None]
    offsets: list[int]
    time_ms: int
    log: str

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.offsets[-1] + 1

    def changes(self) -> Iterator[Change]:
        """Yield what each record says. Raises ``ChangelogFormatError``, which names the record."""
        for key, value, offset in zip(self.keys, self.values, self.offsets, strict=True):
            yield decode_change(key, value, f"{self.log}@{offset}")


@dataclass(frozen=True, slots=True)
class Changelog:
    """The changelog of one shard, for reading from an offset to its end.

    ``config`` has a ``group.id``, which nothing is committed to: offsets are kept in the table.
    ``silence_seconds`` bounds each wait for the broker. ``interrupted`` ends a reading early.
    """

    topic: str
    partition: int
    config: Mapping[str, Any]
    silence_seconds: float
    interrupted: threading.Event

    def __str__(self) -> str:
        """``topic/partition``."""
        return f"{self.topic}/{self.partition}"

    def read(self, start: int, report: Report) -> Iterator[LoggedBatch]:
        """Yield what is committed from ``start`` to the end, as it is when it is reached.

        Raises ``RecoveryError`` where the log ends before ``start`` or cannot be read,
        ``UnansweredError`` where the broker says nothing for too long, ``InterruptedError`` soon
        after ``interrupted`` is set.
        """
        consumer = Consumer(
            {
                "fetch.message.max.bytes": 8 * 1024 * 1024,
                "queued.max.messages.kbytes": 64 * 1024,
                **self.config,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": _EMPTY_FETCH_MS,
            }
        )
        try:
            low, high = self._ends(consumer)
            if start > high:
                raise RecoveryError(
                    f"the block table has read the changelog {self} up to offset {start}, but it "
                    f"ends at {high}: the topic was deleted or made again, and with it the log of "
                    "what is committed. Begin a new index: a new application id and an empty state "
                    "directory"
                )
            report(max(0, high - max(start, low)))
            consumer.assign([TopicPartition(self.topic, self.partition, max(start, low))])
            yield from self._to_end(consumer, high, report)
        except KafkaException as error:
            raise RecoveryError(f"cannot read the changelog {self}: {error}") from error
        finally:
            consumer.close()

    def _ends(self, consumer: Consumer) -> tuple[int, int]:
        place = TopicPartition(self.topic, self.partition)
        deadline = time.monotonic() + self.silence_seconds
        reason = "no answer"
        while (left := deadline - time.monotonic()) > 0:
            if self.interrupted.is_set():
                raise InterruptedError(f"reading {self} was interrupted before it began")
            try:
                ends = consumer.get_watermark_offsets(place, left)
            except KafkaException as error:
                if error.args[0].code() not in PASSING_ERRORS:
                    raise
                reason = error.args[0].str()
                time.sleep(_AGAIN_SECONDS)
            else:
                if ends is not None:
                    return ends
        raise UnansweredError(
            f"the broker does not tell the ends of the changelog {self} within "
            f"{self.silence_seconds:g} s ({reason}): is it reachable, and does the topic exist?"
        )

    def _to_end(self, consumer: Consumer, high: int, report: Report) -> Iterator[LoggedBatch]:
        read = 0
        heard = time.monotonic()
        while True:
            if self.interrupted.is_set():
                raise InterruptedError(f"reading {self} was interrupted after {read} records")
            messages = consumer.consume(_BATCH, _POLL_SECONDS)
            records = [message for message in messages if message.error() is None]
            events = [message for message in messages if message.error() is not None]
            if records:
                heard = time.monotonic()
                read += len(records)
                batch = self._batch(records)
                yield batch
                report(max(0, high - batch.next_offset))
            if any(self._is_end(event, high) for event in events):
                report(0)
                return
            if time.monotonic() - heard > self.silence_seconds:
                raise UnansweredError(
                    f"nothing came from the changelog {self} for {self.silence_seconds:g} s, after "
                    f"{read} records and before its end at offset {high}: is the broker reachable?"
                )

    def _is_end(self, event: Message, high: int) -> bool:
        """Whether the log has been read whole; raises ``RecoveryError`` for what does not pass.

        A broker that has just become the leader may give less for a moment than is committed.
        """
        error = event.error()
        if error is None or error.code() in PASSING_ERRORS:
            return False
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name of the code
            return (event.offset() or 0) >= high
        raise RecoveryError(f"cannot read the changelog {self}: {error.str()}")

    def _batch(self, messages: Sequence[Message]) -> LoggedBatch:
        return LoggedBatch(
            [message.key() or b"" for message in messages],
            [message.value() for message in messages],
            [message.offset() or 0 for message in messages],
            messages[-1].timestamp()[1],
            str(self),
        )


def catch_up(table: RocksBlockTable, log: Changelog, identity: str, report: Report) -> int:
    """Take the tail of a shard's changelog into its table; return the number of records read.

    To be called after the owner before was fenced, when the log grows no more. Blocking. Raises
    what ``Changelog.read`` raises, ``ChangelogFormatError`` for a record that cannot be read, and
    ``IndexMismatchError`` for a log of another index than ``identity``.
    """
    progress = table.in_flight().progress
    read = 0
    for batch in log.read(progress.log_offset, report):
        try:
            progress = _progress_of(batch, progress)
            if progress.index not in {"", identity}:
                raise IndexMismatchError(f"the changelog {log}", progress.index, identity)
            progress = msgspec.structs.replace(
                progress, log_offset=batch.next_offset, log_time_ms=batch.time_ms
            )
            table.load(batch.keys, batch.values, progress)
        except StateDecodeError:
            for _ in batch.changes():
                pass  # one of them raises the error that names its record
            raise
        read += len(batch.keys)
    return read


def _progress_of(batch: LoggedBatch, before: Progress) -> Progress:
    """Return the last progress in a batch; where it has none, the one before."""
    for key, value in zip(reversed(batch.keys), reversed(batch.values), strict=True):
        if key == PROGRESS_KEY:
            return decode_progress(value or b"")
    return before
