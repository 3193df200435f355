"""Appends records to internal topics of one partition: packets, control records, reports.

The producer is idempotent, and sends at once. Where no answer comes, nobody knows whether the
record is there: the log's chains make it harmless to append it again.

While appends are on their way, later ones wait and then go together. An idempotent client of
librdkafka (2.16) sends no more to a partition while five records or more are not answered; until
then its thread polls without a pause, which took up to 50 µs of CPU for each document. And fewer
requests with more in each are less work for the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import BrokerRefusedError
from streams.kafka.hand_over import joined
from streams.kafka.producer_record import ProducerRecord, RecordTooLargeError, is_too_large

logger = logging.getLogger(__name__)

_PARTITION: Final = 0
_POLL_SECONDS: Final = 0.5
"""Longest wait for the thread to end; reports wake it."""
_REFUSED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - a public code of librdkafka
        KafkaError.INVALID_RECORD,
    }
)


class AppendUnknownError(FirstseenError):
    """It is not known whether a record was appended."""

    reason = ErrorReason.TIMEOUT


class Appender:
    """An idempotent producer, whose reports are handed to the loop in groups by a thread."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """``config``: of ``client_config.appender_config``."""
        self._config = {**config, "error_cb": self._on_error}
        self._producer = Producer(self._config)
        self._thread = threading.Thread(target=self._run, name="appender", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[int]] = set()
        self._queued: list[tuple[str, bytes, asyncio.Future[int]]] = []
        self._unanswered = 0
        self._is_sending_soon = False
        self._reports: list[Callable[[], None]] = []
        self._closing = False
        self._is_fatal = False
        self._ended: list[Producer] = []

    def open(self) -> None:
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def close(self, seconds: float = 5.0) -> None:
        """Wait for what was appended, at most so long; the rest is ``AppendUnknownError``."""
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=seconds)
        self._closing = True
        await joined(self._thread, seconds)
        for future in list(self._waiting):
            _resolve(future, AppendUnknownError("the worker ended before the broker answered"))

    def append(self, topic: str, value: bytes) -> asyncio.Future[int]:
        """Append a record to partition 0 of a topic; the result is its offset.

        The future has ``RecordTooLargeError``, ``BrokerRefusedError`` where the topic does not take
        it, or ``AppendUnknownError``.
        """
        assert self._loop is not None
        future: asyncio.Future[int] = self._loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        self._queued.append((topic, value, future))
        self._send_soon()
        return future

    def _send_soon(self) -> None:
        """Send what is queued after the present callback of the loop, which may append more."""
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
            # It has lost the order of its records and gives up. A new one begins without a past;
            # the old one still reports what it had.
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
            self._producer.poll(_POLL_SECONDS)
            for ended in list(self._ended):
                ended.poll(0)
                if not len(ended):  # a client has a length, and no truth of its own
                    self._ended.remove(ended)
            reports, self._reports = self._reports, []
            if reports:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    assert self._loop is not None
                    self._loop.call_soon_threadsafe(self._answered, reports)

    def _answered(self, reports: list[Callable[[], None]]) -> None:
        """Resolve what was answered, and send what has waited for it."""
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
        """Note what became of a record; in the thread."""
        if error is None:
            self._reports.append(partial(_resolve, future, message.offset() or 0))
        else:
            self._is_fatal = self._is_fatal or error.fatal()
            self._reports.append(partial(_resolve, future, _meaning(error, topic, size)))

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            logger.warning("restarting the producer of the log: %s", error.str())
            self._is_fatal = True


def _meaning(error: KafkaError, topic: str, size: int) -> FirstseenError:
    if is_too_large(error):
        return RecordTooLargeError([ProducerRecord(topic, None, bytes(size))])
    if error.code() in _REFUSED:
        return BrokerRefusedError(f"a record was not appended to {topic}: {error.str()}")
    return AppendUnknownError(f"unknown whether {topic} has a record: {error.str()}")


def _resolve(future: asyncio.Future[int], result: int | FirstseenError) -> None:
    if future.done():
        return
    if isinstance(result, FirstseenError):
        future.set_exception(result)
    else:
        future.set_result(result)
