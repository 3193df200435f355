"""Replay: sends dead letters again in batches, accounts for each, and remembers which were sent.

It remembers them in the offsets of its own consumer group, ``<application id>.dlq-replay``: the
offset is that of the first dead letter that was not sent, and the metadata (``OffsetRanges``) has
the later ones that were sent. With ``delivery=exactly_once``, records and offsets are one
transaction: a replay continues where the last one was interrupted, and a concurrent replay ends the
first. With ``at_least_once``, offsets are committed after the acknowledgements: if a replay is
killed in between, the next one sends that batch again.

A broker forgets a group's offsets after ``offsets.retention.minutes`` without a commit (7 days by
default); dead letters replayed again after that become duplicates.
"""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self, cast

from confluent_kafka import KafkaException, TopicPartition

from streams.dead_letters.letters import (
    DeadLetterTopics,
    Listed,
    ReplayOutcome,
    dead_letter_of,
    redelivery,
    why_not_sent,
)
from streams.errors import BrokerRefusedError
from streams.kafka.client_config import client_config, output_config
from streams.kafka.clients import Consumer, committed_offsets
from streams.kafka.errors import FencedError, Retries
from streams.kafka.producers import AcknowledgedProducer, ProducerRecord
from streams.kafka.topic_follower import ReadRecord
from streams.kafka.transactions import TransactionalProducer
from streams.settings.settings import Delivery, Settings

# ---- Offsets of one partition in the metadata of a committed offset.
#
# The text has at most ``TEXT_CHARACTERS_MAX`` characters (the broker's
# ``offset.metadata.max.bytes`` is 4096 by default)::
#
#     1:<tag>:<base85 of zlib of varints>
#
# The varints are alternating lengths of missing and present offsets, from offset 0. The ``tag``
# says whose offsets they are, such as a topic id.

TEXT_CHARACTERS_MAX: Final = 4000

_VERSION: Final = "1"
_LOW_BITS: Final = 0x7F
_MORE: Final = 0x80
_RANGES_MAX: Final = 1_000_000


