"""Producers: records are sent to a broker, and acknowledged one by one or appended in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Message

from simhash_core.documents import SourcePosition
from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka.client_config import logger as client_logger
from streams.kafka.clients import Producer
from streams.kafka.errors import (
    AbortedError,
    Retries,
    StaleGenerationError,
    TopicDeletedError,
    UnverifiedError,
)
from streams.kafka.thread_bridge import joined

# ---- A record to send, and why one is refused.

_NAMED: Final = 3


class ProducerRecord(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None  # None: Kafka chooses by the key
    timestamp_ms: int | None = None  # None: the time of sending
    headers: Sequence[tuple[str, bytes | None]] = ()
    about: Sequence[SourcePosition] = ()  # the raw records from which it comes, for messages

    @property
    def size(self) -> int:
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class DeliveryError(FirstseenError):
    reason = ErrorReason.BROKER


class RecordTooLargeError(DeliveryError):
    """A topic rejects records of this size; sending them again does not help."""

    def __init__(self, refused: Sequence[ProducerRecord]) -> None:
        """Name the largest of ``refused``, which is not empty."""
        record = max(refused, key=lambda record: record.size)
        contents = ", ".join(map(str, record.about[:_NAMED])) or "an internal record"
        more = len(record.about) - _NAMED
        cause = "its max.message.bytes was lowered"
        if not record.about:
            cause += (
                ", or a tombstone or a document that replaces others removes more entries than one "
                "record can name (then raise batch.bundles of all workers first)"
            )
        super().__init__(
            f"{record.topic} refuses a record of {record.size} bytes "
            f"({contents}{f' and {more} more' if more > 0 else ''}): {cause}. 'firstseen topics "
            "check' shows the required value. Raise it and start again; nothing is lost"
        )


def is_too_large(error: KafkaError) -> bool:
    return error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}


# ---- The records of one commit, and their delivery reports.

_POLL_SECONDS: Final = 0.05
_METADATA_SECONDS: Final = 5.0
_ANY_PARTITION: Final = -1
_NOW_MS: Final = 0  # librdkafka replaces it by the time of sending
_FIRST_MS: Final = 1  # so for the time 0, the nearest time that it can send
_NOT_KNOWN_YET: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - a public code of librdkafka
    }
)
"""The errors for a partition that was added after the client's last metadata request."""


_DROPPED: Final = frozenset(
    {
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._PURGE_QUEUE,  # noqa: SLF001 - a public code of librdkafka
    }
)
"""The errors of records that are not sent, because another one has made their transaction fail."""
_NO_OFFSET: Final = "the broker has the record already, and no longer knows its offset"
_Report = Callable[[KafkaError | None, Message], None] | None


def _offset_of(message: Message) -> int | None:
    """Return the offset of an acknowledged record, or None if it is unknown.

    A broker knows the offsets of the last five batches of an idempotent producer, and of the last
    one after a restart. If it has an earlier one already, it answers a repeated request with
    ``DUPLICATE_SEQUENCE_NUMBER``, which librdkafka reports as success without an offset.
    """
    offset = message.offset()
    return None if offset is None or offset < 0 else offset


