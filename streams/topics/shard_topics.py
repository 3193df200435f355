"""The topics whose partitions are the shards: raw, and changelog partition p for raw partition p.

What can happen to the raw topic, and what follows:

===========================================  =====================================================
it gets more partitions                      new, empty shards: ``grow_changelog``
it is deleted, and created again             its chains begin again, as its id is another; the
                                             entries stay
it is created again with fewer partitions    ``refuse_lost_shards``: nobody would own the entries of
                                             the last shards, and look-ups would miss them
===========================================  =====================================================
"""

from __future__ import annotations

from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions

from streams.kafka.retries import becomes_true
from streams.settings.settings import Settings
from streams.topics.admin import TopicsError, can_administer, partitions_of
from streams.topics.topic_ids import topic_id

_ANSWER_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.1


class RawTopic(NamedTuple):
    """The raw topic as a broker describes it. ``identifier``: "" where the broker knows none."""

    name: str
    identifier: str
    partitions: int


def raw_topic(admin: AdminClient, settings: Settings) -> RawTopic:
    """Return the raw topic as it is now. Blocking.

    Raises ``TopicsError`` where it is missing or not described, ``BrokerUnavailableError`` where no
    broker answers.
    """
    name = settings.topics.raw
    partitions = partitions_of(admin, [name]).get(name)
    if partitions is None:
        raise TopicsError(f"{name} is missing: run 'firstseen topics create'")
    return RawTopic(name, topic_id(admin, name), partitions)


def lost_shards(admin: AdminClient, changelog: str, raw: int, partitions: int) -> list[int]:
    """Return the partitions of the changelog with records in them that no raw partition belongs to.

    ``raw`` and ``partitions``: how many the raw topic and the changelog have.
    """
    if partitions <= raw:
        return []
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # of the library
    wanted = {TopicPartition(changelog, each): latest for each in range(raw, partitions)}
    lost: list[int] = []
    for partition, future in admin.list_offsets(wanted, request_timeout=_ANSWER_SECONDS).items():
        try:
            if future.result(_ANSWER_SECONDS + 1.0).offset > 0:
                lost.append(partition.partition)
        except KafkaException as error:
            raise TopicsError(
                f"the end of {changelog}, partition {partition.partition}, cannot be read: "
                f"{error.args[0].str()}"
            ) from error
    return sorted(lost)


def refuse_lost_shards(admin: AdminClient, settings: Settings) -> None:
    """Raise ``TopicsError`` where shards have documents but no raw partition any more. Blocking."""
    raw, changelog = settings.topics.raw, settings.topics.changelog
    there = partitions_of(admin, [raw, changelog])
    lost = lost_shards(admin, changelog, there.get(raw, 0), there.get(changelog, 0))
    if lost:
        raise TopicsError(
            f"{raw} has {there.get(raw, 0)} partitions, and the index has {max(lost) + 1} shards: "
            "the topic was created again with fewer. Give it at least as many as before "
            f"(kafka-topics.sh --alter --topic {raw} --partitions {max(lost) + 1}), or start a "
            f"new index with another application_id"
        )


def grow_changelog(admin: AdminClient, settings: Settings) -> int:
    """Give the changelog a partition for each of the raw topic; return how many were created.

    Returns when brokers list them. 0: there are enough, or another worker has created them
    meanwhile. Raises ``TopicsError`` where that is not possible. Blocking.
    """
    raw, changelog = settings.topics.raw, settings.topics.changelog
    there = partitions_of(admin, [raw, changelog])
    for name in (raw, changelog):
        if name not in there:
            raise TopicsError(f"{name} is missing: run 'firstseen topics create'")
    wanted, before = there[raw], there[changelog]
    if before >= wanted:
        return 0
    if not can_administer(admin):
        raise TopicsError(
            f"{raw} has {wanted} partitions, {changelog} {before}, and this broker adds none on "
            "request: create both with the same number"
        )
    created = _create_partitions(admin, changelog, wanted)
    _await_partitions(admin, changelog, wanted)
    return wanted - before if created else 0


def _create_partitions(admin: AdminClient, topic: str, wanted: int) -> bool:
    """Raise the number of partitions; return False where somebody else did."""
    futures = admin.create_partitions(
        [NewPartitions(topic, wanted)],
        operation_timeout=_ANSWER_SECONDS,
        request_timeout=_ANSWER_SECONDS,
    )
    try:
        futures[topic].result(_ANSWER_SECONDS + 1.0)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.INVALID_PARTITIONS:
            return False  # it has as many, or more: the wait that follows finds out
        by_hand = f"kafka-topics.sh --alter --topic {topic} --partitions {wanted}"
        raise TopicsError(
            f"{topic} needs {wanted} partitions, and they cannot be created: {reason.str()}. "
            f"Grant the Kafka user the ACL operation Alter on it, or create them as one who may, "
            f"with 'firstseen topics create' or {by_hand}"
        ) from error
    return True


def _await_partitions(admin: AdminClient, topic: str, wanted: int) -> None:
    if not becomes_true(
        lambda: partitions_of(admin, [topic]).get(topic, 0) >= wanted,
        _ANSWER_SECONDS,
        _AGAIN_SECONDS,
    ):
        raise TopicsError(
            f"{topic} was given {wanted} partitions, but brokers list fewer after "
            f"{_ANSWER_SECONDS:g} s"
        )
