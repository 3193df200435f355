"""The consumer group of the workers, as the broker describes it: members, offsets, lag."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.kafka.partition_offsets import committed_offsets
from streams.topics.admin import partitions_of
from streams.topics.watermarks import BrokerWatermarks

_SPARE_SECONDS: Final = 1.0


class Member(NamedTuple):
    """A member of the group: ``name`` is its client id, ``host`` as the broker sees it."""

    name: str
    host: str
    partitions: tuple[int, ...]


class GroupState(NamedTuple):
    """The group at one time.

    ``members``: None where the broker does not describe groups. ``partitions``: of the raw topic.
    ``notes``: the text beside the committed offset of a partition. ``lag``: raw records that the
    group has not committed; None where the broker did not say for all partitions.
    """

    members: list[Member] | None
    partitions: int
    notes: dict[int, str]
    lag: int | None


class GroupReader:
    """Reads the state of one group; for one thread. Joins nothing."""

    def __init__(
        self, config: Mapping[str, Any], group_id: str, topic: str, timeout_seconds: float
    ) -> None:
        """``config``: properties of librdkafka. Connects with the first request.

        Each request takes at most ``timeout_seconds``, and then raises ``BrokerUnavailableError``.
        """
        self._config = {**config, "log_level": 0}
        self._group_id = group_id
        self._topic = topic
        self._seconds = timeout_seconds
        self._watermarks = BrokerWatermarks(config, group_id, timeout_seconds)

    def read(self) -> GroupState:
        """Return the state now. Raises ``BrokerUnavailableError``."""
        try:
            admin = AdminClient(self._config)
            # Of all topics: a broker may create one that is queried by its name.
            partitions = list(range(partitions_of(admin, [self._topic]).get(self._topic, 0)))
            offsets = self._offsets(partitions)
        except KafkaException as error:
            raise BrokerUnavailableError(error.args[0].str()) from error
        marks = self._watermarks.of([TopicPartition(self._topic, each) for each in partitions])
        behind = [
            max(0, mark.readable_end - max(offsets[each.partition].offset, mark.start))
            for each, mark in marks.items()
        ]
        return GroupState(
            self._members(admin),
            len(partitions),
            {each.partition: each.metadata for each in offsets.values() if each.metadata},
            sum(behind) if len(behind) == len(partitions) else None,
        )

    def _offsets(self, partitions: list[int]) -> dict[int, ClientPartition]:
        consumer = Consumer({**self._config, "group.id": self._group_id})
        try:
            wanted = [ClientPartition(self._topic, each) for each in partitions]
            committed = committed_offsets(consumer, wanted, self._seconds)
        finally:
            consumer.close()
        return {each.partition: each for each in committed}

    def _members(self, admin: AdminClient) -> list[Member] | None:
        """Return the members; None where the broker does not describe groups, or may not."""
        futures = admin.describe_consumer_groups([self._group_id], request_timeout=self._seconds)
        try:
            described = futures[self._group_id].result(self._seconds + _SPARE_SECONDS)
        except (KafkaException, FutureTimeoutError):
            return None
        return [
            Member(
                each.client_id,
                each.host.removeprefix("/"),
                tuple(
                    sorted(
                        assigned.partition
                        for assigned in (
                            each.assignment.topic_partitions if each.assignment else []
                        )
                    )
                ),
            )
            for each in described.members
        ]
