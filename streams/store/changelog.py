"""Reads the changelog: to the end of a partition, its last progress, or as partitions grow."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import methodcaller
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import UnansweredError
from streams.kafka.clients import Consumer, offset_range
from streams.kafka.errors import PASSING_ERRORS, Retries, is_passing, judge
from streams.kafka.log_reader import ReaderThread
from streams.store.changelog_codec import Decoded, LoggedProgress, decode_records, furthest
from streams.topics.watermarks import HUNG_ADVICE

# ---- One partition, from an offset to its committed end.

logger = logging.getLogger(__name__)

_BATCH: Final = 400
_POLL_SECONDS: Final = 0.05
_AGAIN_SECONDS: Final = 0.2
_FIRST_STEP: Final = 8  # back from the end
_STEP_GROWTH: Final = 8
# How long the end that a new leader reports may lag behind acknowledged records.
_LAG_SECONDS: Final = 5.0
_EMPTY_FETCH_MS: Final = 10
"""How long the broker may hold a fetch without records; only after it does it report the end."""

TO_THE_END: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    }
)
"""Consumer configuration for reading assigned partitions from given offsets to their ends."""

_FETCH_LIMITS: Final[Mapping[str, Any]] = MappingProxyType(
    # The library refuses a larger message.max.bytes, although a consumer reads larger messages.
    {"fetch.max.bytes": 1024 * 1024, "message.max.bytes": 1024 * 1024}
)
"""The limits of one fetch. A larger answer would come too late on a slow link, again and again."""

Report = Callable[[int], None]
"""Called with the number of offsets that are left."""


class RecoveryError(FirstseenError):
    """The changelog cannot be read or does not fit the store; the message says what to do."""

    reason = ErrorReason.BROKER


class ChangelogLostError(RecoveryError):
    """The changelog ends before an offset that the store has read."""


class ChangelogBehindError(RecoveryError):
    """The changelog lacks progress that the group has committed, as its offset says."""


class LoggedBatch(NamedTuple):
    """Consecutive records of the partition ``log``; ``time_ms`` is that of the last record."""

    keys: list[bytes | None]
    values: list[bytes | None]
    offsets: list[int]
    time_ms: int
    log: str

    @classmethod
    def of(cls, messages: Sequence[Message], log: str) -> LoggedBatch:
        """Return the records of one or more messages, all of one partition."""
        return cls(
            [message.key() for message in messages],
            [message.value() for message in messages],
            [message.offset() or 0 for message in messages],
            messages[-1].timestamp()[1],
            log,
        )

    @property
    def next_offset(self) -> int:
        return self.offsets[-1] + 1

    def decoded(self) -> Decoded:
        """Decode the records; raise ``ChangelogFormatError``, which names the record."""
        return decode_records(
            self.keys, self.values, self.offsets, lambda index: f"{self.log}@{self.offsets[index]}"
        )


@dataclass(frozen=True, slots=True)
class Changelog:
    """Reads the changelog of one shard from an offset to its end."""

    topic: str
    partition: int
    config: Mapping[str, Any]  # with a group.id, although the store keeps the offsets
    silence_seconds: float  # bounds each wait for the broker
    interrupted: threading.Event = field(default_factory=threading.Event)  # ends a reading early
    # The broker may delete the beginning, like the embedded one, which keeps a few megabytes.
    may_be_cut: bool = False
    # Without transactions, a late record may have replaced the last progress.
    may_go_back: bool = False

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"

    def read(
        self,
        start: int,
        report: Report,
        lacks: Callable[[], str] = str,
        *,
        waits: bool = False,
    ) -> Iterator[LoggedBatch]:
        """Yield committed records from ``start`` to the end, as it is when reading begins.

        Reading continues while ``lacks`` returns what is missing (not ""), because a committed
        transaction may not be readable in all partitions yet. It does not wait for open
        transactions of others, unless ``waits`` says so. With ``may_go_back``, the missing part may
        have been overwritten, so reading stops a few seconds after the end.

        Raises ``ChangelogLostError`` if the log ends before ``start``; ``ChangelogBehindError`` if
        it stays incomplete; ``RecoveryError`` if it begins after ``start`` or cannot be read;
        ``UnansweredError`` if the broker is silent for too long; ``InterruptedError`` soon after
        ``interrupted`` is set.
        """
        with self.consumer() as consumer:
            low, high = self._ends_with(consumer, start)
            self._check_start(start, low)
            first = max(start, low)
            high = self._end_of_all() if waits else high
            report(max(0, high - first))
            consumer.assign([TopicPartition(self.topic, self.partition, first)])
            yield from self._to_end(consumer, high, report, lacks)

    def tails(self) -> Iterator[Iterator[LoggedBatch]]:
        """Yield readings to the end, each from further back; the last is from the beginning."""
        low, high = self.ends()
        first, step = high, _FIRST_STEP
        while first > low:
            first = max(low, high - step)
            yield self.read(first, lambda _left: None)
            step *= _STEP_GROWTH

    def ends(self, read_to: int = 0) -> tuple[int, int]:
        """Return the first offset and the committed end (``read_to`` or more); raises as `read`."""
        with self.consumer() as consumer:
            return self._ends_with(consumer, read_to)

    @contextmanager
    def consumer(self, isolation: str = "read_committed") -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "queued.max.messages.kbytes": 32 * 1024,
                **self.config,
                **TO_THE_END,
                **_FETCH_LIMITS,
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
        """Return the first offset and the committed end, at ``start`` or later.

        The committed end may be too low for a moment: after a broker start, or until transaction
        markers are written. Raises ``RecoveryError`` if it stays too low.
        """
        low, high = self.first_and_end(consumer)
        deadline = time.monotonic() + self.silence_seconds
        while start > high:
            if time.monotonic() > deadline:
                raise self._too_short(start, high)
            if self.interrupted.wait(_AGAIN_SECONDS):
                raise InterruptedError(f"reading {self} was interrupted before it began")
            low, high = self.first_and_end(consumer)
        return low, high

    def _too_short(self, start: int, high: int) -> RecoveryError:
        what = f"the store has read the changelog {self} up to offset {start}, but "
        if start <= self._end_of_all():
            return RecoveryError(
                f"{what}committed records can be read up to {high} only: {self._hung()}"
            )
        return ChangelogLostError(
            f"{what}it ends at {high}: brokers have lost records, or the topic was created again, "
            "so committed entries are lost. If this is a different Kafka cluster than before, "
            "delete the directory of this application id in state_dir ('firstseen config show' "
            "has both). Otherwise start a new index with a new application id"
        )

    def _end_of_all(self) -> int:
        with self.consumer("read_uncommitted") as consumer:
            return self.first_and_end(consumer)[1]

    def _hung(self) -> str:
        return (
            f"a transaction that begins there has not ended for {self.silence_seconds:g} s. The "
            "store of another worker may be complete, so do not delete any state directory. "
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

    def first_and_end(self, consumer: Consumer) -> tuple[int, int]:
        deadline = time.monotonic() + self.silence_seconds

        def once() -> tuple[int, int]:
            if self.interrupted.is_set():
                raise InterruptedError(f"reading {self} was interrupted before it began")
            left = max(_AGAIN_SECONDS, deadline - time.monotonic())
            return offset_range(consumer, self.topic, self.partition, left)

        try:
            return Retries(self.silence_seconds, _AGAIN_SECONDS)(once)
        except KafkaException as error:
            if not is_passing(error):
                raise
            raise UnansweredError(
                f"the broker does not return the ends of the changelog {self} within "
                f"{self.silence_seconds:g} s ({error.args[0].str()}): is it reachable, and does "
                "the topic exist?"
            ) from error

    def _to_end(
        self, consumer: Consumer, high: int, report: Report, lacks: Callable[[], str]
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
            at_end = at_end or any(self.is_end(event, high) for event in events)
            if at_end and not lacks():
                report(0)
                return
            quiet = time.monotonic() - heard
            if at_end and self.may_go_back and quiet > min(_LAG_SECONDS, self.silence_seconds):
                report(0)
                return
            if quiet <= self.silence_seconds:
                continue
            if at_end and self._end_of_all() > high:
                raise RecoveryError(
                    f"the changelog {self} can be read up to offset {high} only, and lacks later "
                    f"commits of the group: {self._hung()}"
                )
            if at_end and not high:
                raise ChangelogBehindError(
                    f"the changelog {self} has no records, but the group has committed: {lacks()}. "
                    "The topic was deleted and created again, and the entries of the index are "
                    "lost with it: start a new index with a new application id"
                )
            if at_end:
                raise ChangelogBehindError(
                    f"the changelog {self} ends at offset {high} and lacks later commits of the "
                    f"group: {lacks()}. Records were deleted, or the group's offsets were set by "
                    "hand. Set the group's offset back to that of the changelog: outputs from "
                    "there on may be written twice, and nothing is lost"
                )
            raise UnansweredError(
                f"no data from the changelog {self} for {self.silence_seconds:g} s, after "
                f"{read} records and before its end at offset {high}: is the broker reachable?"
            )

    def is_end(self, event: Message, high: int) -> bool:
        """Return whether the log was read to its end; raise ``RecoveryError`` for permanent errors.

        A new leader may report a lower end for a moment.
        """
        error = event.error()
        if error is None or error.code() in PASSING_ERRORS:
            return False
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the public name of the code
            return (event.offset() or 0) >= high
        raise RecoveryError(f"cannot read the changelog {self}: {error.str()}")


# ---- The last progress of many partitions.


def last_progress(
    topic: str, partitions: Collection[int], config: Mapping[str, Any], timeout_seconds: float
) -> dict[int, LoggedProgress]:
    """Return the last committed progress of each partition that has one; none goes back.

    Each transaction ends with a progress record, so the first step back nearly always finds it.
    One consumer reads all partitions, because a new one for each of a thousand takes 16 s and more.
    ``config`` is librdkafka's, with a ``group.id``; ``timeout_seconds`` bounds each wait. Blocking.
    Raises ``RecoveryError``, ``ChangelogFormatError`` and ``UnansweredError``.
    """
    logs = {
        each: Changelog(topic, each, config, timeout_seconds, may_be_cut=True)
        for each in partitions
    }
    found: dict[int, LoggedProgress] = {}
    step = _FIRST_STEP
    while logs:
        # A new consumer for each step: events of the step before cannot reach it.
        with next(iter(logs.values())).consumer() as consumer:
            ranges = {each: log.first_and_end(consumer) for each, log in logs.items()}
            starts = {
                each: max(low, high - step) for each, (low, high) in ranges.items() if high > low
            }
            highs = {each: ranges[each][1] for each in starts}
            consumer.assign([TopicPartition(topic, *place) for place in starts.items()])
            for partition, batch in _tails(consumer, logs, highs, timeout_seconds):
                progress = furthest(found.get(partition), batch.decoded().progress)
                if progress is not None:
                    found[partition] = progress
        logs = {
            each: logs[each]
            for each, start in starts.items()
            if each not in found and start > ranges[each][0]
        }
        step *= _STEP_GROWTH
    return found


def _tails(
    consumer: Consumer,
    logs: Mapping[int, Changelog],
    highs: Mapping[int, int],
    timeout_seconds: float,
) -> Iterator[tuple[int, LoggedBatch]]:
    """Yield records of assigned partitions until each was read to its end in ``highs``."""
    unread, some_log = set(highs), next(iter(logs.values()))  # an error may be of no partition
    heard = time.monotonic()
    while unread:
        messages = consumer.consume(_BATCH, _POLL_SECONDS)
        for partition, group in groupby(messages, methodcaller("partition")):
            log, records = logs.get(partition, some_log), []
            for message in group:
                if message.error() is None:
                    records.append(message)
                elif log.is_end(message, highs.get(partition, 0)):
                    unread.discard(partition)
                    heard = time.monotonic()
            if records:
                yield partition, LoggedBatch.of(records, str(log))
                heard = time.monotonic()
        if unread and time.monotonic() - heard > timeout_seconds:
            raise UnansweredError(
                f"no data from the changelog {logs[min(unread)]} for {timeout_seconds:g} s, "
                f"before its end at offset {highs[min(unread)]}: is the broker reachable?"
            )


# ---- Follows changelog partitions as their owners commit, with one consumer in its own thread.

_FOLLOWED_BATCH: Final = 50
"""The batch is small, because the event loop writes each record, which may be a whole packet."""
_QUEUED_BATCHES: Final = 4
_FOLLOWED_EMPTY_FETCH_MS: Final = 100  # see ``_EMPTY_FETCH_MS``
_LOOK_SECONDS: Final = 0.01


class _Read(NamedTuple):
    partition: int
    number: int  # of the ``follow`` call
    records: LoggedBatch | None  # None: only the end was seen
    next: int


class ChangelogFollower(ReaderThread[_Read]):
    """Delivers committed records of partitions to the event loop, batch by batch."""

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        deliver: Callable[[int, LoggedBatch], Awaitable[None]],
    ) -> None:
        """Connect in the background; ``config`` is librdkafka's, with a ``group.id``."""
        super().__init__(
            {
                **config,
                **TO_THE_END,
                **_FETCH_LIMITS,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": _FOLLOWED_EMPTY_FETCH_MS,
                "queued.max.messages.kbytes": 16 * 1024,
            },
            topic,
            batch_records=_FOLLOWED_BATCH,
            queued_batches=_QUEUED_BATCHES,
        )
        self._deliver = deliver
        self._filled = asyncio.Event()
        self._delivery: asyncio.Task[None] | None = None
        self._number = 0
        self._numbers: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        self._lags: dict[int, int] = {}
        # Only the thread uses this: the partitions that it reads.
        self._reading: dict[int, int] = {}

    # ---- on the loop

    def begin(self, failed: Callable[[FirstseenError], object]) -> None:
        """Start to deliver; ``failed`` is called with the error that stops the follower."""
        self.open(self._filled.set, failed)
        self._delivery = asyncio.ensure_future(self._deliver_all())

    async def close(self) -> None:
        if self._delivery is not None:
            self._delivery.cancel()
            await asyncio.wait([self._delivery])
        await super().close()

    async def _deliver_all(self) -> None:
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                while (read := self._batches.take()) is not None:
                    await self._deliver_current(read)
        except Exception as error:  # noqa: BLE001 - whatever the owner raises is the owner's to judge
            self._fail(error)

    def follow(self, partition: int, offset: int) -> None:
        self._number += 1
        number = self._numbers[partition] = self._number
        self._delivered[partition] = offset
        self._submit(lambda: self._assign(partition, offset, number))

    def leave(self, partition: int) -> None:
        if self._numbers.pop(partition, None) is not None:
            del self._delivered[partition]
            self._submit(lambda: self._unassign(partition))

    def position(self, partition: int) -> int:
        """Return the offset up to which a followed partition was delivered."""
        return self._delivered.get(partition, 0)

    async def end(self, partition: int, seconds: float) -> int:
        return (await self._offsets(partition, seconds))[1]

    async def reach(self, partition: int, offset: int, seconds: float) -> bool:
        """Wait until all before an offset is delivered; return False if it takes longer."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.position(partition) < offset:
            if partition not in self._numbers or asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    @property
    def lag(self) -> int:
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
        for partition, group in groupby(messages, methodcaller("partition")):
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
            elif (failure := judge(error, self._topic)) is not None:
                raise failure
        if number is None:
            return
        if records:
            batch = LoggedBatch.of(records, f"{self._topic}/{partition}")
            self._batches.put(_Read(partition, number, batch, batch.next_offset))
            place = TopicPartition(self._topic, partition)
            _, high = self._consumer.get_watermark_offsets(place, cached=True)
            self._lags[partition] = max(0, high - batch.next_offset)
        if end is not None:
            self._batches.put(_Read(partition, number, None, end))
            self._lags[partition] = 0

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
