"""Sending again, and remembering what was sent again.

Which dead letters have been sent again stands in the offsets of a consumer group of its own,
``<application id>.dlq-replay``: the offset is the first dead letter that has not been, the metadata
(``streams.dead_letters.offset_ranges``) those behind it that have been. With
``delivery=exactly_once`` records and offsets are one transaction, so that whatever happens to a
replay, the next one goes on where it was; a second replay at the same time ends the first. With
``at_least_once`` the offsets are committed after the acknowledgements: a replay that is killed
between may send that batch again.

A broker forgets the offsets of a group that rests for ``offsets.retention.minutes``, 7 days by
default. Dead letters that are replayed once more then are duplicates of what they became before.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from simhash_core.errors import FirstseenError
from streams.dead_letters.offset_ranges import OffsetRanges
from streams.dead_letters.topic import DeadLetterTopics
from streams.errors import BrokerRefusedError
from streams.kafka.acked_producer import AckedProducer, Deliveries, Outgoing, hand_over
from streams.kafka.command_config import librdkafka_config
from streams.kafka.redelivery_transactions import FencedError
from streams.settings.settings import Delivery, Settings

GROUP_SUFFIX: Final = ".dlq-replay"
"""What the group and the transactional id have behind the application id."""

_NO_COMMIT: Final = 0
_RETRY_SECONDS: Final = 0.2
_PASSING: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

Progress = Mapping[int, OffsetRanges]
"""By partition of the dead letters' topic, the offsets that are done with."""


class Redeliveries(Protocol):
    """Sends records again and remembers their dead letters, both or (after a crash) perhaps one."""

    def begin(self) -> dict[int, OffsetRanges]:
        """Take over from a replay before, and return what is done with."""

    def send(self, records: Sequence[Outgoing], progress: Progress) -> None:
        """Send records and remember that ``progress`` is done with.

        Raises ``FirstseenError``; nothing of ``records`` counts as sent then.
        """

    def close(self) -> None:
        """Let go of the connections."""


def redeliveries_of(settings: Settings, topics: DeadLetterTopics) -> Redeliveries:
    """Return what ``settings.delivery`` asks for."""
    memory = ReplayMemory(settings, topics)
    if settings.delivery is Delivery.EXACTLY_ONCE:
        return _Transactional(settings, memory)
    return _Acknowledged(settings, memory)