class OffsetRanges:
    """A set of offsets as ascending, separate, half-open ranges."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __contains__(self, offset: object) -> bool:
        assert isinstance(offset, int)
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._stops[at]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._stops, strict=True))

    @property
    def first_missing(self) -> int:
        return self._stops[0] if self._starts and self._starts[0] == 0 else 0

    def add(self, start: int, stop: int) -> None:
        """Add the offsets from ``start`` up to, not including, ``stop``."""
        if start >= stop:
            return
        first = bisect_left(self._stops, start)
        behind = bisect_right(self._starts, stop)
        if first < behind:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[behind - 1])
        self._starts[first:behind] = [start]
        self._stops[first:behind] = [stop]

    def text(self, tag: str) -> str | None:
        """Return the set as text, or None if it is too long; ``tag`` has no colon."""
        content = bytearray()
        reached = 0
        for start, stop in self:
            content += _varint(start - reached) + _varint(stop - start)
            reached = stop
        packed = base64.b85encode(zlib.compress(bytes(content), 9)).decode()
        text = f"{_VERSION}:{tag}:{packed}"
        return text if len(text) <= TEXT_CHARACTERS_MAX else None

    @classmethod
    def of_text(cls, text: str, tag: str) -> Self:
        """Return the set in ``text``, empty for another tag; raise ``ValueError`` if malformed."""
        ranges = cls()
        version, _, rest = text.partition(":")
        theirs, colon, packed = rest.partition(":")
        if version != _VERSION or not colon:
            raise ValueError(f"it begins with {text[:20]!r}, not with '{_VERSION}:'")
        if theirs != tag:
            return ranges
        try:
            unpacking = zlib.decompressobj()
            content = unpacking.decompress(base64.b85decode(packed), 2 * _RANGES_MAX)
        except zlib.error as error:
            raise ValueError(f"it cannot be unpacked: {error}") from error
        if not unpacking.eof:
            raise ValueError("it cannot be unpacked: it is truncated or too long")
        numbers = list(_varints(content))
        reached = 0
        for missing, present in zip(numbers[::2], numbers[1::2], strict=True):
            ranges.add(reached + missing, reached + missing + present)
            reached += missing + present
        return ranges


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > _LOW_BITS:
        parts.append(number & _LOW_BITS | _MORE)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _varints(content: bytes) -> Iterator[int]:
    number = shift = 0
    for part in content:
        number |= (part & _LOW_BITS) << shift
        shift += 7
        if part < _MORE:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("it ends in the middle of a number")


GROUP_SUFFIX: Final = ".dlq-replay"
"""Suffix of the group and the transactional id, after the application id."""

_RETRY_SECONDS: Final = 0.2

ReplayedOffsets = Mapping[int, OffsetRanges]  # done offsets by partition of the dead letters' topic


class Redeliveries:
    """Remembers which dead letters were replayed; this class sends nothing (a dry run).

    It remembers them in the offsets of a group that nobody joins.
    """

    def __init__(self, settings: Settings, topics: DeadLetterTopics) -> None:
        self.group = settings.application_id + GROUP_SUFFIX
        self._topics = topics
        self._seconds = settings.send_timeout_seconds
        self._consumer = Consumer(
            client_config(
                settings,
                group_id=self.group,
                enable_auto_commit=False,
                isolation_level="read_committed",
            )
        )

    def begin(self) -> dict[int, OffsetRanges]:
        """Return the offsets that were replayed before, by partition."""
        wanted = [
            TopicPartition(self._topics.dead_letters, partition)
            for partition in range(self._topics.dead_letter_partitions)
        ]
        ask = Retries(self._seconds, _RETRY_SECONDS)
        try:
            committed = ask(committed_offsets, self._consumer, wanted, self._seconds)
            return {each.partition: self._ranges(each) for each in committed}
        except (KafkaException, ValueError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise BrokerRefusedError(
                f"what was replayed before cannot be read from the group {self.group}: {reason}"
            ) from error

    def send(self, records: Sequence[ProducerRecord], progress: ReplayedOffsets) -> None:
        """Send records and remember ``progress``; on ``FirstseenError`` none count as sent.

        If the process is killed in between, records may be sent that are not remembered.
        """

    def close(self) -> None:
        self._consumer.close()

    def _offsets(self, progress: ReplayedOffsets) -> list[TopicPartition]:
        topic, offsets = self._topics.dead_letters, []
        for partition, done in progress.items():
            text = done.text(self._topics.dead_letter_topic_id)
            if text is None:
                raise BrokerRefusedError(
                    f"partition {partition} of {topic} has been replayed with more gaps than the "
                    "group's offsets can store. Replay the oldest first: 'firstseen dlq replay "
                    f"--all --limit N' starts with offset {done.first_missing}"
                )
            offsets.append(TopicPartition(topic, partition, done.first_missing, metadata=text))
        return offsets

    def _ranges(self, partition: TopicPartition) -> OffsetRanges:
        # The type stubs lack metadata; there is none before the first commit.
        text = cast(str | None, getattr(partition, "metadata", None))
        if not text:
            return OffsetRanges()
        return OffsetRanges.of_text(text, self._topics.dead_letter_topic_id)


class _Acknowledged(Redeliveries):
    def __init__(self, settings: Settings, topics: DeadLetterTopics) -> None:
        super().__init__(settings, topics)
        self._producer = AcknowledgedProducer(
            output_config(settings), settings.send_timeout_seconds
        )

    def send(self, records: Sequence[ProducerRecord], progress: ReplayedOffsets) -> None:
        offsets = self._offsets(progress)
        self._producer.send(records)
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise BrokerRefusedError(
                f"{len(records)} records were sent again, but their offsets cannot be stored "
                f"(group {self.group}): {error.args[0].str()}"
            ) from error

    def close(self) -> None:
        self._producer.close()
        super().close()


class _Transactional(Redeliveries):
    def __init__(self, settings: Settings, topics: DeadLetterTopics) -> None:
        super().__init__(settings, topics)
        self._producer = TransactionalProducer(
            output_config(settings), self.group, timeout_seconds=settings.send_timeout_seconds
        )

    def begin(self) -> dict[int, OffsetRanges]:
        self._producer.open()
        return super().begin()

    def send(self, records: Sequence[ProducerRecord], progress: ReplayedOffsets) -> None:
        offsets = self._offsets(progress)
        try:
            self._producer.commit(records, offsets, self._consumer.consumer_group_metadata())
        except FencedError as error:
            raise FencedError(
                "no record of this batch was sent: another replay with this application id has "
                "started"
            ) from error

    def close(self) -> None:
        self._producer.close()
        super().close()


def redeliveries_of(settings: Settings, topics: DeadLetterTopics) -> Redeliveries:
    once = settings.delivery is Delivery.EXACTLY_ONCE
    return (_Transactional if once else _Acknowledged)(settings, topics)


# ---- One replay

_BATCH_RECORDS: Final = 500
_BATCH_BYTES: Final = 8 * 1024 * 1024
_NAMED_MAX: Final = 20


class Selection(NamedTuple):
    """Which dead letters to replay. Empty ``reasons``: any. ``again``: replayed ones too."""

    reasons: frozenset[str]
    limit: int | None
    redeliveries_max: int
    again: bool


class Account:
    """Counts the records that were read, by outcome.

    ``no_dead_letter`` counts records in another form. ``left`` has the first records that were not
    sent. ``under_way`` counts records of a batch that may or may not have been sent.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[ReplayOutcome] = Counter()
        self.not_selected = 0
        self.no_dead_letter = 0
        self.under_way = 0
        self.left: list[Listed] = []

    @property
    def sent(self) -> int:
        return self.outcomes[ReplayOutcome.SENT]


