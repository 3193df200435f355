"""What goes in: documents with numbers for ids, spread evenly over the partitions."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from benchmarks.command import MeasurementError
from benchmarks.peers.stream import Stream
from benchmarks.texts import SEED
from streams.kafka.clients import Producer

_SEND_SECONDS: Final = 60.0
_BETWEEN_POLLS: Final = 1_000
_ROOM_SECONDS: Final = 0.1
_LINGER_MS: Final = 20
"""How long records are gathered for a request. librdkafka sends each partition a request of its
own: with its default of 5, at 2,000 documents a second on 16 partitions, each has one document, and
feed and broker need more of the processors for these requests than the worker for everything."""
_CLAUSE: Final = re.compile(r"[^，。！？；：\s]+[，。！？；：]")


def shuffled(texts: Sequence[str], characters: int) -> Iterator[str]:
    """Write distinct documents without end, each of whole clauses of these texts in no order.

    They are for what needs many documents: they take a fiftieth of the time of generated ones, and
    have the same words, so that their fingerprints cost the same.
    """
    chance = random.Random(SEED)
    clauses = [clause for text in texts for clause in _CLAUSE.findall(text)]
    while True:
        text = ""
        while len(text) < characters:
            text += chance.choice(clauses)
        yield text[:characters]


def taken(texts: Iterator[str], count: int) -> list[str]:
    return list(islice(texts, count))


class Feed:
    """The sender of one stream's documents. ``sent``: how many there were, which is the next id."""

    def __init__(self, stream: Stream, partitions: int) -> None:
        self.sent = 0
        self._topic = stream.raw
        self._partitions = partitions
        settings = {"bootstrap.servers": stream.brokers, "log_level": 2}
        self._in_batches = Producer({**settings, "linger.ms": _LINGER_MS})
        self._at_once = Producer({**settings, "linger.ms": 0})

    def send_all(self, texts: Sequence[str]) -> None:
        """Send documents as fast as the broker takes them; return when it has them all.

        Raises ``MeasurementError`` if it does not take them.
        """
        # Encoded before the first is sent, so that sending takes little of the machine.
        for value in self._encoded(texts):
            self._send(self._in_batches, value)
            if self.sent % _BETWEEN_POLLS == 0:
                self._in_batches.poll(0)
        _flush(self._in_batches)

    def send_paced(
        self, texts: Sequence[str], a_second: float, *, at_once: bool
    ) -> dict[bytes, float]:
        """Send documents at a rate; return when each was sent, by its key.

        ``at_once``: each in a request of its own; otherwise a request takes what comes within
        ``_LINGER_MS``, and those milliseconds count.
        Raises ``MeasurementError`` if the broker does not take them.
        """
        producer = self._at_once if at_once else self._in_batches
        values = self._encoded(texts)
        sent_at: dict[bytes, float] = {}
        start = time.monotonic()
        for index, value in enumerate(values):
            wait = start + index / a_second - time.monotonic()
            if wait > 0:
                time.sleep(wait)
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
    """Hand a record to the client, once it has room for it."""
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
