"""Sending again, and remembering what was sent again.

Which dead letters have been sent again stands in the offsets of a consumer group of its own,
``<application id>.dlq-replay``: the offset is the first dead letter that has not been, the metadata
(``streams.dead_letters.offset_ranges``) those behind it that have been. With
``delivery=exactly_once`` records and offsets are one transaction, so the next replay
continues where an interrupted one was; a second replay at the same time ends the first. With
``at_least_once`` the offsets are committed after the acknowledgements: a replay that is killed
between may send that batch again.

A broker forgets the offsets of a group after ``offsets.retention.minutes`` without a commit, 7 days
by default. Dead letters that are replayed again after that become duplicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.dead_letters.offset_ranges import OffsetRanges
from streams.dead_letters.topic import DeadLetterTopics
from streams.errors import BrokerRefusedError
from streams.kafka.acknowledged_sends import AcknowledgedProducer
from streams.kafka.client_config import consumer_config, output_config
from streams.kafka.commit_errors import FencedError
from streams.kafka.partition_offsets import committed_offsets
from streams.kafka.producer_record import ProducerRecord
from streams.kafka.retries import retrying
from streams.kafka.transactional_producer import TransactionalProducer
from streams.settings.settings import Delivery, Settings

GROUP_SUFFIX: Final = ".dlq-replay"
"""What the group and the transactional id have behind the application id."""

_NO_COMMIT: Final = 0
_RETRY_SECONDS: Final = 0.2

ReplayedOffsets = Mapping[int, OffsetRanges]
"""By partition of the dead letters' topic, the offsets that are done."""


class Redeliveries(Protocol):
    """Sends records again and remembers their dead letters, both or (after a crash) perhaps one."""

    def begin(self) -> dict[int, OffsetRanges]:
        """Fence an earlier replay, and return the offsets that are done."""

    def send(self, records: Sequence[ProducerRecord], progress: ReplayedOffsets) -> None:
        """Send records and remember that ``progress`` is done.

        Raises ``FirstseenError``; nothing of ``records`` counts as sent then.
        """

    def close(self) -> None:
        """Close the connections."""


def redeliveries_of(settings: Settings, topics: DeadLetterTopics) -> Redeliveries:
    """Return what sends as ``settings.delivery`` says."""
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
            consumer_config(
                settings,
                group_id=self.group,
                enable_auto_commit=False,
                isolation_level="read_committed",
            )
        )

    def read(self) -> dict[int, OffsetRanges]:
        """Return the offsets that are done, by partition.

        Raises ``BrokerRefusedError`` where they cannot be read.
        """
        wanted = [
            TopicPartition(self._topics.dead_letters, partition)
            for partition in range(self._topics.dead_letter_partitions)
        ]
        try:
            return {
                topic_partition.partition: self._ranges(topic_partition)
                for topic_partition in self._committed(wanted)
            }
        except (KafkaException, ValueError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise BrokerRefusedError(
                f"what was replayed before cannot be read from the group {self.group}: {reason}"
            ) from error

    def offsets(self, progress: ReplayedOffsets) -> list[TopicPartition]:
        """Return what is to be committed; raises ``BrokerRefusedError`` where it does not fit."""
        offsets = []
        for partition, done in progress.items():
            text = done.text(self._topics.dead_letter_topic_id)
            if text is None:
                raise BrokerRefusedError(
                    f"partition {partition} of {self._topics.dead_letters} has been replayed with "
                    "too many gaps to be remembered. Replay the oldest first: 'firstseen dlq "
                    "replay --all --limit N' starts with offset {done.first_missing}"
                )
            offsets.append(
                TopicPartition(
                    self._topics.dead_letters, partition, done.first_missing, metadata=text
                )
            )
        return offsets

    def close(self) -> None:
        """Close the connection."""
        self.consumer.close()

    def _committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the committed offsets; waits while no broker coordinates the group."""
        ask = retrying(self._seconds, _RETRY_SECONDS)
        return ask(committed_offsets, self.consumer, partitions, self._seconds)

    def _ranges(self, partition: TopicPartition) -> OffsetRanges:
        # The type stubs leave metadata out.
        text = cast(str | None, getattr(partition, "metadata", None))
        if partition.offset < _NO_COMMIT or not text:
            return OffsetRanges()
        return OffsetRanges.of_text(text, self._topics.dead_letter_topic_id)


class _Acknowledged:
    """For brokers without transactions: acknowledged, then remembered."""

    def __init__(self, settings: Settings, memory: ReplayMemory) -> None:
        self._memory = memory
        self._producer = AcknowledgedProducer(
            output_config(settings), settings.send_timeout_seconds
        )

    def begin(self) -> dict[int, OffsetRanges]:
        return self._memory.read()

    def send(self, records: Sequence[ProducerRecord], progress: ReplayedOffsets) -> None:
        offsets = self._memory.offsets(progress)
        self._producer.send(records)
        try:
            self._memory.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise BrokerRefusedError(
                f"{len(records)} records were sent again, but that cannot be remembered "
                f"(group {self._memory.group}): {error.args[0].str()}"
            ) from error

    def close(self) -> None:
        self._producer.close()
        self._memory.close()


class _Transactional:
    """Sent and remembered in one transaction."""

    def __init__(self, settings: Settings, memory: ReplayMemory) -> None:
        self._memory = memory
        self._producer = TransactionalProducer(
            output_config(settings), memory.group, timeout_seconds=settings.send_timeout_seconds
        )

    def begin(self) -> dict[int, OffsetRanges]:
        self._producer.open()
        return self._memory.read()

    def send(self, records: Sequence[ProducerRecord], progress: ReplayedOffsets) -> None:
        offsets = self._memory.offsets(progress)
        metadata = self._memory.consumer.consumer_group_metadata()
        try:
            self._producer.commit(records, offsets, metadata)
        except FencedError as error:
            raise FencedError(
                "nothing of this batch was sent: another replay of this application id has started"
            ) from error

    def close(self) -> None:
        self._producer.close()
        self._memory.close()
