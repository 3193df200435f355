"""Sends a stream of records, and reads the outputs.

The embedded broker keeps only the last 5 MiB of a partition
(``streams.kafka.embedded_broker``), on every topic. A record without an output may be on any topic,
so the feed limits the bytes of all these records to much less.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from simhash_core.documents import SourcePosition
from simhash_core.errors import FirstseenError
from streams.corpus.generated import GeneratedRecord
from streams.documents.output_records import (
    DeadLetterOutput,
    DuplicateOutput,
    ReceivedOutput,
    TombstoneOutput,
    UniqueOutput,
    received_output,
)
from streams.kafka.clients import Producer
from streams.kafka.errors import becomes_true
from streams.kafka.topic_follower import TopicFollower
from streams.settings.settings import Settings

# ---- Sent records and their outputs: each record must have exactly one.

LATEST: Final = 8  # number of duplicates that are kept for display


class Ledger:
    """Counts records and outputs; an output may come before the acknowledgement of its record."""

    def __init__(self) -> None:
        self.sent = 0
        self.tombstones = 0
        self.unique = 0
        self.undecidable = 0  # of the unique ones
        self.by_method: Counter[str] = Counter()  # duplicates
        self.by_reason: Counter[str] = Counter()  # dead letters
        self.latest: deque[DuplicateOutput] = deque(maxlen=LATEST)
        self.open_bytes = 0  # of records without an output
        self._with_output = 0
        self._open: dict[SourcePosition, int] = {}  # size by record
        self._without_record: set[SourcePosition] = set()

    @property
    def decided(self) -> int:
        """The number of records with an output, and of tombstones, which have none."""
        return self._with_output + self.tombstones

    @property
    def lost(self) -> int:
        return self.sent - self.decided

    @property
    def repeated(self) -> int:
        """The number of outputs beyond one for each record, and of outputs of unknown records."""
        outputs = self.unique + self.by_method.total() + self.by_reason.total()
        return outputs - self._with_output

    def note_sent(self, source: SourcePosition, size_bytes: int, *, is_tombstone: bool) -> None:
        self.sent += 1
        if is_tombstone:
            self.tombstones += 1
        elif source in self._without_record:
            self._without_record.remove(source)
            self._with_output += 1
        else:
            self._open[source] = size_bytes
            self.open_bytes += size_bytes

    def note_output(self, output: ReceivedOutput) -> None:
        match output:
            case UniqueOutput(undecidable=reason):
                self.unique += 1
                self.undecidable += bool(reason)
            case DuplicateOutput():
                self.by_method[output.method] += 1
                self.latest.append(output)
            case DeadLetterOutput(reason=reason):
                self.by_reason[reason] += 1
            case TombstoneOutput():
                return
        if output.source in self._open:
            self.open_bytes -= self._open.pop(output.source)
            self._with_output += 1
        else:
            self._without_record.add(output.source)


OPEN_BYTES_MAX: Final = 2 * 1024 * 1024
OPEN_RECORDS_MAX: Final = 1_000
LONGEST_BYTES: Final = OPEN_BYTES_MAX  # the longest value that can be sent
_RECORD_OVERHEAD_BYTES: Final = 400
"""Bytes of key, headers, fingerprint and framing, on the topic where they are largest."""
_A_TURN: Final = 200


class FeedRecord(NamedTuple):
    """A record to send: ``generated`` has its truth, or ``where`` the line of its file."""

    key: bytes | None
    value: bytes | None
    generated: GeneratedRecord | None = None
    where: str = ""

    @property
    def is_tombstone(self) -> bool:
        try:
            return self.value is None and (self.key or b"").decode() != ""
        except UnicodeDecodeError:
            return False

    @property
    def size_bytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + _RECORD_OVERHEAD_BYTES


class Feed:
    """Sends ``records`` to ``topic`` in turns.

    ``on_sent`` is called with each record and its source position after the acknowledgement.
    """

    def __init__(
        self,
        client_settings: dict[str, Any],
        topic: str,
        records: Iterable[FeedRecord],
        ledger: Ledger,
        on_sent: Callable[[FeedRecord, SourcePosition], None],
    ) -> None:
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
        """Send as many records as the limits allow; raise ``KafkaException`` if one failed."""
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
        self._producer.purge()
        self._producer.flush(1.0)
        self._producer.close()

    def _has_room(self, record: FeedRecord) -> bool:
        open_bytes = self._ledger.open_bytes + self._unacknowledged_bytes
        open_records = self.produced - self._ledger.decided
        return open_records == 0 or (
            open_records < OPEN_RECORDS_MAX and open_bytes + record.size_bytes <= OPEN_BYTES_MAX
        )

    def _send(self, record: FeedRecord) -> None:
        size = record.size_bytes

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


# ---- The observer of the outputs.

_POLL_SECONDS: Final = 0.05
_END_SECONDS: Final = 20.0


class ObserverError(FirstseenError):
    """The outputs could not be read, or have other records."""


class Observer:
    """Reads the three output topics from the beginning; calls ``on_output`` with each output.

    If the broker dropped a record before it was read, that is an error here: otherwise the record
    would count as lost by the filter.
    """

    def __init__(
        self,
        settings: Settings,
        partitions: dict[str, int],
        on_output: Callable[[ReceivedOutput], None],
    ) -> None:
        self.last_output_at = time.monotonic()
        self._on_output = on_output
        self._follower = TopicFollower(settings, partitions, from_beginning=True, gaps="error")

    def close(self) -> None:
        self._follower.__exit__(None, None, None)

    def read(self) -> int:
        """Read for a moment; return the number of outputs."""
        records = self._follower.read(_POLL_SECONDS)
        for record in records:
            output = received_output(record.value, record.headers)
            if output is None:
                raise ObserverError(f"{record.position} is not an output of the filter")
            self._on_output(output)
        if records:
            self.last_output_at = time.monotonic()
        return len(records)

    def read_to_ends(self) -> None:
        """Read to the present end of each topic; raise ``ObserverError`` after 20 s."""
        ends = self._follower.ends()
        if not becomes_true(
            lambda: self._follower.has_passed(ends), _END_SECONDS, 0, pause=lambda _: self.read()
        ):
            raise ObserverError(
                f"the outputs could not be read to their ends within {_END_SECONDS} s"
            )