class ReplayMemory:
    """The offsets of the group of replays, which is never joined."""

    def __init__(self, settings: Settings, topics: DeadLetterTopics) -> None:
        """Connect in the background."""
        self.group = settings.application_id + GROUP_SUFFIX
        self._topics = topics
        self._seconds = settings.send_timeout_seconds
        self.consumer = Consumer(
            librdkafka_config(
                settings,
                group_id=self.group,
                enable_auto_commit=False,
                isolation_level="read_committed",
            )
        )

    def read(self) -> dict[int, OffsetRanges]:
        """Return the offsets that are done with, by partition.

        Raises ``BrokerRefusedError`` where they cannot be read.
        """
        places = [
            TopicPartition(self._topics.dead_letters, partition)
            for partition in range(self._topics.dead_letter_partitions)
        ]
        try:
            return {place.partition: self._ranges(place) for place in self._committed(places)}
        except (KafkaException, ValueError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise BrokerRefusedError(
                f"what was replayed before cannot be read from the group {self.group}: {reason}"
            ) from error

    def offsets(self, progress: Progress) -> list[TopicPartition]:
        """Return what is to be committed; raises ``BrokerRefusedError`` where it does not fit."""
        offsets = []
        for partition, done in progress.items():
            text = done.text(self._topics.dead_letter_topic_id)
            if text is None:
                raise BrokerRefusedError(
                    f"partition {partition} of {self._topics.dead_letters} has been replayed with "
                    "too many gaps to be remembered. Replay the oldest first: 'firstseen dlq "
                    f"replay --all --limit N' begins with offset {done.first_missing}"
                )
            offsets.append(
                TopicPartition(
                    self._topics.dead_letters, partition, done.first_missing, metadata=text
                )
            )
        return offsets

    def close(self) -> None:
        """Let go of the connection."""
        self.consumer.close()

    def _committed(self, places: list[TopicPartition]) -> list[TopicPartition]:
        """Ask, again while the group is being taken up by a broker."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                return self.consumer.committed(places, timeout=self._seconds)
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS)

    def _ranges(self, place: TopicPartition) -> OffsetRanges:
        if place.error is not None:
            raise KafkaException(place.error)
        # The type stubs leave metadata out.
        text = cast(str | None, getattr(place, "metadata", None))
        if place.offset < _NO_COMMIT or not text:
            return OffsetRanges()
        return OffsetRanges.of_text(text, self._topics.dead_letter_topic_id)


class _Acknowledged:
    """For brokers without transactions: acknowledged, then remembered."""

    def __init__(self, settings: Settings, memory: ReplayMemory) -> None:
        self._memory = memory
        self._producer = AckedProducer(librdkafka_config(settings), settings.send_timeout_seconds)

    def begin(self) -> dict[int, OffsetRanges]:
        return self._memory.read()

    def send(self, records: Sequence[Outgoing], progress: Progress) -> None:
        offsets = self._memory.offsets(progress)
        self._producer.send_blocking(records)
        try:
            self._memory.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise BrokerRefusedError(
                f"{len(records)} records were sent again, but that cannot be remembered "
                f"(group {self._memory.group}): {error.args[0].str()}"
            ) from error

    def close(self) -> None:
        self._memory.close()


class _Transactional:
    """Sent and remembered in one transaction."""

    def __init__(self, settings: Settings, memory: ReplayMemory) -> None:
        self._memory = memory
        self._seconds = settings.send_timeout_seconds
        milliseconds = int(self._seconds * 1000)
        self._producer = Producer(
            librdkafka_config(
                settings,
                linger_ms=2,
                compression_type="lz4",
                transactional_id=memory.group,
                transaction_timeout_ms=milliseconds,
                message_timeout_ms=milliseconds,
            )
        )

    def begin(self) -> dict[int, OffsetRanges]:
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                self._producer.init_transactions(self._seconds)
                break
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise self._why("no replay can begin", error) from error
            time.sleep(_RETRY_SECONDS)
        return self._memory.read()

    def send(self, records: Sequence[Outgoing], progress: Progress) -> None:
        offsets = self._memory.offsets(progress)
        deliveries = Deliveries()
        deadline = time.monotonic() + self._seconds
        try:
            self._producer.begin_transaction()
            try:
                for record in records:
                    report = deliveries.report_of(record)
                    hand_over(self._producer, record, deadline=deadline, report=report)
                self._producer.send_offsets_to_transaction(
                    offsets, self._memory.consumer.consumer_group_metadata(), self._seconds
                )
                self._producer.commit_transaction(self._seconds)
            except (KafkaException, FirstseenError):
                self._abort()
                deliveries.raise_too_large()
                raise
        except KafkaException as error:
            raise self._why("nothing of this batch was sent again", error) from error

    def close(self) -> None:
        # One that was fenced, or has failed, says so once more.
        with contextlib.suppress(KafkaException):
            self._producer.close()
        self._memory.close()

    def _abort(self) -> None:
        # If not, the broker will when its time is over; or another replay has done it.
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(self._seconds)

    def _why(self, what: str, error: KafkaException) -> FirstseenError:
        reason: KafkaError = error.args[0]
        if reason.code() in {
            KafkaError._FENCED,  # noqa: SLF001 - the public name of the code
            KafkaError.PRODUCER_FENCED,
            KafkaError.INVALID_PRODUCER_EPOCH,
        }:
            return FencedError(f"{what}: another replay of this application id has begun")
        return BrokerRefusedError(f"{what} (transactional id {self._memory.group}): {reason.str()}")