class Deliveries:
    def __init__(self, records: Sequence[ProducerRecord], changelog_topic: str) -> None:
        self.records = records
        self.failures: list[str] = []  # the errors of records, except of those that
        self.too_large: list[ProducerRecord] = []  # are too large, or
        self.dropped = 0  # were not sent because of another one
        self.unplaced = ""  # where the last record of a changelog partition has no known offset
        self.next_offsets: dict[int, int] = {}  # after the last record of a changelog partition
        self._last: dict[int, int] = {
            record.partition: index
            for index, record in enumerate(records)
            if record.topic == changelog_topic and record.partition is not None
        }

    def produce(self, producer: Producer, *, deadline: float, reports: bool) -> None:
        """Give all records to librdkafka; with ``reports``, request a report on each.

        Otherwise only the last record of each changelog partition gets a report, because each
        report delays the event loop. Waits until ``deadline`` (monotonic) for space in the client's
        queue. Raises ``UnansweredError`` if there is no space, ``RecordTooLargeError``,
        ``DeliveryError``.
        """
        last = set(self._last.values())
        for index, record in enumerate(self.records):
            report = partial(self._note, record) if reports or index in last else None
            _produce(producer, record, report, deadline)

    def raise_too_large(self) -> None:
        if self.too_large:
            raise RecordTooLargeError(self.too_large)

    def unreported(self) -> bool:
        return bool(self.failures or self.dropped) or set(self._last) != set(self.next_offsets)

    def _note(self, record: ProducerRecord, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition = record.partition
            if partition in self._last and record is self.records[self._last[partition]]:
                offset = _offset_of(message)
                if offset is None:
                    self.unplaced = f"{record.topic}/{partition}: {_NO_OFFSET}"
                else:
                    self.next_offsets[partition] = offset + 1
        elif is_too_large(error):
            self.too_large.append(record)
        elif error.code() in _DROPPED:
            self.dropped += 1
        else:
            self.failures.append(f"{record.topic}: {error.str()}")


def _produce(producer: Producer, record: ProducerRecord, report: _Report, deadline: float) -> None:
    try:
        _send(producer, record, report)
    except (BufferError, KafkaException) as error:
        # This is a separate function, because preparing a retry takes longer than the call.
        _send_again(producer, record, report, deadline, error)


def _send(producer: Producer, record: ProducerRecord, report: _Report) -> None:
    topic, key, value, partition, timestamp_ms, headers, _ = record
    producer.produce(
        topic,
        value,
        key,
        partition=_ANY_PARTITION if partition is None else partition,
        on_delivery=report,
        timestamp=_NOW_MS if timestamp_ms is None else timestamp_ms or _FIRST_MS,
        headers=headers if isinstance(headers, list) else list(headers),
    )


def _send_again(
    producer: Producer,
    record: ProducerRecord,
    report: _Report,
    deadline: float,
    reason: BufferError | KafkaException,
) -> None:
    topic = record.topic

    def may_pass(error: BaseException) -> bool:
        if isinstance(error, KafkaException) and error.args[0].code() in _NOT_KNOWN_YET:
            # The client alone would update its metadata only minutes later.
            with contextlib.suppress(KafkaException):
                producer.list_topics(topic, timeout=_METADATA_SECONDS)
            return True
        return isinstance(error, BufferError)

    try:
        if not may_pass(reason):
            raise reason
        left = deadline - time.monotonic()
        again = Retries(left, _POLL_SECONDS, may_pass, pause=producer.poll)
        again(_send, producer, record, report)
    except BufferError:
        raise UnansweredError(
            f"the send buffer for {topic} is full: the broker has accepted nothing for too long. "
            f"Is it reachable? (send_timeout_seconds bounds the wait)"
        ) from None
    except KafkaException as error:
        if is_too_large(error.args[0]):
            raise RecordTooLargeError([record]) from error
        raise DeliveryError(f"cannot send to {topic}: {error}") from error


async def _unchecked() -> None:
    pass


class CommitChecks(NamedTuple):
    """Called before the end of a transaction; each may raise any ``FirstseenError``.

    ``sent`` gets the offsets that ``commit`` will return, in any thread. ``read`` is called on the
    loop if brokers may have failed since the last commit. ``failures``: how many failures the
    caller knows; after another one, the commit raises ``UnverifiedError``. None: it ignores them.
    """

    sent: Callable[[Mapping[int, int]], None] = lambda _: None
    read: Callable[[], Coroutine[Any, Any, None]] = _unchecked
    failures: int | None = None


UNCHECKED: Final = CommitChecks()


# ---- Whether connections have failed. Brokers that lost power may lack records.

_BROKEN: Final = frozenset({"FAIL", "REQTMOUT"})
"""librdkafka's log facilities for a connection that failed, and for requests without a response."""
_INFO: Final = 6  # librdkafka's level of these lines


class ConnectionLog:
    """A producer's logger, which notes whether a connection failed.

    librdkafka (2.16) calls no ``error_cb`` when an established connection breaks.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.has_failed = False
        self._logger = logger

    @staticmethod
    def lines(config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with which librdkafka writes these lines."""
        level = max(_INFO, int(config.get("log_level", _INFO)))
        return {"log.connection.close": True, "log_level": level}

    def log(self, level: int, form: str, facility: str, *texts: str) -> None:
        self.has_failed |= facility in _BROKEN
        self._logger.log(level, form, facility, *texts)


# ---- At least once: records are sent and acknowledged, then the raw offsets are committed.
#
# After a crash between the two steps, the next owner sends the same records again.


class AcknowledgedProducer:
    """Sends batches in order, idempotently. Blocking, for one thread."""

    def __init__(
        self, config: Mapping[str, Any], answer_seconds: float, *, changelog_topic: str = ""
    ) -> None:
        self._answer_seconds = answer_seconds
        self._changelog_topic = changelog_topic
        self._log = ConnectionLog(config.get("logger", client_logger))
        self._config = {
            **config,
            **ConnectionLog.lines(config),
            "logger": self._log,
            "enable.idempotence": True,
            # After a rejected record, nothing more is delivered to its partition. That guarantee
            # does not cover records that time out, so records never time out: ``send`` ends the
            # wait.
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,
        }
        self._producer: Producer | None = None
        self._failed = 0

    def send(self, records: Sequence[ProducerRecord]) -> dict[int, int]:
        """Send records and wait for all acknowledgements.

        Returns by changelog partition the offset after the last record. Raises
        ``RecordTooLargeError``, or ``UnansweredError`` if the outcome is unknown.
        """
        producer = self._producer = self._producer or Producer(self._config)
        deliveries = Deliveries(records, self._changelog_topic)
        deadline = time.monotonic() + self._answer_seconds
        try:
            deliveries.produce(producer, deadline=deadline, reports=True)
            left = producer.flush(max(0.0, deadline - time.monotonic()) + 1.0)
        except (KafkaException, SystemError) as error:
            self.close()
            deliveries.raise_too_large()
            raise _fatal(error, records) from error
        except Exception:
            self.close()
            raise
        if left or deliveries.too_large or deliveries.unreported():
            self.close()  # records in its queue are dropped, and all are sent again
            deliveries.raise_too_large()
            if deliveries.unplaced:
                raise UnansweredError(deliveries.unplaced)
            raise UnansweredError(
                f"{left or len(deliveries.failures)} records were not acknowledged within "
                f"{self._answer_seconds:g} s: "
                f"{next(iter(deliveries.failures), 'is the broker reachable?')} "
                "(send_timeout_seconds bounds the wait)"
            )
        return deliveries.next_offsets

    def failures(self) -> int:
        """Return how often a connection is known to have failed; several at a time count once."""
        if self._producer is not None:
            self._producer.poll(0)  # this calls back for log lines
        if self._log.has_failed:
            self._log.has_failed = False
            self._failed += 1
            self.close()  # librdkafka logs the same failure only once in 30 s
        return self._failed

    def close(self) -> None:
        self._producer = None


class SendClient(Protocol):
    """The methods are those of ``AcknowledgedProducer``."""

    async def send(self, records: Sequence[ProducerRecord]) -> dict[int, int]: ...

    async def failures(self) -> int: ...

    async def close(self) -> None: ...


class SendThread:
    """An ``AcknowledgedProducer`` in its own thread."""

    def __init__(
        self, config: Mapping[str, Any], *, changelog_topic: str, answer_seconds: float
    ) -> None:
        self._producer = AcknowledgedProducer(
            config, answer_seconds, changelog_topic=changelog_topic
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sends")

    async def send(self, records: Sequence[ProducerRecord]) -> dict[int, int]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._producer.send, records)

    async def failures(self) -> int:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._producer.failures)

    async def close(self) -> None:
        self._producer.close()
        self._thread.shutdown(wait=False)


