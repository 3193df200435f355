"""A producer whose sends are acknowledged before anything that depends on them goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from simhash_core.documents import SourcePosition
from simhash_core.errors import FirstseenError

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
_ANY_PARTITION: Final = -1
_NAMED: Final = 3

DeliveryReport = Callable[[KafkaError | None, Message], None]


class Outgoing(NamedTuple):
    """A record to send; ``partition`` None leaves the choice to the key, as Kafka does it.

    ``about``: the raw records that it is made of, for messages.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    about: Sequence[SourcePosition] = ()


class DeliveryError(FirstseenError):
    """A record could not be delivered; the message names its topic, the reason and the fix."""


class NotTakenError(DeliveryError):
    """The broker took too long; what was sent may be there, and may not."""


class RecordTooLargeError(DeliveryError):
    """A topic does not take records of this size; to send it again is of no use."""

    def __init__(self, refused: Sequence[Outgoing]) -> None:
        """``refused``: at least one; the largest of them is named."""
        record = max(refused, key=_size_bytes)
        of = ", ".join(map(str, record.about[:_NAMED])) or "no document, but the state of a shard"
        more = len(record.about) - _NAMED
        super().__init__(
            f"{record.topic} takes no record of {_size_bytes(record)} bytes (made of {of}"
            f"{f' and {more} more' if more > 0 else ''}): its max.message.bytes was lowered. "
            "'firstseen topics check' says what it must be; raise it, and start again: nothing is "
            "lost"
        )


def _size_bytes(record: Outgoing) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def is_too_large(error: KafkaError) -> bool:
    """Return whether a record was refused for its size, by the client or by the broker."""
    return error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}


class Deliveries:
    """What becomes of the records of a batch.

    ``failures``: why others were refused than those that are ``too_large``. ``last_offset``: where
    the record ``last`` is; None as long as it is not acknowledged.
    """

    def __init__(self, last: Outgoing | None = None) -> None:
        """Know of none yet."""
        self.failures: list[str] = []
        self.too_large: list[Outgoing] = []
        self.last_offset: int | None = None
        self._last = last

    def report_of(self, record: Outgoing) -> DeliveryReport:
        """Return what is to be called when a record has been acknowledged or refused."""
        return partial(self._note, record)

    def report_of_last(self, record: Outgoing) -> DeliveryReport | None:
        """Return the same for ``last``, and None for all others: nothing is to be called."""
        return self.report_of(record) if record is self._last else None

    def raise_too_large(self) -> None:
        """Raise ``RecordTooLargeError`` where it applies."""
        if self.too_large:
            raise RecordTooLargeError(self.too_large)

    def _note(self, record: Outgoing, error: KafkaError | None, message: Message) -> None:
        if error is None:
            if record is self._last:
                self.last_offset = message.offset()
        elif is_too_large(error):
            self.too_large.append(record)
        else:
            self.failures.append(f"{record.topic}: {error.str()}")


def hand_over(
    producer: Producer, record: Outgoing, *, deadline: float, report: DeliveryReport | None
) -> None:
    """Give one record to librdkafka, waiting up to ``deadline`` (monotonic) for room in its queue.

    Raises ``NotTakenError`` when there is no room by then, ``RecordTooLargeError`` when the record
    is larger than allowed, ``DeliveryError`` otherwise.
    """
    while True:
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                partition=_ANY_PARTITION if record.partition is None else record.partition,
                on_delivery=report,
                timestamp=max(0, record.timestamp_ms),
                headers=list(record.headers),
            )
        except BufferError:
            if time.monotonic() > deadline:
                raise NotTakenError(
                    f"no room to send to {record.topic}: the broker has taken nothing for too "
                    "long. Is it reachable? (send_timeout_seconds bounds the wait)"
                ) from None
            producer.poll(_POLL_SECONDS)
        except KafkaException as error:
            if is_too_large(error.args[0]):
                raise RecordTooLargeError([record]) from error
            raise DeliveryError(f"cannot send to {record.topic}: {error}") from error
        else:
            return


def _fatal(error: KafkaException | SystemError, batch: Sequence[Outgoing]) -> DeliveryError:
    """Return what it means that the client gave up for good.

    It does where a record was refused and later ones may have been taken. The exception comes out
    of the report on some record, whose reason is only in its text.
    """
    cause = error if isinstance(error, KafkaException) else error.__cause__
    text = str(cause or error)
    if KafkaError(KafkaError.MSG_SIZE_TOO_LARGE).str() in text:
        return RecordTooLargeError(batch)
    return DeliveryError(f"a record was not delivered to {batch[0].topic}: {text}")


class AckedProducer:
    """Sends batches, in order, idempotently; ``send`` returns when the broker has them all.

    ``config`` are librdkafka properties. The order within a partition has no gaps: a record that
    the broker refuses is the last one delivered (``enable.gapless.guarantee``), and none is given
    up for its age, which that guarantee does not cover. A wait that is too long ends here instead.

    With ``tries`` over 1 a new client then sends the whole batch again, as a worker would that is
    started again: for readers who know by themselves what they have had.
    """

    def __init__(
        self, config: Mapping[str, object], send_timeout_seconds: float, *, tries: int = 1
    ) -> None:
        """Connect in the background; nothing is sent yet."""
        self._timeout_seconds = send_timeout_seconds
        self._config = {
            "linger.ms": 2,
            "compression.type": "lz4",
            **config,
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,  # none
        }
        self._producer = Producer(self._config)
        self._renewal = threading.Lock()
        self._tries = tries
        self._given_up = threading.Event()

    async def send(self, records: Iterable[Outgoing]) -> None:
        """Send all records and wait for their acknowledgement, in a thread of the default pool.

        Raises ``DeliveryError`` for the first that failed.
        """
        batch = list(records)
        if batch:
            await asyncio.get_running_loop().run_in_executor(None, self.send_blocking, batch)

    def send_blocking(self, records: Iterable[Outgoing]) -> None:
        """Send all records and wait for their acknowledgement; several threads may at once.

        Raises ``DeliveryError`` for the first that failed, ``NotTakenError`` after the last
        try.
        """
        batch = list(records)
        for number in range(1, self._tries + 1):
            producer = self._producer
            try:
                self._send(producer, batch)
            except NotTakenError as error:
                if number == self._tries or self._given_up.is_set():
                    raise
                logger.warning("sent again by a new client, after try %d: %s", number, error)
                self._renew(producer)
            else:
                return

    def give_up(self) -> None:
        """Try nothing again from now on; from any thread."""
        self._given_up.set()

    def _renew(self, old: Producer) -> None:
        """Let go of a client and what it has not sent, unless another thread has done so."""
        with self._renewal:
            if self._producer is old:
                self._producer = Producer(self._config)

    def _send(self, producer: Producer, batch: Sequence[Outgoing]) -> None:
        deliveries = Deliveries()
        deadline = time.monotonic() + self._timeout_seconds
        try:
            for record in batch:
                report = deliveries.report_of(record)
                hand_over(producer, record, deadline=deadline, report=report)
            left = producer.flush(max(0.0, deadline - time.monotonic()) + 1.0)
        except (KafkaException, SystemError) as error:
            raise _fatal(error, batch) from error
        deliveries.raise_too_large()
        if deliveries.failures:
            raise DeliveryError(f"a record was not delivered to {deliveries.failures[0]}")
        if left:
            raise NotTakenError(
                f"{left} records were not acknowledged within {self._timeout_seconds:g} s: is the "
                "broker reachable? (send_timeout_seconds bounds the wait)"
            )
