"""The feed of a contender, and the reader of its outputs."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final, Self

import msgspec
from confluent_kafka import KafkaException, Message, TopicPartition

from benchmarks.command import MeasurementError
from benchmarks.peers.stream import Stream
from benchmarks.texts import SEED
from streams.kafka.clients import Consumer, Producer

_SEND_SECONDS: Final = 60.0
_BETWEEN_POLLS: Final = 1_000
_ROOM_SECONDS: Final = 0.1
_LINGER_MS: Final = 20
"""With librdkafka's default of 5, 2,000 documents per second on 16 partitions are 2,000 requests:
feed and broker then need more CPU time for these than the worker for everything."""
_CLAUSE: Final = re.compile(r"[^，。！？；：\s]+[，。！？；：]")

_POLL_SECONDS: Final = 0.1
_BATCH: Final = 1_000
_END_SECONDS: Final = 30.0


def shuffled(texts: Sequence[str], characters: int) -> Iterator[str]:
    """Yield distinct documents without end, made from clauses of ``texts`` in random order.

    They take a fiftieth of the time of generated documents, and have the same words.
    """
    chance = random.Random(SEED)
    clauses = [clause for text in texts for clause in _CLAUSE.findall(text)]
    while True:
        text = ""
        while len(text) < characters:
            text += chance.choice(clauses)
        yield text[:characters]


class Feed:
    """Sends documents, whose ids are numbers, evenly to the partitions.

    ``sent`` is the number of sent documents, and so the next id.
    """

    def __init__(self, stream: Stream, partitions: int) -> None:
        self.sent = 0
        self._topic = stream.raw
        self._partitions = partitions
        settings = {"bootstrap.servers": stream.brokers, "log_level": 2}
        self._in_batches = Producer({**settings, "linger.ms": _LINGER_MS})
        self._at_once = Producer({**settings, "linger.ms": 0})

    def send_all(self, texts: Sequence[str]) -> None:
        """Send documents as fast as the broker accepts them; raises ``MeasurementError``."""
        # Encode all before the first is sent, so that sending takes little CPU time.
        for value in self._encoded(texts):
            self._send(self._in_batches, value)
            if self.sent % _BETWEEN_POLLS == 0:
                self._in_batches.poll(0)
        _flush(self._in_batches)

    def send_paced(
        self, texts: Sequence[str], a_second: float, *, at_once: bool
    ) -> dict[bytes, float]:
        """Send documents at a rate; return the time at which each was sent, by its key.

        With ``at_once`` each document has its own request. Otherwise a request has all documents of
        ``_LINGER_MS``, and those milliseconds count. Raises ``MeasurementError``.
        """
        producer = self._at_once if at_once else self._in_batches
        values = self._encoded(texts)
        sent_at: dict[bytes, float] = {}
        start = time.monotonic()
        for index, value in enumerate(values):
            time.sleep(max(0.0, start + index / a_second - time.monotonic()))
            sent_at[b"%d" % self.sent] = time.monotonic()
            self._send(producer, value)
            producer.poll(0)
        _flush(producer)
        return sent_at

    def _encoded(self, texts: Sequence[str]) -> list[bytes]:
        numbered = enumerate(texts, self.sent)
        return [msgspec.json.encode({"id": f"{n}", "text": text}) for n, text in numbered]

    def _send(self, producer: Producer, value: bytes) -> None:
        partition = self.sent % self._partitions
        produce(producer, self._topic, value, b"%d" % self.sent, partition)
        self.sent += 1


def produce(
    producer: Producer, topic: str, value: bytes | None, key: bytes, partition: int
) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition)
        except BufferError:
            producer.poll(_ROOM_SECONDS)
        else:
            return


def _flush(producer: Producer) -> None:
    if producer.flush(_SEND_SECONDS):
        raise MeasurementError(f"the broker did not take all documents in {_SEND_SECONDS:g} s")


class Outputs:
    """Reads the committed records of both output topics, until the end of the block.

    ``at`` has the time (``time.monotonic``) at which the output of each document was read, by the
    key of the record; ``duplicates`` counts the records of the second topic.
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
        """Return whether ``count`` documents get an output in time.

        Raises ``MeasurementError`` if a document has two outputs, or if the reader failed.
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
