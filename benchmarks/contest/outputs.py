"""What comes out: every output record, when it could first be read, by a reader of its own thread.

It reads committed records alone, as whoever relies on exactly once does.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Self

from confluent_kafka import KafkaException, Message, TopicPartition

from benchmarks.command import MeasurementError
from benchmarks.peers.stream import Stream
from streams.kafka.clients import Consumer

_POLL_SECONDS: Final = 0.1
_BATCH: Final = 1_000
_END_SECONDS: Final = 30.0


class Outputs:
    """Reads both output topics of a stream from their beginning, until the end of the block.

    ``at`` has the time (``time.monotonic``) at which the output of each document could be read, by
    the key of the record; ``duplicates`` counts those on the second topic.
    """

    def __init__(self, stream: Stream, partitions: int) -> None:
        self.at: dict[bytes, float] = {}
        self.duplicates = 0
        self._repeated = 0
        self._duplicates_topic = stream.duplicates
        self._assignment = [
            TopicPartition(topic, partition, 0)
            for topic in (stream.unique, stream.duplicates)
            for partition in range(partitions)
        ]
        self._settings = {
            "bootstrap.servers": stream.brokers,
            "group.id": f"{stream.name}.reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 2,
        }
        self._changed = threading.Condition()
        self._ends = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(_END_SECONDS)

    def await_count(self, count: int, seconds: float) -> bool:
        """Wait until so many documents have an output; tell whether they have.

        Raises ``MeasurementError`` for a document with two outputs, and for a reader that failed.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: len(self.at) >= count or self._repeated or self._failure is not None,
                seconds,
            )
        if self._failure is not None:
            raise MeasurementError(f"the outputs cannot be read: {self._failure}")
        if self._repeated:
            raise MeasurementError(f"{self._repeated} documents were put out twice")
        return len(self.at) >= count

    def _read(self) -> None:
        try:
            consumer = Consumer(self._settings)
            try:
                consumer.assign(self._assignment)
                while not self._ends.is_set():
                    first = consumer.poll(_POLL_SECONDS)
                    if first is not None:
                        self._take([first, *consumer.consume(_BATCH, 0)], time.monotonic())
            finally:
                consumer.close()
        except Exception as error:  # noqa: BLE001 - told to who waits, in its own thread
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _take(self, messages: list[Message], now: float) -> None:
        with self._changed:
            for message in messages:
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                key = message.key()
                assert isinstance(key, bytes)
                self._repeated += key in self.at
                self.at[key] = now
                self.duplicates += message.topic() == self._duplicates_topic
            self._changed.notify_all()
