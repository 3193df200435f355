"""The topics of an index as a command that changes it finds them."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from simhash_core.documents import TopicPartition
from streams.care.changelog_heads import ShardHead, shard_heads
from streams.care.sole_member import refuse_running_workers
from streams.errors import BrokerUnavailableError
from streams.kafka.client_config import changelog_group, consumer_config
from streams.kafka.partition_offsets import committed_offsets
from streams.ordering.index_identity import Claim, refuse_other_settings
from streams.settings.settings import Settings
from streams.topics.admin import TopicsError, can_administer, partitions_of
from streams.topics.shard_topics import RawTopic, grow_changelog, raw_topic, refuse_lost_shards
from streams.topics.watermarks import BrokerWatermarks, Watermarks

_ANSWER_SECONDS = 30.0


class IndexTopics(NamedTuple):
    """The raw topic, and what the changelog says of each shard."""

    raw: RawTopic
    shards: list[ShardHead]

    @property
    def is_empty(self) -> bool:
        """Whether no shard has anything."""
        return all(each.is_empty for each in self.shards)


def index_topics(admin: AdminClient, settings: Settings, *, changes: bool) -> IndexTopics:
    """Look at the topics of an index; blocking.

    ``changes``: the index is to be changed, so its group must have no members, and the broker must
    have transactions. Raises ``TopicsError``, ``WorkersRunError``, and what reading the changelog
    raises.
    """
    if changes:
        if not can_administer(admin):
            raise TopicsError(
                "this broker has no transactions (librdkafka's in-process broker has none), and "
                "without them an index is changed by its workers alone"
            )
        grow_changelog(admin, settings)
        refuse_running_workers(admin, settings)
    raw = raw_topic(admin, settings)
    refuse_lost_shards(admin, settings)
    changelog = settings.topics.changelog
    there = partitions_of(admin, [changelog]).get(changelog, 0)
    return IndexTopics(raw, shard_heads(settings, range(min(raw.partitions, there))))


def refuse_other_index(shards: list[ShardHead], identity: str, settings: Settings) -> None:
    """Raise ``OtherSettingsError`` where an index has entries of another identity."""
    where = f"the index of application {settings.application_id!r} ({settings.topics.changelog})"
    for each in shards:
        if each.progress is not None:
            there = each.progress
            claim = Claim(there.identity, there.reading, 0, 0)
            refuse_other_settings(claim, identity, there.reading, where)


def raw_watermarks(settings: Settings, raw: RawTopic) -> dict[int, Watermarks]:
    """Return where each partition of the raw topic begins and ends; blocking.

    Raises ``BrokerUnavailableError``.
    """
    config = consumer_config(settings, group_id=changelog_group(settings))
    config.pop("group.id")
    partitions = [TopicPartition(raw.name, each) for each in range(raw.partitions)]
    watermarks = BrokerWatermarks(config, settings.application_id, _ANSWER_SECONDS).of(partitions)
    return {each.partition: marks for each, marks in watermarks.items()}


def committed_by(settings: Settings, application: str, raw: RawTopic) -> dict[int, int]:
    """Return what the group of an application has committed in the raw topic, by partition.

    Blocking. Raises ``BrokerUnavailableError``.
    """
    consumer = Consumer(consumer_config(settings, group_id=application))
    wanted = [ClientPartition(raw.name, partition) for partition in range(raw.partitions)]
    try:
        committed = committed_offsets(consumer, wanted, _ANSWER_SECONDS)
    except KafkaException as error:
        raise BrokerUnavailableError(
            f"the broker does not return the offsets of {application}: {error.args[0].str()}"
        ) from error
    finally:
        consumer.close()
    return {each.partition: each.offset for each in committed if each.offset >= 0}
