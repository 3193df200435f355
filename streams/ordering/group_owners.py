"""Who owns which shards: read from the broker, beside the workers' own consumers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.errors import BrokerUnavailableError
from streams.kafka.client_config import admin_config, consumer_config
from streams.kafka.partition_offsets import committed_offsets
from streams.monitoring.worker_notes import decode_note
from streams.settings.settings import Delivery, Settings
from streams.topics.admin import partitions_of

_ANSWER_SECONDS: Final = 5.0
_STABLE: Final = "Stable"

Owned = Mapping[str, frozenset[int]]
"""The shards of each worker of the group, by the worker's name."""


class GroupOwners:
    """Asks who owns what; blocking, for one thread at a time."""

    def __init__(self, settings: Settings, writer: str) -> None:
        """Connect nothing yet. ``writer``: this worker's name in the group."""
        self._settings = settings
        self._writer = writer
        self._describes = settings.delivery is Delivery.EXACTLY_ONCE
        self._admin: AdminClient | None = None

    def read(self) -> Owned | None:
        """Return who owns what now; None while partitions move.

        Raises ``BrokerUnavailableError``.
        """
        if self._admin is None:
            self._admin = AdminClient({**admin_config(self._settings), "log_level": 0})
        try:
            return self._described(self._admin) if self._describes else self._noted(self._admin)
        except (KafkaException, struct.error) as error:
            raise BrokerUnavailableError(
                f"it is not known who else works in the group: {error}"
            ) from error

    def _described(self, admin: AdminClient) -> Owned | None:
        """Return the members of the group as the broker describes them.

        Not by ``describe_consumer_groups``: where a broker goes away and comes back meanwhile, it
        ends the process (librdkafka 2.16, ``rd_kafka_enq_once_del_source_return``). Past the
        warning that there is a newer call.
        """
        group, raw = self._settings.application_id, self._settings.topics.raw
        described: list[Any] = super(AdminClient, admin).list_groups(group, timeout=_ANSWER_SECONDS)
        for each in described:
            if each.id == group and each.state == _STABLE:
                return {
                    member.client_id: assigned_partitions(member.assignment, raw)
                    for member in each.members
                }
        return None

    def _noted(self, admin: AdminClient) -> Owned:
        """Return who committed last, as a broker says that describes no groups.

        Workers that own nothing are not known there, but for this one.
        """
        raw = self._settings.topics.raw
        config = consumer_config(self._settings, group_id=self._settings.application_id)
        partitions = partitions_of(admin, [raw]).get(raw, 0)
        consumer = Consumer({**config, "log_level": 0})
        try:
            wanted = [TopicPartition(raw, each) for each in range(partitions)]
            committed = committed_offsets(consumer, wanted, _ANSWER_SECONDS)
        finally:
            consumer.close()
        owned: dict[str, set[int]] = {self._writer: set()}
        for each in committed:
            note = decode_note(each.metadata)
            if note is not None:
                owned.setdefault(note.worker, set()).add(each.partition)
        return {name: frozenset(partitions) for name, partitions in owned.items()}


def assigned_partitions(assignment: bytes, topic: str) -> frozenset[int]:
    """Return the partitions of a topic in the assignment of a member, as Kafka encodes it.

    A version (int16), then an array of topics (int32 count), each with its name (int16 length) and
    an array of partitions (int32 each); b"" while there is none. Raises ``struct.error``.
    """
    if not assignment:
        return frozenset()
    (count,) = struct.unpack_from(">i", assignment, 2)
    at = 6
    assigned: set[int] = set()
    for _ in range(count):
        (length,) = struct.unpack_from(">h", assignment, at)
        name = assignment[at + 2 : at + 2 + length].decode("utf-8", "replace")
        at += 2 + length
        (partitions,) = struct.unpack_from(">i", assignment, at)
        numbers = struct.unpack_from(f">{partitions}i", assignment, at + 4)
        at += 4 + 4 * partitions
        if name == topic:
            assigned.update(numbers)
    return frozenset(assigned)
