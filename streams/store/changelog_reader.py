"""One partition of the changelog, read from an offset to its committed end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import UnansweredError
from streams.kafka.partition_offsets import offset_range
from streams.kafka.retries import PASSING_ERRORS, is_passing, retrying
from streams.store.changelog_codec import Decoded, decode_records
from streams.topics.open_transactions import HUNG_ADVICE

logger = logging.getLogger(__name__)

_BATCH: Final = 400
_POLL_SECONDS: Final = 0.05
_AGAIN_SECONDS: Final = 0.2
_EMPTY_FETCH_MS: Final = 10
"""How long the broker may hold a fetch that finds nothing, which is how the end is known."""

TO_THE_END: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    }
)
"""Of a consumer that reads given partitions from given offsets, and learns where they end."""

Report = Callable[[int], None]
"""Called with how many records are left to read, about."""


class RecoveryError(FirstseenError):
    """The changelog cannot be read, or does not fit the store; the message says what to do."""

    reason = ErrorReason.BROKER


class LoggedBatch(NamedTuple):
    """Records read together, in order; where the log goes on, and when the last was written.

    ``log`` names the log in errors.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    offsets: list[int]
    time_ms: int
    log: str

    @classmethod
    def of(cls, messages: Sequence[Message], log: str) -> LoggedBatch:
        """Return the records of messages, which are at least one and of one partition."""
        return cls(
            [message.key() for message in messages],
            [message.value() for message in messages],
            [message.offset() or 0 for message in messages],
            messages[-1].timestamp()[1],
            log,
        )

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.offsets[-1] + 1

    def decoded(self) -> Decoded:
        """Return what the records say. Raises ``ChangelogFormatError``, which names its record."""
        return decode_records(
            self.keys, self.values, lambda index: f"{self.log}@{self.offsets[index]}"
        )


