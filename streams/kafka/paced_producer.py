"""A producer that does not outrun its consumer.

The embedded broker keeps 5 MiB of a partition and drops what is older, read or not
(``streams.kafka.embedded_broker``). A real broker keeps by its retention, but a demonstration or a
load test that fills it for nothing helps no one either. So: for each partition, the bytes *in
flight*, sent and not yet passed by the consumer, stay under a limit, and ``produce`` waits for
room.

What is sent is counted as if it travelled uncompressed and each record in a batch of its own, which
is more than any broker will count. Which partition a record takes is known only from its delivery
report, unless the caller chose; until then its bytes are counted against every partition. So the
true figure is never above the one that is kept here.

How far the consumer has got is told by ``note_consumed``, from any thread, or asked for while there
is no room: ``streams.kafka.committed_offsets`` answers with the commits of a consumer group. Only
what this producer sent is counted: another one that writes to the same topic needs its own share of
the retention.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

Headers = Sequence[tuple[str, bytes | None]]
DeliveryReport = Callable[[KafkaError | None, Message], None]

LIMIT_BYTES = 2 * 1024 * 1024
"""In flight for each partition: well under half of what the embedded broker keeps."""

_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.02
# Of a record: 61 bytes of batch header and at most 36 of lengths and deltas; of a header: two
# lengths of at most 5 bytes.
_RECORD_OVERHEAD_BYTES = 61 + 36
_HEADER_OVERHEAD_BYTES = 10
_ANY_PARTITION = -1


class ConsumerTooSlowError(TimeoutError):
    """The consumer did not make room within the time limit: it is stopped, stuck or slow."""


class _Waiting(NamedTuple):
    offset: int
    bytes_on_wire: int


class PacedProducer:
    """Sends to one topic, never more than ``limit_bytes`` a partition ahead of the consumer.

    Args:
        producer: Sends the records; it must ask for acknowledgements (``acks`` is not 0), and may
            be shared.
        topic: Where the records go.
        limit_bytes: The most bytes in flight for each partition.
        consumed: Gives, for each partition, the offset that the consumer reads next. Called while
            there is no room. Without it, somebody must call ``note_consumed``.
        wait_seconds: How long ``produce`` waits for room.

    Raises:
        ValueError: A limit is not above zero.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        *,
        limit_bytes: int = LIMIT_BYTES,
        consumed: Callable[[], Mapping[int, int]] | None = None,
        wait_seconds: float = _WAIT_SECONDS,
    ) -> None:
        if limit_bytes <= 0 or wait_seconds <= 0:
            raise ValueError(
                f"limit_bytes={limit_bytes} and wait_seconds={wait_seconds} must be above zero"
            )
        self._producer = producer
        self._topic = topic
        self._limit_bytes = limit_bytes
        self._consumed = consumed
        self._wait_seconds = wait_seconds
        # Delivery reports come from whichever thread polls the producer.
        self._lock = Lock()
        self._undelivered_bytes: defaultdict[int, int] = defaultdict(int)
        self._delivered_bytes: defaultdict[int, int] = defaultdict(int)
        self._waiting: defaultdict[int, deque[_Waiting]] = defaultdict(deque)
        self._next_offset: dict[int, int] = {}
        self._failure: KafkaError | None = None

    def produce(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int = 0,
        partition: int | None = None,
        on_delivery: DeliveryReport | None = None,
    ) -> None:
        """Send one record, once there is room for it.

        Args:
            value: The record's value; None is a tombstone.
            key: Chooses the partition, unless ``partition`` does.
            headers: Names and values.
            timestamp_ms: Milliseconds since 1970; 0 is now.
            partition: Where to send it; by key otherwise.
            on_delivery: Called with the outcome. Without it, the next ``produce`` or
                ``wait_until_consumed`` raises for a record that could not be delivered.

        Raises:
            ConsumerTooSlowError: There was no room within the time limit.
            KafkaException: An earlier record could not be delivered.
            ValueError: The record alone is above the limit.
        """
        size = _bytes_on_wire(key, value, headers)
        if size > self._limit_bytes:
            raise ValueError(
                f"topic {self._topic!r}: a record of {size} bytes is above the limit of "
                f"{self._limit_bytes} bytes in flight: raise limit_bytes, or leave it out"
            )
        place = _ANY_PARTITION if partition is None else partition
        deadline = time.monotonic() + self._wait_seconds
        self._producer.poll(0)
        self._wait(lambda: self.bytes_in_flight(partition) + size <= self._limit_bytes, deadline)
        with self._lock:
            self._undelivered_bytes[place] += size
        try:
            self._send(
                value,
                deadline,
                key=key,
                partition=place,
                headers=list(headers),
                timestamp=timestamp_ms,
                on_delivery=partial(self._delivered, place, size, on_delivery),
            )
        except BaseException:
            with self._lock:
                self._undelivered_bytes[place] -= size
            raise

    def note_consumed(self, partition: int, next_offset: int) -> None:
        """Tell that the consumer of a partition will read ``next_offset`` next."""
        with self._lock:
            if next_offset <= self._next_offset.get(partition, 0):
                return
            self._next_offset[partition] = next_offset
            waiting = self._waiting[partition]
            while waiting and waiting[0].offset < next_offset:
                self._delivered_bytes[partition] -= waiting.popleft().bytes_on_wire

    def bytes_in_flight(self, partition: int | None = None) -> int:
        """What is sent and not yet consumed, in one partition or in the fullest: never too low."""
        with self._lock:
            anywhere = self._undelivered_bytes.get(_ANY_PARTITION, 0)
            if partition is not None:
                return anywhere + self._bytes_of(partition)
            known = (self._undelivered_bytes.keys() | self._delivered_bytes) - {_ANY_PARTITION}
            return anywhere + max((self._bytes_of(each) for each in known), default=0)

    def wait_until_consumed(self, wait_seconds: float) -> None:
        """Wait until the consumer has passed everything that was sent.

        Raises:
            ConsumerTooSlowError: It had not within the time limit.
            KafkaException: A record could not be delivered.
        """
        self._wait(lambda: self.bytes_in_flight() == 0, time.monotonic() + wait_seconds)

    def _bytes_of(self, partition: int) -> int:
        return self._undelivered_bytes.get(partition, 0) + self._delivered_bytes.get(partition, 0)

    def _wait(self, satisfied: Callable[[], bool], deadline: float) -> None:
        while True:
            self._raise_failure()
            if satisfied():
                return
            self._producer.poll(_POLL_SECONDS)
            if self._consumed is not None:
                for partition, next_offset in self._consumed().items():
                    self.note_consumed(partition, next_offset)
            if time.monotonic() > deadline and not satisfied():
                raise ConsumerTooSlowError(self._what_is_in_flight())

    def _send(
        self,
        value: bytes | None,
        deadline: float,
        *,
        key: bytes | None,
        partition: int,
        headers: list[tuple[str, str | bytes | None]],
        timestamp: int,
        on_delivery: DeliveryReport,
    ) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=value,
                    key=key,
                    partition=partition,
                    headers=headers,
                    timestamp=timestamp,
                    on_delivery=on_delivery,
                )
            except BufferError:
                # The client's own queue is full: of other topics' records too, if it is shared.
                if time.monotonic() > deadline:
                    raise
                self._producer.poll(_POLL_SECONDS)
            else:
                return

    def _delivered(
        self,
        place: int,
        size: int,
        on_delivery: DeliveryReport | None,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        partition, offset = message.partition(), message.offset()
        if error is None and (partition is None or offset is None or offset < 0):
            error = KafkaError(
                KafkaError._INVALID_ARG,  # noqa: SLF001 - a public code of librdkafka
                f"topic {self._topic!r}: no offset in the delivery report: set acks=all",
            )
        with self._lock:
            self._undelivered_bytes[place] -= size
            if error is None:
                assert partition is not None
                assert offset is not None
                self._keep(partition, _Waiting(offset, size))
            elif on_delivery is None:
                self._failure = error
        if on_delivery is not None:
            on_delivery(error, message)

    def _keep(self, partition: int, record: _Waiting) -> None:
        # The consumer may have been quicker than the delivery report.
        if record.offset >= self._next_offset.get(partition, 0):
            self._delivered_bytes[partition] += record.bytes_on_wire
            self._waiting[partition].append(record)

    def _raise_failure(self) -> None:
        with self._lock:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise KafkaException(failure)

    def _what_is_in_flight(self) -> str:
        with self._lock:
            undelivered = sum(self._undelivered_bytes.values())
            behind = ", ".join(
                f"partition {partition}: {self._delivered_bytes[partition]} bytes from offset "
                f"{waiting[0].offset} on"
                for partition, waiting in sorted(self._waiting.items())
                if waiting
            )
        return (
            f"topic {self._topic!r}: no progress enough to stay within {self._limit_bytes} bytes "
            f"in flight; not acknowledged by the broker: {undelivered} bytes; not consumed: "
            f"{behind or 'nothing'}. Does the consumer run, and commit?"
        )


def _bytes_on_wire(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
    return size
