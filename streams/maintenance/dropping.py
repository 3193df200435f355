"""Deletes stores of shards, or an index with its internal topics."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException

from streams.kafka.clients import AdminClient
from streams.kafka.errors import becomes_true
from streams.maintenance import Report
from streams.maintenance.checkpoints import refuse_open
from streams.maintenance.index_topics import refuse_running_workers
from streams.settings.settings import Settings
from streams.store.shard_directory import LocalShard, RocksDisk
from streams.store.shard_segments import DIRECTORY
from streams.topics.admin import TopicsError, create, partitions_of
from streams.topics.plans import topic_plans

_ANSWER_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.2


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """The deleted parts; ``topics`` were created again, empty."""

    application: str
    shards: list[int]
    topics: list[str]


def drop_stores(settings: Settings, shards: Sequence[LocalShard]) -> Dropped:
    """Delete the stores of shards; a worker rebuilds them from the changelog.

    Raises ``StoreLockedError``, before any deletion, if one is open.
    """
    for shard in shards:
        refuse_open(shard)
    return _dropped(settings, shards, [])


def _dropped(settings: Settings, shards: Sequence[LocalShard], topics: list[str]) -> Dropped:
    for shard in shards:
        RocksDisk.discard(shard.path)
    if not any(settings.state_path().glob("shard-*")):
        shutil.rmtree(settings.state_path() / DIRECTORY, ignore_errors=True)
    return Dropped(
        application=settings.application_id,
        shards=[shard.partition for shard in shards],
        topics=topics,
    )


def drop_index(
    settings: Settings, admin: AdminClient, shards: Sequence[LocalShard], report: Report
) -> Dropped:
    """Delete an index: log, reports, changelog, the group's offsets, and the local stores.

    The topics are created again, empty, with the same partitions and copies. Raises
    ``WorkersRunError``, ``StoreLockedError`` and ``TopicsError``.
    """
    refuse_running_workers(admin, settings)
    for shard in shards:
        refuse_open(shard)
    names = [settings.topics.log, settings.topics.reports, settings.topics.changelog]
    there = partitions_of(admin, names)
    known: Any = admin.list_topics(timeout=_ANSWER_SECONDS).topics
    copies = [len(each.replicas) for name in there for each in known[name].partitions.values()]
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
    create(admin, plans, replication_factor=max(copies, default=-1))  # -1: the broker's default
    return _dropped(settings, shards, sorted(there))


def _delete_topics(admin: AdminClient, names: list[str]) -> None:
    if not names:
        return
    for name, future in admin.delete_topics(names, operation_timeout=_ANSWER_SECONDS).items():
        if (error := _failure(future, KafkaError.UNKNOWN_TOPIC_OR_PART)) is not None:
            raise TopicsError(
                f"{name} cannot be deleted: {error.args[0].str()}. Grant the ACL operation Delete "
                "on it, or start another index with another application_id"
            ) from error
    if not becomes_true(lambda: not partitions_of(admin, names), _ANSWER_SECONDS, _AGAIN_SECONDS):
        raise TopicsError(f"the brokers still list {', '.join(names)} after their deletion")


def _delete_group(admin: AdminClient, group: str) -> None:
    for future in admin.delete_consumer_groups([group], request_timeout=_ANSWER_SECONDS).values():
        if (error := _failure(future, KafkaError.GROUP_ID_NOT_FOUND)) is not None:
            raise TopicsError(
                f"the offsets of the group {group} cannot be deleted: {error.args[0].str()}"
            ) from error


def _failure(future: Future[Any], ignored_code: int) -> KafkaException | None:
    try:
        future.result(_ANSWER_SECONDS + 1.0)
    except KafkaException as error:
        return None if error.args[0].code() == ignored_code else error
    return None
