"""Sends documents to a topic: acknowledged, at a rate where one is asked for, never in silence.

On the embedded broker, which drops what a worker is too slow to read
(``streams.kafka.embedded_broker``), it waits for the worker of the application id.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.errors import BrokerRefusedError, BrokerUnavailableError
from streams.kafka.command_config import librdkafka_config
from streams.kafka.committed_offsets import CommittedOffsets
from streams.kafka.paced_producer import (
    LIMIT_BYTES,
    ConsumerTooSlowError,
    DeliveryReport,
    PacedProducer,
)
from streams.settings.flow import MIB
from streams.settings.settings import MESSAGE_OVERHEAD_BYTES, Settings

_POLL_SECONDS: Final = 0.1
_LINGER_MS: Final = 20
_QUEUE_MESSAGES: Final = 10_000
_QUEUE_KBYTES: Final = 64 * 1024
_GRACE_SECONDS: Final = 5.0
_UNREACHABLE: Final = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._TRANSPORT,  # noqa: SLF001 - a public code of librdkafka
    }
)


def longest_value_bytes(settings: Settings) -> int:
    """The longest value that is sent at all.

    Above what the filter takes, so that it is the filter, with a dead letter, that says no.
    """
    return max(2 * MIB, settings.largest_output_bytes)


class DocumentSender:
    """Sends to one topic; entered, it is connected, and left, it has let go.

    ``paced``: wait for the worker, as the embedded broker needs it. ``per_second`` None: as fast
    as the broker takes it.
    """

    def __init__(
        self, settings: Settings, topic: str, *, paced: bool, per_second: float | None
    ) -> None:
        """Connect in the background."""
        self.acknowledged = 0
        self.refused: list[str] = []
        """Where those came from that the broker found too large."""
        self._settings = settings
        self._topic = topic
        self._rate = _Rate(per_second)
        self._seconds = settings.send_timeout_seconds
        self._failure: KafkaError | None = None
        self._given = 0
        self._alone: list[_Document] = []
        """Those of batches that were too large as a whole: each is sent again by itself."""
        longest = longest_value_bytes(settings) + MESSAGE_OVERHEAD_BYTES
        self._producer = Producer(
            librdkafka_config(
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
        self._resources = ExitStack()
        self._paced: PacedProducer | None = None
        if paced:
            # The embedded broker makes a topic for a producer that asks for it, not for a consumer.
            self._producer.list_topics(topic, timeout=self._seconds)
            consumed = self._resources.enter_context(
                CommittedOffsets(librdkafka_config(settings), settings.application_id, topic)
            )
            self._paced = PacedProducer(
                self._producer,
                topic,
                limit_bytes=max(LIMIT_BYTES, longest),
                consumed=consumed,
                wait_seconds=self._seconds,
            )

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the connections; what is not acknowledged is given up."""
        self._producer.purge()
        self._producer.flush(_GRACE_SECONDS)
        self._producer.close()
        self._resources.close()

    def send(self, key: bytes | None, value: bytes, where: str) -> None:
        """Send one document when its time has come; ``where`` it came from is for messages.

        Raises ``BrokerUnavailableError`` or ``BrokerRefusedError`` for an earlier one that was not
        taken.
        """
        while (wait := self._rate.seconds_left()) > 0:
            self._producer.poll(min(wait, _POLL_SECONDS))
        self._raise_failure()
        if self._alone:
            self._await_acknowledged()
        self._given += 1
        self._produce(_Document(key, value, where), is_alone=False)

    def finish(self) -> None:
        """Wait until everything is acknowledged; raises as ``send`` does."""
        self._await_acknowledged()

    def _await_acknowledged(self) -> None:
        self._drain()
        while self._alone:
            self._produce(self._alone.pop(0), is_alone=True)
            self._drain()

    def _drain(self) -> None:
        deadline = time.monotonic() + self._seconds + _GRACE_SECONDS
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.poll(_POLL_SECONDS)
            self._raise_failure()
        self._raise_failure()
        if len(self._producer):
            raise BrokerUnavailableError(self._outcome("no answer"))

    def _produce(self, document: _Document, *, is_alone: bool) -> None:
        def report(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                self.acknowledged += 1
            elif error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                self._failure = self._failure or error
            elif is_alone:
                self.refused.append(document.where)
            else:
                self._alone.append(document)

        try:
            if self._paced is not None:
                self._paced.produce(document.value, key=document.key, on_delivery=report)
            else:
                self._hand_over(document, report)
        except ConsumerTooSlowError as error:
            raise BrokerRefusedError(
                f"no worker of the application {self._settings.application_id!r} reads "
                f"{self._topic}, and the embedded broker keeps no more: start one ({error})"
            ) from error
        except KafkaException as error:
            self._failure = error.args[0]
            self._raise_failure()

    def _hand_over(self, document: _Document, report: DeliveryReport) -> None:
        deadline = time.monotonic() + self._seconds + _GRACE_SECONDS
        while True:
            try:
                self._producer.produce(
                    self._topic, document.value, document.key, on_delivery=report
                )
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
                self._raise_failure()
                if time.monotonic() > deadline:
                    raise BrokerUnavailableError(self._outcome("no answer")) from None
            else:
                self._producer.poll(0)
                return

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
            f"topic {self._topic}: {self.acknowledged:,} of {self._given:,} documents were "
            f"acknowledged, then: {reason}"
        )


class _Document(NamedTuple):
    key: bytes | None
    value: bytes
    where: str


class _Rate:
    """When the next one is due; a delay is not made up for by a burst of more than a second's."""

    def __init__(self, per_second: float | None) -> None:
        self._interval = 0.0 if per_second is None else 1.0 / per_second
        self._due = time.monotonic()

    def seconds_left(self) -> float:
        """How long to wait; 0 or less takes the turn."""
        if not self._interval:
            return 0.0
        now = time.monotonic()
        if self._due > now:
            return self._due - now
        self._due = max(self._due, now - 1.0) + self._interval
        return 0.0