class Replay:
    """One replay; ``account`` is valid at any time, also after an exception in ``run``."""

    def __init__(
        self,
        topics: DeadLetterTopics,
        selection: Selection,
        redeliveries: Redeliveries,
        account: Account,
    ) -> None:
        self.account = account
        self._topics = topics
        self._selection = selection
        self._redeliveries = redeliveries
        self._done: dict[int, OffsetRanges] = {}
        self._read_to: dict[int, int] = {}
        self._batch: list[ProducerRecord] = []
        self._batch_bytes = 0
        self._touched: set[int] = set()

    def run(self, records: Iterable[ReadRecord], *, whole: bool) -> None:
        """With ``whole``, ``records`` are the whole topic: offsets between them count as done."""
        self._done = self._redeliveries.begin()
        limit = self._selection.limit
        for record in records:
            if limit is not None and self.account.sent + len(self._batch) >= limit:
                break
            self._take(record, whole=whole)
            if len(self._batch) >= _BATCH_RECORDS or self._batch_bytes >= _BATCH_BYTES:
                self._send()
        self._send()

    def _take(self, record: ReadRecord, *, whole: bool) -> None:
        partition, offset = record.position.partition, record.position.offset
        done = self._done.setdefault(partition, OffsetRanges())
        was_done = offset in done
        if whole:
            done.add(self._read_to.get(partition, 0), offset)
            self._read_to[partition] = offset + 1
        letter = dead_letter_of(record)
        if letter is None:
            self.account.no_dead_letter += 1
            return
        if self._selection.reasons and letter.reason not in self._selection.reasons:
            self.account.not_selected += 1
            return
        why = why_not_sent(
            letter,
            self._topics.raw,
            self._selection.redeliveries_max,
            replayed_before=was_done and not self._selection.again,
        )
        if why is not None:
            self.account.outcomes[why] += 1
            left = self.account.left
            if why is not ReplayOutcome.REPLAYED_BEFORE and len(left) < _NAMED_MAX:
                left.append(Listed(letter, why))
            return
        replayed = redelivery(letter, self._topics.raw_partitions)
        done.add(offset, offset + 1)
        self._touched.add(partition)
        self._batch.append(replayed)
        self._batch_bytes += len(replayed.key or b"") + len(replayed.value or b"")

    def _send(self) -> None:
        if not self._batch:
            return
        self.account.under_way = len(self._batch)
        progress = {partition: self._done[partition] for partition in self._touched}
        self._redeliveries.send(self._batch, progress)
        self.account.under_way = 0
        self.account.outcomes[ReplayOutcome.SENT] += len(self._batch)
        self._batch, self._batch_bytes = [], 0
        self._touched.clear()
