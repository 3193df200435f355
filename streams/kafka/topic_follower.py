"""Reads all partitions of topics to show them to people, without a group or commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Self

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from simhash_core.documents import Headers, SourcePosition, TopicPartition
from streams.errors import BrokerRefusedError, BrokerUnavailableError
from streams.kafka.client_config import client_config
from streams.kafka.clients import Consumer, offset_range, position_of
from streams.kafka.errors import PASSING_ERRORS, Retries
from streams.kafka.headers import headers_of
from streams.settings.settings import Settings

_BATCH: Final = 500
_POLL_SECONDS: Final = 0.2
_SILENCE_SECONDS: Final = 30.0
_LOG_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 10.0
# The partition ends before the offset, or begins after it.
_NOTHING_THERE: Final = frozenset(
    {
        KafkaError._PARTITION_EOF,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - a public code of librdkafka
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
_RETRY_SECONDS: Final = 0.2


class ReadRecord(NamedTuple):
    position: SourcePosition
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.position.topic, self.position.partition)


class TopicFollower:
    """Reads every partition of topics, which are given with their numbers of partitions.

    ``gaps`` says what happens if records were deleted before they were read: continue with the
    earliest record, or raise. While no broker can be reached, ``announce`` is called every ten
    seconds.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Mapping[str, int],
        *,
        from_beginning: bool,
        gaps: Literal["earliest", "error"] = "earliest",
        announce: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._brokers = settings.brokers
        self._announce = announce
        self._logged_at = time.monotonic()
        self._next: dict[TopicPartition, int] = {}
        self._partitions = [
            TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)
        ]
        self._consumer = Consumer(_config(settings, gaps, self._on_connection_error))
        start = OFFSET_BEGINNING if from_beginning else OFFSET_END
        self._consumer.assign([ClientPartition(topic, p, start) for topic, p in self._partitions])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read(self, seconds: float) -> list[ReadRecord]:
        records = []
        for message in self._consumer.consume(_BATCH, timeout=seconds):
            partition = TopicPartition(message.topic() or "", message.partition() or 0)
            offset = message.offset() or 0
            error = message.error()
            if error is None:
                self._next[partition] = offset + 1
                records.append(_as_read(message))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public code of librdkafka
                # The end may be after the last record, if a transaction marker is there.
                self._next[partition] = max(offset, self._next.get(partition, 0))
            elif error.code() not in PASSING_ERRORS:
                raise BrokerRefusedError(f"cannot read topic {partition.topic}: {error.str()}")
        return records

    def ends(self) -> dict[TopicPartition, int]:
        try:
            return Retries(_ANSWER_SECONDS, _RETRY_SECONDS)(self._ends)
        except KafkaException as error:
            raise BrokerUnavailableError(
                f"the Kafka broker does not return the ends of topics: {error.args[0].str()}"
            ) from error

    def _ends(self) -> dict[TopicPartition, int]:
        return {
            partition: offset_range(self._consumer, *partition, _ANSWER_SECONDS)[1]
            for partition in self._partitions
        }

    def has_passed(self, ends: Mapping[TopicPartition, int]) -> bool:
        return all(
            end == 0 or self._next.get(partition, 0) >= end for partition, end in ends.items()
        )

    def batches(self, ends: Mapping[TopicPartition, int] | None) -> Iterator[list[ReadRecord]]:
        """Yield records before ``ends``, [] if none came for a moment; endless without ``ends``.

        Raises ``BrokerRefusedError``, and ``BrokerUnavailableError`` after 30 s of silence.
        """
        heard_at = time.monotonic()
        while ends is None or not self.has_passed(ends):
            records = self.read(_POLL_SECONDS)
            now = time.monotonic()
            if records or ends is None:
                heard_at = now
            elif now - heard_at > _SILENCE_SECONDS:
                topics = ", ".join(sorted({partition.topic for partition in ends}))
                raise BrokerUnavailableError(
                    f"the Kafka broker at {self._brokers} has sent nothing for "
                    f"{_SILENCE_SECONDS:g} s, and not all of {topics} is read"
                )
            yield [r for r in records if ends is None or r.position.offset < ends[r.partition]]

    def _on_connection_error(self, error: KafkaError) -> None:
        now = time.monotonic()
        if error.code() in PASSING_ERRORS and now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            self._announce(f"the Kafka broker cannot be reached, still trying: {error.str()}")


def read_at(settings: Settings, position: SourcePosition) -> ReadRecord | None:
    """Return the record at a position; None if there is none, or none any more.

    Raises ``BrokerUnavailableError``, ``BrokerRefusedError``.
    """
    consumer = Consumer(_config(settings, "error", lambda _: None))
    try:
        consumer.assign([ClientPartition(position.topic, position.partition, position.offset)])
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            for message in consumer.consume(1, timeout=_ANSWER_SECONDS / 50):
                error = message.error()
                if error is None:
                    return _as_read(message) if message.offset() == position.offset else None
                if error.code() in _NOTHING_THERE:
                    return None
                if error.code() not in PASSING_ERRORS:
                    raise BrokerRefusedError(f"cannot read {position}: {error.str()}")
    finally:
        consumer.close()
    raise BrokerUnavailableError(
        f"no Kafka broker at {settings.brokers} returned {position} within {_ANSWER_SECONDS:g} s"
    )


def _as_read(message: Message) -> ReadRecord:
    timestamp_ms = message.timestamp()[1]
    return ReadRecord(
        position_of(message),
        timestamp_ms,
        message.key(),
        message.value(),
        headers_of(message) or (),
    )


def _config(
    settings: Settings, gaps: Literal["earliest", "error"], error_cb: Callable[[KafkaError], None]
) -> dict[str, Any]:
    return client_config(
        settings,
        # The client needs a group id, but never joins or commits.
        group_id=f"{settings.application_id}.follower",
        enable_auto_commit=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
        auto_offset_reset=gaps,
        fetch_wait_max_ms=20,
        error_cb=error_cb,
    )
