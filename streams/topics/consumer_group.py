"""The consumer group of the workers: its members, offsets and lag."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient, Consumer, committed_offsets
from streams.kafka.errors import Retries, is_of_client
from streams.topics.admin import partitions_of
from streams.topics.group_description import ListedGroup, ListedMember, described_group
from streams.topics.watermarks import BrokerWatermarks, broker_answers

# ---- The members of a group; no other code asks a broker for them.
#
# The older call, ``list_groups``, is used for all groups but those that it does not know: the newer
# one may end the process (``streams.topics.group_description``).
#
# While a group's coordinator moves to another broker, the group may seem to have no members. So a
# member should check that the list has the member itself.

_GROUP_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.2
_STABLE: Final = "Stable"
_DEAD: Final = "Dead"  # unknown, or with another protocol


def listed_group(client: AdminClient, group: str, seconds: float) -> ListedGroup:
    """Ask once for a group's members; none for an unknown group. Raises ``KafkaException``."""
    listed: list[Any] = client.list_groups(group, timeout=seconds)
    found = next((each for each in listed if each.id == group), None)
    if found is None:
        return ListedGroup(is_stable=False, members=[])
    if found.error is not None:
        raise KafkaException(found.error)
    if found.state == _DEAD:
        return described_group(client.config, group, seconds)
    members = [
        ListedMember(each.client_id, each.id, each.client_host.removeprefix("/"), each.assignment)
        for each in found.members
    ]
    return ListedGroup(found.state == _STABLE, members)


def group_members(client: AdminClient, group: str) -> dict[str, str]:
    """Return the ids of the members by name; raise ``BrokerUnavailableError``."""
    try:
        # A new group's coordinator is loaded at the first request.
        again = Retries(_GROUP_SECONDS, _AGAIN_SECONDS, is_of_client)
        listed = again(listed_group, client, group, _ANSWER_SECONDS)
    except KafkaException as error:
        raise BrokerUnavailableError(
            f"unknown whether other workers are in the group {group}: {error}"
        ) from error
    return {member.name: member.id for member in listed.members}


def assigned_partitions(
    assignment: bytes | Mapping[str, Iterable[int]], topic: str
) -> frozenset[int]:
    """Return the partitions of a topic in a member's assignment.

    Kafka's encoding is a version (int16), then an array of topics (int32 count), each with its name
    (int16 length) and an array of partitions (int32 each); b"" for none. Raises ``struct.error``.
    """
    if not isinstance(assignment, bytes):
        return frozenset(assignment.get(topic, ()))
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


# ---- The group as the broker describes it: members, offsets, lag.


class Member(NamedTuple):
    """``name`` is the client id, ``host`` as the broker sees it."""

    name: str
    host: str
    partitions: tuple[int, ...]


class GroupState(NamedTuple):
    members: list[Member] | None  # None: the broker does not describe groups
    partitions: int  # of the raw topic
    notes: dict[int, str]  # the texts of committed offsets, by partition
    lag: int | None  # uncommitted raw records; None: not known for all partitions


class GroupReader:
    """Reads the state of one group without joining; for one thread."""

    def __init__(
        self, config: Mapping[str, Any], group_id: str, topic: str, timeout_seconds: float
    ) -> None:
        """Requests raise ``BrokerUnavailableError`` after ``timeout_seconds``."""
        self._config = {**config, "log_level": 0}
        self._group_id = group_id
        self._topic = topic
        self._seconds = timeout_seconds
        self._watermarks = BrokerWatermarks(config, group_id, timeout_seconds)

    def read(self) -> GroupState:
        with broker_answers():
            admin = AdminClient(self._config)
            # Query all topics, because a broker may create a topic that is queried by name.
            partitions = list(range(partitions_of(admin, [self._topic]).get(self._topic, 0)))
            offsets = self._offsets(partitions)
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
        wanted = [ClientPartition(self._topic, each) for each in partitions]
        with closing(Consumer({**self._config, "group.id": self._group_id})) as consumer:
            committed = committed_offsets(consumer, wanted, self._seconds)
        return {each.partition: each for each in committed}

    def _members(self, admin: AdminClient) -> list[Member] | None:
        """Return the members; None where the broker does not describe groups, or may not."""
        try:
            listed = listed_group(admin, self._group_id, self._seconds)
            return [
                Member(name, host, tuple(sorted(assigned_partitions(assignment, self._topic))))
                for name, _, host, assignment in listed.members
            ]
        except (KafkaException, struct.error):
            return None