@dataclass(frozen=True, slots=True)
class Changelog:
    """The changelog of one shard, for reading from an offset to its end.

    ``config`` has a ``group.id``, which nothing is committed to: offsets are kept in the store.
    ``silence_seconds`` bounds each wait for the broker. ``interrupted`` ends a reading early.
    ``may_be_cut``: its beginning may be gone where a store has read it, as on a broker that keeps
    a few megabytes.
    """

    topic: str
    partition: int
    config: Mapping[str, Any]
    silence_seconds: float
    interrupted: threading.Event
    may_be_cut: bool = False

    def __str__(self) -> str:
        """``topic/partition``."""
        return f"{self.topic}/{self.partition}"

    def read(
        self, start: int, report: Report, is_enough: Callable[[], bool] = lambda: True
    ) -> Iterator[LoggedBatch]:
        """Yield what is committed from ``start`` to the end, as it is when reading begins.

        Where that is not enough, reading goes on until it is: a transaction that is committed may
        not be readable in all partitions yet. What other transactions leave open is not waited for.

        Raises ``RecoveryError`` where the log ends before ``start``, begins after it, lacks what
        must come, or cannot be read; ``UnansweredError`` where the broker says nothing for too
        long; ``InterruptedError`` soon after ``interrupted`` is set.
        """
        with self._consumer() as consumer:
            low, high = self._ends_with(consumer, start)
            self._check_start(start, low)
            first = max(start, low)
            report(max(0, high - first))
            consumer.assign([TopicPartition(self.topic, self.partition, first)])
            yield from self._to_end(consumer, high, report, is_enough)

    def ends(self, read_to: int = 0) -> tuple[int, int]:
        """Return the offset of the first record, and the committed end; raises as ``read`` does.

        ``read_to``: the offset that a store has read up to, before which there is no end.
        """
        with self._consumer() as consumer:
            return self._ends_with(consumer, read_to)

    @contextmanager
    def _consumer(self, isolation: str = "read_committed") -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "fetch.message.max.bytes": 8 * 1024 * 1024,
                "queued.max.messages.kbytes": 32 * 1024,
                **self.config,
                **TO_THE_END,
                "isolation.level": isolation,
                "fetch.wait.max.ms": _EMPTY_FETCH_MS,
            }
        )
        try:
            yield consumer
        except KafkaException as error:
            raise RecoveryError(f"cannot read the changelog {self}: {error}") from error
        finally:
            consumer.close()

    def _ends_with(self, consumer: Consumer, start: int) -> tuple[int, int]:
        """Return the offset of the first record, and the committed end, at or behind ``start``.

        The committed end may be less for a moment: of a broker that has just started, or while the
        markers of a transaction are on their way. Raises ``RecoveryError`` where it stays less.
        """
        low, high = self._ends(consumer)
        deadline = time.monotonic() + self.silence_seconds
        while start > high:
            if time.monotonic() > deadline:
                raise self._too_short(start, high)
            if self.interrupted.wait(_AGAIN_SECONDS):
                raise InterruptedError(f"reading {self} was interrupted before it began")
            low, high = self._ends(consumer)
        return low, high

    def _too_short(self, start: int, high: int) -> RecoveryError:
        """Return why the committed end stays before what a store has read."""
        if start <= self._end_of_all():
            return RecoveryError(
                f"the store has read the changelog {self} up to offset {start}, but committed "
                f"records can be read up to {high} only: {self._hung()}"
            )
        return RecoveryError(
            f"the store has read the changelog {self} up to offset {start}, but it ends at "
            f"{high}: the topic was deleted or created again, so committed entries are lost. "
            f"If this is another Kafka than before, delete the directory of this application id "
            f"in state_dir ('firstseen config show' has both). Else start a new index with a new "
            f"application id"
        )

    def _end_of_all(self) -> int:
        """Return the offset after the last record, those of open transactions included."""
        with self._consumer("read_uncommitted") as consumer:
            return self._ends(consumer)[1]

    def _hung(self) -> str:
        return (
            f"a transaction that begins there has had no end for {self.silence_seconds:g} s. "
            f"The store of another worker may have all of it, so delete no state directory. "
            f"{HUNG_ADVICE}"
        )

    def _check_start(self, start: int, low: int) -> None:
        if start >= low:
            return
        if not (self.may_be_cut and start):
            raise RecoveryError(
                f"the store has read the changelog {self} up to offset {start}, but it begins at "
                f"{low}: records were deleted, and their entries are not in the store. Restore "
                f"the earlier state directory of this worker, or start a new index with a new "
                f"application id. Is the topic's cleanup.policy compact, and nothing else?"
            )
        logger.warning(
            "the changelog %s begins at offset %d, the store has read it up to %d: using the "
            "store as it is",
            self,
            low,
            start,
        )

    def _ends(self, consumer: Consumer) -> tuple[int, int]:
        deadline = time.monotonic() + self.silence_seconds

        def once() -> tuple[int, int]:
            if self.interrupted.is_set():
                raise InterruptedError(f"reading {self} was interrupted before it began")
            left = max(_AGAIN_SECONDS, deadline - time.monotonic())
            return offset_range(consumer, self.topic, self.partition, left)

        try:
            return retrying(self.silence_seconds, _AGAIN_SECONDS)(once)
        except KafkaException as error:
            if not is_passing(error):
                raise
            raise UnansweredError(
                f"the broker does not return the ends of the changelog {self} within "
                f"{self.silence_seconds:g} s ({error.args[0].str()}): is it reachable, and does "
                "the topic exist?"
            ) from error

    def _to_end(
        self, consumer: Consumer, high: int, report: Report, is_enough: Callable[[], bool]
    ) -> Iterator[LoggedBatch]:
        read = 0
        at_end = False
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
                batch = LoggedBatch.of(records, str(self))
                yield batch
                report(max(0, high - batch.next_offset))
            at_end = at_end or any(self._is_end(event, high) for event in events)
            if at_end and is_enough():
                report(0)
                return
            if time.monotonic() - heard <= self.silence_seconds:
                continue
            if at_end and self._end_of_all() > high:
                raise RecoveryError(
                    f"the changelog {self} can be read up to offset {high} only, and lacks later "
                    f"commits of the group: {self._hung()}"
                )
            if at_end:
                raise RecoveryError(
                    f"the changelog {self} ends at offset {high} and lacks later commits of the "
                    f"group: records were deleted, or the group's offsets were set by "
                    "hand. Set them back, or start a new index, with a new application id and an "
                    "empty state directory"
                )
            raise UnansweredError(
                f"no data from the changelog {self} for {self.silence_seconds:g} s, after "
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
