"""Records on their way to the broker, and what becomes of those that are asked about."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.errors import UnansweredError
from streams.kafka.producer_record import (
    DeliveryError,
    ProducerRecord,
    RecordTooLargeError,
    is_too_large,
)
from streams.kafka.retries import retrying

_POLL_SECONDS: Final = 0.05
_METADATA_SECONDS: Final = 5.0
_ANY_PARTITION: Final = -1
_NOT_KNOWN_YET: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - a public code of librdkafka
    }
)
"""What a client says of a partition that was added since it last asked for metadata."""


class Deliveries:
    """What becomes of the records of one commit.

    ``next_offsets``: by changelog partition, the offset after the last record there.
    ``failures``: why others were refused than those that are ``too_large``.
    """

    def __init__(self, records: Sequence[ProducerRecord], changelog_topic: str) -> None:
        """Know of none yet."""
        self.records = records
        self.failures: list[str] = []
        self.too_large: list[ProducerRecord] = []
        self.next_offsets: dict[int, int] = {}
        self._last: dict[int, int] = {
            record.partition: index
            for index, record in enumerate(records)
            if record.topic == changelog_topic and record.partition is not None
        }

    def produce(self, producer: Producer, *, deadline: float, reports: bool) -> None:
        """Give all records to librdkafka; ``reports`` asks what becomes of each.

        Without, only the last record of each changelog partition is asked about: a report takes the
        interpreter from the event loop, each for itself. Waits up to ``deadline`` (monotonic) for
        room in the client's queue, and for partitions that were just added. Raises
        ``UnansweredError`` where there is no room by then, ``RecordTooLargeError`` when the client
        refuses a record for its size, ``DeliveryError`` otherwise.
        """
        last = set(self._last.values())
        for index, record in enumerate(self.records):
            report = partial(self._note, record) if reports or index in last else None
            _produce(producer, record, report, deadline)

    def raise_too_large(self) -> None:
        """Raise ``RecordTooLargeError`` where it applies."""
        if self.too_large:
            raise RecordTooLargeError(self.too_large)

    def unreported(self) -> bool:
        """Return whether an offset is missing, or a record was refused."""
        return bool(self.failures) or set(self._last) != set(self.next_offsets)

    def _note(self, record: ProducerRecord, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition = record.partition
            if partition in self._last and record is self.records[self._last[partition]]:
                self.next_offsets[partition] = (message.offset() or 0) + 1
        elif is_too_large(error):
            self.too_large.append(record)
        else:
            self.failures.append(f"{record.topic}: {error.str()}")


def _produce(
    producer: Producer,
    record: ProducerRecord,
    report: Callable[[KafkaError | None, Message], None] | None,
    deadline: float,
) -> None:
    try:
        _send(producer, record, report)
    except (BufferError, KafkaException) as error:
        # Apart, since all that another try needs would take longer to make than the call takes.
        _send_again(producer, record, report, deadline, error)


def _send(
    producer: Producer,
    record: ProducerRecord,
    report: Callable[[KafkaError | None, Message], None] | None,
) -> None:
    topic, key, value, partition, timestamp_ms, headers, _ = record
    producer.produce(
        topic,
        value,
        key,
        partition=_ANY_PARTITION if partition is None else partition,
        on_delivery=report,
        timestamp=timestamp_ms or 0,
        headers=headers if isinstance(headers, list) else list(headers),
    )


def _send_again(
    producer: Producer,
    record: ProducerRecord,
    report: Callable[[KafkaError | None, Message], None] | None,
    deadline: float,
    reason: BufferError | KafkaException,
) -> None:
    """Send a record that was refused, if that may pass, or raise what the refusal means."""
    topic = record.topic

    def may_pass(error: BaseException) -> bool:
        if isinstance(error, KafkaException) and error.args[0].code() in _NOT_KNOWN_YET:
            # The client would ask by itself, minutes later.
            with suppress(KafkaException):
                producer.list_topics(topic, timeout=_METADATA_SECONDS)
            return True
        return isinstance(error, BufferError)

    try:
        if not may_pass(reason):
            raise reason
        left = deadline - time.monotonic()
        again = retrying(left, _POLL_SECONDS, may_pass, pause=producer.poll)
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
