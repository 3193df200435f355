"""Deletes the stores of shards from a disk, or an index with its internal topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streams.care.checkpoints import refuse_open
from streams.care.local_shards import LocalShard
from streams.care.sole_member import refuse_running_workers
from streams.kafka.retries import becomes_true
from streams.settings.settings import Settings
from streams.store.shard_directory import discard_store
from streams.topics.admin import TopicsError, create, partitions_of
from streams.topics.plans import topic_plans

Report = Callable[[str, int, int], None]

_ANSWER_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.2


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted. ``topics``: those that were deleted and created again, empty."""

    application: str
    shards: list[int]
    topics: list[str]


def drop_stores(settings: Settings, shards: Sequence[LocalShard]) -> Dropped:
    """Delete the stores of shards; a worker makes them again from the changelog.

    Raises ``StoreLockedError`` before anything is deleted where one is open.
    """
    for shard in shards:
        refuse_open(shard)
    for shard in shards:
        discard_store(shard.path)
    return Dropped(
        application=settings.application_id,
        shards=[shard.partition for shard in shards],
        topics=[],
    )


def drop_index(
    settings: Settings, admin: AdminClient, shards: Sequence[LocalShard], report: Report
) -> Dropped:
    """Delete an index: log, reports, changelog, the group's offsets, and the stores on this disk.

    The topics are created again, empty, with as many partitions and copies. Raises
    ``WorkersRunError``, ``StoreLockedError`` and ``TopicsError``.
    """
    refuse_running_workers(admin, settings)
    for shard in shards:
        refuse_open(shard)
    names = [settings.topics.log, settings.topics.reports, settings.topics.changelog]
    there = partitions_of(admin, names)
    copies = _copies(admin, there)
    raw = partitions_of(admin, [settings.topics.raw]).get(settings.topics.raw)
    report("deleting topics", 0, 0)
    _delete_topics(admin, list(there))
    _delete_group(admin, settings.application_id)
    report("creating topics", 0, 0)
    plans = [
        plan
        for plan in topic_plans(settings, raw or there.get(settings.topics.changelog, 1), raw)
        if plan.name in there
    ]
    create(admin, plans, replication_factor=copies)
    for shard in shards:
        discard_store(shard.path)
    return Dropped(
        application=settings.application_id,
        shards=[shard.partition for shard in shards],
        topics=sorted(there),
    )


def _copies(admin: AdminClient, topics: Iterable[str]) -> int:
    """Return how many copies the topics have of each partition; -1: the broker's choice."""
    known: Any = admin.list_topics(timeout=_ANSWER_SECONDS).topics
    counts = [len(each.replicas) for name in topics for each in known[name].partitions.values()]
    return max(counts, default=-1)


def _delete_topics(admin: AdminClient, names: list[str]) -> None:
    if not names:
        return
    for name, future in admin.delete_topics(names, operation_timeout=_ANSWER_SECONDS).items():
        try:
            future.result(_ANSWER_SECONDS + 1.0)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TopicsError(
                    f"{name} cannot be deleted: {reason.str()}. Grant the ACL operation Delete on "
                    "it, or start another index with another application_id"
                ) from error
    if not becomes_true(lambda: not partitions_of(admin, names), _ANSWER_SECONDS, _AGAIN_SECONDS):
        raise TopicsError(f"the brokers still list {', '.join(names)} after their deletion")


def _delete_group(admin: AdminClient, group: str) -> None:
    for future in admin.delete_consumer_groups([group], request_timeout=_ANSWER_SECONDS).values():
        try:
            future.result(_ANSWER_SECONDS + 1.0)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise TopicsError(
                    f"the offsets of the group {group} cannot be deleted: {reason.str()}"
                ) from error