class AcknowledgedSends:
    """Commits without transactions, with the same interface as ``OutputTransactions``."""

    def __init__(
        self,
        client: SendClient,
        commit_offsets: Callable[[Mapping[int, int], str], Awaitable[None]],
        *,
        changelog_topic: str,
    ) -> None:
        """``commit_offsets`` is ``RawConsumer.commit``, called after all acknowledgements."""
        self._client = client
        self._commit_offsets = commit_offsets
        self._changelog_topic = changelog_topic

    async def open(self) -> None: ...

    async def failures(self) -> int:
        return await self._client.failures()

    async def commit(
        self,
        records: Sequence[ProducerRecord],
        offsets: Mapping[int, int],
        group_metadata: bytes,  # noqa: ARG002 - the consumer itself commits here
        note: str = "",
        ends: Mapping[int, int] = MappingProxyType({}),
        checks: CommitChecks = UNCHECKED,
    ) -> dict[int, int]:
        outputs = [each for each in records if each.topic != self._changelog_topic]
        changes = [each for each in records if each.topic == self._changelog_topic]
        await self._refuse_unverified(checks)
        # Outputs are sent first, because a crash would lose them if their progress were already
        # stored.
        if outputs:
            await self._client.send(outputs)
            await self._refuse_unverified(checks)
        failures = await self.failures()
        sent = await self._client.send(changes)
        if outputs and await self.failures() > failures:
            await self._client.send(outputs)  # their progress is stored, and they may be lost
        if own := in_place(offsets, sent, ends):
            await offsets_after_sends(self._commit_offsets(own, note))
        return sent

    async def _refuse_unverified(self, checks: CommitChecks) -> None:
        if checks.failures is not None and await self.failures() > checks.failures:
            raise UnverifiedError("a connection to a broker has failed")

    async def close(self) -> None:
        await self._client.close()


