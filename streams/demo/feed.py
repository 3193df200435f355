"""Sends a stream of records, never further ahead of the outputs than the embedded broker can keep.

The broker drops what is older than 5 MiB of a partition (``streams.kafka.embedded_broker``), in
every topic: the raw one, the internal ones and the outputs. A record without an output may lie in
any of them. So the bytes of all of these together have a limit that fits one partition with room to
spare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from simhash_core.documents import SourcePosition
from streams.demo.ledger import Ledger

OPEN_BYTES_MAX: Final = 2 * 1024 * 1024
OPEN_RECORDS_MAX: Final = 1_000
LONGEST_BYTES: Final = OPEN_BYTES_MAX
"""The longest value that can be fed."""

_RECORD_OVERHEAD_BYTES: Final = 400
"""Key, headers, fingerprint and framing, in whichever topic they are most."""
_A_TURN: Final = 200


class FeedRecord(NamedTuple):
    """A record to be fed.

    ``place`` in the stream, from 0, where the stream is a generated one; else ``where`` it came
    from, for people.
    """

    key: bytes | None
    value: bytes | None
    place: int | None = None
    where: str = ""

    @property
    def is_tombstone(self) -> bool:
        """Whether it asks to forget a document: then nothing comes out."""
        return self.value is None and bool(self.key) and _is_utf8(self.key or b"")


class Feed:
    """Feeds ``records`` to ``topic``, a turn at a time.

    ``on_sent`` is called with each record and its source position once it is acknowledged.
    """

    def __init__(
        self,
        client_settings: dict[str, Any],
        topic: str,
        records: Iterable[FeedRecord],
        ledger: Ledger,
        on_sent: Callable[[FeedRecord, SourcePosition], None],
    ) -> None:
        """Connect in the background."""
        self.produced = 0
        self.finished = False
        self._topic = topic
        self._records: Iterator[FeedRecord] = iter(records)
        self._next = next(self._records, None)
        self._ledger = ledger
        self._on_sent = on_sent
        self._unacknowledged_bytes = 0
        self._failure: KafkaError | None = None
        self._producer = Producer(
            {
                "linger.ms": 5,
                **client_settings,
                "enable.idempotence": True,
                "message.max.bytes": 2 * LONGEST_BYTES,
            }
        )

    def turn(self) -> None:
        """Send what there is room for, some records at most.

        Raises ``KafkaException`` for a record that was not taken.
        """
        for _ in range(_A_TURN):
            if self._next is None or not self._has_room(self._next):
                break
            self._send(self._next)
            self._next = next(self._records, None)
        self._producer.poll(0)
        if self._failure is not None:
            raise KafkaException(self._failure)
        self.finished = self._next is None and self.produced == self._ledger.sent

    def close(self) -> None:
        """Give up what is not acknowledged."""
        self._producer.purge()
        self._producer.flush(1.0)
        self._producer.close()

    def _has_room(self, record: FeedRecord) -> bool:
        open_bytes = self._ledger.open_bytes + self._unacknowledged_bytes
        open_records = self.produced - self._ledger.decided
        return open_records == 0 or (
            open_records < OPEN_RECORDS_MAX and open_bytes + _size(record) <= OPEN_BYTES_MAX
        )

    def _send(self, record: FeedRecord) -> None:
        size = _size(record)

        def report(error: KafkaError | None, message: Message) -> None:
            self._unacknowledged_bytes -= size
            partition, offset = message.partition(), message.offset()
            if error is not None:
                self._failure = self._failure or error
                return
            assert partition is not None
            assert offset is not None
            source = SourcePosition(self._topic, partition, offset)
            self._on_sent(record, source)
            self._ledger.note_sent(source, size, is_tombstone=record.is_tombstone)

        self._producer.produce(self._topic, record.value, record.key, on_delivery=report)
        self._unacknowledged_bytes += size
        self.produced += 1


def _size(record: FeedRecord) -> int:
    return len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD_BYTES


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
