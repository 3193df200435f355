"""Sends documents to a topic, with acknowledgements and at a given rate.

The embedded broker drops records that a worker reads too slowly
(``streams.kafka.embedded_broker``). With that broker, the sender regularly waits for the worker of
the application id.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from streams.errors import BrokerRefusedError, BrokerUnavailableError, Problem, SettingsError
from streams.kafka.client_config import client_config
from streams.kafka.clients import Consumer, Producer, committed_offsets
from streams.kafka.errors import Retries, becomes_true
from streams.settings.registry import schema_formats
from streams.settings.settings import MESSAGE_OVERHEAD_BYTES, MIB, Settings

_POLL_SECONDS: Final = 0.1
_LINGER_MS: Final = 20
_READ_SECONDS: Final = 0.02
_OVERHEAD_BYTES: Final = 97
"""A record in its own batch has 61 bytes of header, and at most 36 of lengths and deltas."""
_QUEUE_MESSAGES: Final = 10_000
_QUEUE_KBYTES: Final = 64 * 1024
_GRACE_SECONDS: Final = 5.0
_UNREAD_BYTES: Final = 2 * MIB
"""After so many bytes the sender waits until the worker has read them. This is less than half of
what the embedded broker keeps per partition."""
_UNREACHABLE: Final = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._TRANSPORT,  # noqa: SLF001 - a public code of librdkafka
    }
)


def longest_value_bytes(settings: Settings) -> int:
    """Return a length above the filter's limit, so that the filter rejects longer texts."""
    return max(2 * MIB, settings.largest_output_bytes)


class DocumentSender:
    """Sends to one topic; a context manager.

    With ``paced`` it waits for the worker, which the embedded broker needs. Without ``per_second``
    it sends as fast as the broker accepts.
    """

    def __init__(
        self, settings: Settings, topic: str, *, paced: bool, per_second: float | None
    ) -> None:
        """Raise ``SettingsError`` for the raw topic of a filter that does not read JSON."""
        if topic == settings.topics.raw and schema_formats(settings.fields):
            raise SettingsError([_no_json(settings)])
        self.acknowledged = 0
        self.refused: list[str] = []
        self._settings = settings
        self._topic = topic
        self._rate = _Rate(per_second)
        self._seconds = settings.send_timeout_seconds
        self._failure: KafkaError | None = None
        self._sent = 0
        self._alone: list[_Document] = []
        """Documents of batches that were too large as a whole; each is sent again in its own
        batch."""
        longest = longest_value_bytes(settings) + MESSAGE_OVERHEAD_BYTES
        self._producer = Producer(
            client_config(
                settings,
                enable_idempotence=True,
                linger_ms=_LINGER_MS,
                compression_type="lz4",
                message_max_bytes=longest,
                message_timeout_ms=round(self._seconds * 1000),
                queue_buffering_max_messages=_QUEUE_MESSAGES,
                queue_buffering_max_kbytes=_QUEUE_KBYTES,
            )
        )
        self._unread_bytes = 0
        self._ends: dict[int, int] = {}  # the ends of partitions, from acknowledgements
        self._group: Consumer | None = None
        if paced:
            # The embedded broker creates a topic when a producer requests its metadata, but not
            # when a consumer does.
            self._producer.list_topics(topic, timeout=self._seconds)
            self._group = Consumer(client_config(settings, group_id=settings.application_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.purge()
        self._producer.flush(_GRACE_SECONDS)
        self._producer.close()
        if self._group is not None:
            self._group.close()

    def send(self, key: bytes | None, value: bytes, where: str) -> None:
        while (wait := self._rate.seconds_left()) > 0:
            self._producer.poll(min(wait, _POLL_SECONDS))
        self._raise_failure()
        if self._alone:
            self._await_acknowledged()
        if self._group is not None:
            size = len(key or b"") + len(value) + _OVERHEAD_BYTES
            if self._unread_bytes + size > _UNREAD_BYTES:
                self._await_read(self._group)
            self._unread_bytes += size
        self._sent += 1
        self._produce(_Document(key, value, where), is_alone=False)

    def finish(self) -> None:
        self._await_acknowledged()

    def _await_acknowledged(self) -> None:
        self._drain()
        while self._alone:
            self._produce(self._alone.pop(0), is_alone=True)
            self._drain()

    def _drain(self) -> None:
        def is_empty() -> bool:
            self._raise_failure()
            return not len(self._producer)  # a client has a length, but no truth value

        if not becomes_true(
            is_empty, self._seconds + _GRACE_SECONDS, _POLL_SECONDS, pause=self._producer.poll
        ):
            raise BrokerUnavailableError(self._outcome("no answer"))
        self._raise_failure()

    def _await_read(self, group: Consumer) -> None:
        self._await_acknowledged()

        def is_read() -> bool:
            partitions = [TopicPartition(self._topic, each) for each in self._ends]
            committed = committed_offsets(group, partitions, self._seconds)
            return all(each.offset >= self._ends[each.partition] for each in committed)

        if self._ends and not becomes_true(is_read, self._seconds, _READ_SECONDS):
            raise BrokerRefusedError(
                f"no worker of the application {self._settings.application_id!r} reads "
                f"{self._topic}, and the embedded broker is full: start a worker"
            )
        self._unread_bytes = 0

    def _produce(self, document: _Document, *, is_alone: bool) -> None:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged += 1
                self._ends[message.partition() or 0] = (message.offset() or 0) + 1
            elif error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                self._failure = self._failure or error
            elif is_alone:
                self.refused.append(document.where)
            else:
                self._alone.append(document)

        def once() -> None:
            self._raise_failure()
            self._producer.produce(self._topic, document.value, document.key, on_delivery=report)

        try:
            try:
                once()
            except BufferError:
                seconds = self._seconds + _GRACE_SECONDS
                Retries(seconds, _POLL_SECONDS, _is_full, pause=self._producer.poll)(once)
            self._producer.poll(0)
        except BufferError:
            raise BrokerUnavailableError(self._outcome("no answer")) from None
        except KafkaException as error:
            self._failure = error.args[0]
            self._raise_failure()

    def _raise_failure(self) -> None:
        failure = self._failure
        if failure is None:
            return
        message = self._outcome(failure.str())
        if failure.code() in _UNREACHABLE:
            raise BrokerUnavailableError(
                f"{message}. Is the broker at {self._settings.brokers} up?"
            )
        raise BrokerRefusedError(message)

    def _outcome(self, reason: str) -> str:
        return (
            f"topic {self._topic}: {self.acknowledged:,} of {self._sent:,} documents were "
            f"acknowledged, then: {reason}"
        )


def _is_full(error: BaseException) -> bool:
    return isinstance(error, BufferError)


class _Document(NamedTuple):
    key: bytes | None
    value: bytes
    where: str


def _no_json(settings: Settings) -> Problem:
    name, value = next(iter(schema_formats(settings.fields).items()))
    return Problem(
        name,
        repr(value),
        "the settings",
        "documents are sent as JSON, with their ids as keys, and would become dead letters: send "
        "with a serializer of the schema registry, or to another topic",
    )


class _Rate:
    """A rate limit; after a delay, at most one second's documents come in a burst."""

    def __init__(self, per_second: float | None) -> None:
        self._interval = 0.0 if per_second is None else 1.0 / per_second
        self._due = time.monotonic()

    def seconds_left(self) -> float:
        if not self._interval:
            return 0.0
        now = time.monotonic()
        if self._due > now:
            return self._due - now
        self._due = max(self._due, now - 1.0) + self._interval
        return 0.0