def in_place(
    offsets: Mapping[int, int], sent: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, int]:
    """Return the raw offsets of partitions whose changelog ends at the expected offset."""
    return {
        partition: offset
        for partition, offset in offsets.items()
        if partition not in ends or sent.get(partition) == ends[partition]
    }


async def offsets_after_sends(commit: Awaitable[None]) -> None:
    """Await the commit of offsets whose records are sent; raises ``UnansweredError``.

    If the commit is refused, the changelog has entries and progress that the store does not have. A
    second commit could leave out an entry that was removed since then, and the entry in the first
    one's records would remain.
    """
    try:
        await commit
    except (AbortedError, StaleGenerationError) as error:
        raise UnansweredError(f"records are sent, and {error}") from error


def _fatal(
    error: KafkaException | SystemError, records: Sequence[ProducerRecord]
) -> RecordTooLargeError | UnansweredError:
    """Return the error for a client that has stopped for good.

    It stops if a record was rejected and later records may have been accepted. A later report fails
    with this exception as its cause.
    """
    cause = error if isinstance(error, KafkaException) else error.__cause__
    if KafkaError(KafkaError.MSG_SIZE_TOO_LARGE).str() in str(cause):
        return RecordTooLargeError(records)
    return UnansweredError(f"a record was not delivered to {records[0].topic}: {cause or error}")


# ---- Appends packets, control records and reports to internal topics of one partition.
#
# The producer is idempotent. Without an acknowledgement, it is unknown whether the record is in the
# log, but the log's chains make it harmless to append the record again.
#
# While appends are not acknowledged, later ones wait and are then sent together. With five or more
# records without acknowledgement, an idempotent librdkafka client (2.16) sends no more to a
# partition, and its thread polls without a pause, which took up to 50 µs of CPU per document.
# Fewer, larger requests are also less work for the broker.

logger = logging.getLogger(__name__)

_PARTITION: Final = 0
# The longest wait for the thread to end; reports end a poll early.
_APPENDER_POLL_SECONDS: Final = 0.5
_REFUSED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_RECORD,
    }
)
_CHECK: Final = (
    ". Was a setting of the topic changed, such as cleanup.policy? 'firstseen topics check' shows "
    "which one. Correct it and start again; nothing is lost"
)


class AppendUnknownError(FirstseenError):
    reason = ErrorReason.TIMEOUT


class Appender:
    """An idempotent producer; its thread passes its reports to the event loop in groups."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._producer = Producer(config)
        self._thread = threading.Thread(target=self._run, name="appender", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[int]] = set()
        self._queued: list[tuple[str, bytes, asyncio.Future[int]]] = []
        self._unanswered = 0
        self._is_sending_soon = False
        self._reports: list[Callable[[], None]] = []
        self._takes_more = True
        self._closing = False
        self._is_fatal = False
        self._ended: list[Producer] = []

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self, seconds: float = 1.0) -> None:
        """Wait for unacknowledged appends; nothing more is sent."""
        self._takes_more = False
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=seconds)
        self._closing = True
        await joined(self._thread, seconds)
        for future in list(self._waiting):
            _resolve(future, AppendUnknownError("the worker stopped before the broker answered"))

    def append(self, topic: str, value: bytes) -> asyncio.Future[int]:
        assert self._loop is not None
        future: asyncio.Future[int] = self._loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        if self._takes_more:
            self._queued.append((topic, value, future))
            self._send_soon()
        return future

    def _send_soon(self) -> None:
        """Send after the event loop's current callback, which may append more records."""
        if self._queued and not self._unanswered and not self._is_sending_soon:
            assert self._loop is not None
            self._is_sending_soon = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_sending_soon = False
        queued, self._queued = self._queued, []
        for topic, value, future in queued:
            self._produce(topic, value, future)

    def _produce(self, topic: str, value: bytes, future: asyncio.Future[int]) -> None:
        if self._is_fatal:
            # The client no longer knows the order of its records and stops. A new client replaces
            # it; the old one still delivers its reports.
            self._is_fatal = False
            self._ended.append(self._producer)
            self._producer = Producer(self._config)
        report = partial(self._report, topic, len(value), future)
        try:
            self._producer.produce(topic, value, partition=_PARTITION, on_delivery=report)
        except BufferError:
            _resolve(
                future, AppendUnknownError(f"{topic}: too many records are waiting for the broker")
            )
        except KafkaException as error:
            _resolve(future, _meaning(error.args[0], topic, len(value)))
        else:
            self._unanswered += 1

    def _run(self) -> None:
        while not self._closing:
            self._poll(self._producer, _APPENDER_POLL_SECONDS)
            for ended in list(self._ended):
                self._poll(ended, 0)
                if not len(ended):  # a client has a length, but no truth value
                    self._ended.remove(ended)
            reports, self._reports = self._reports, []
            if reports:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    assert self._loop is not None
                    self._loop.call_soon_threadsafe(self._answered, reports)

    def _answered(self, reports: list[Callable[[], None]]) -> None:
        self._unanswered -= len(reports)
        for report in reports:
            report()
        self._send_soon()

    def _report(
        self,
        topic: str,
        size: int,
        future: asyncio.Future[int],
        error: KafkaError | None,
        message: Message,
    ) -> None:
        if error is None:
            offset = _offset_of(message)
            unknown = AppendUnknownError(f"{topic}: {_NO_OFFSET}")
            self._reports.append(partial(_resolve, future, unknown if offset is None else offset))
        else:
            self._is_fatal = self._is_fatal or error.fatal()
            self._reports.append(partial(_resolve, future, _meaning(error, topic, size)))

    def _poll(self, producer: Producer, seconds: float) -> None:
        try:
            producer.poll(seconds)
        except KafkaException as error:  # a fatal one, as after brokers have lost records
            if producer is self._producer:
                logger.warning("restarting the producer of the log: %s", error.args[0].str())
                self._is_fatal = True


def _meaning(error: KafkaError, topic: str, size: int) -> FirstseenError:
    if is_too_large(error):
        return RecordTooLargeError([ProducerRecord(topic, None, bytes(size))])
    if error.code() in {*_NOT_KNOWN_YET, KafkaError.UNKNOWN_TOPIC_OR_PART}:
        return TopicDeletedError(topic)
    if error.code() in _REFUSED:
        fix = _CHECK if error.code() == KafkaError.INVALID_RECORD else ""
        return BrokerRefusedError(f"a record was not appended to {topic}: {error.str()}{fix}")
    return AppendUnknownError(f"unknown whether {topic} has a record: {error.str()}")


def _resolve(future: asyncio.Future[int], result: int | FirstseenError) -> None:
    if future.done():
        return
    if isinstance(result, FirstseenError):
        future.set_exception(result)
    else:
        future.set_result(result)
