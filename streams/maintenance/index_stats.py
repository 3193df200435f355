"""Figures of the shards on this machine: entries, buckets, bytes, times, progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from simhash_core.errors import FirstseenError
from simhash_core.fingerprints.blocks import BlockScheme
from simhash_core.index.prints import Prints, bucket_values, joined_prints
from simhash_core.log import versions
from simhash_core.log.records import log_offset_of
from simhash_core.text.profiles import index_digest
from streams.documents.timestamps import format_rfc3339
from streams.kafka.connection import connect_admin
from streams.maintenance import Report
from streams.maintenance.index_topics import index_topics, read_log
from streams.settings.settings import Settings
from streams.store.row_codec import ENTRIES
from streams.store.shard_directory import LocalShard, ShardView, bytes_under, shard_view
from streams.topics.consumer_group import group_members

_FULLEST: Final = 5


class BucketStats(msgspec.Struct, frozen=True):
    bucket: str
    value: str
    documents: int


class ShardStats(msgspec.Struct, frozen=True, kw_only=True):
    """A shard on disk."""

    partition: int
    path: str
    index: str
    documents: int
    undecidable: int
    bytes: int
    oldest: str | None  # the time of the oldest document
    newest: str | None
    first_log_offset: int | None  # the lowest log offset of its entries
    last_log_offset: int | None
    next_raw: int | None  # the raw offset to output next
    log_position: int | None  # where reading the log resumes after a restart
    changelog_offset: int  # the store has read the changelog up to this offset


class StandbyStats(msgspec.Struct, frozen=True, kw_only=True):
    """The standbys of the whole index."""

    wanted: int  # the setting
    shards_without: list[int] | None  # no running worker has their standby open; None: unknown
    why_unknown: str | None


class IndexStats(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of all shards together."""

    application: str
    documents: int
    undecidable: int
    bytes: int
    bytes_per_document: float | None
    window: str | None
    standbys: StandbyStats | None  # None: the settings want none
    buckets: int | None  # None: the shards belong to an index with other settings
    mean_documents: float | None  # per bucket
    fullest: list[BucketStats]
    shards: list[ShardStats]


def index_stats(
    application: str,
    stores: Sequence[LocalShard],
    scheme: BlockScheme,
    identity: str,
    window: str | None,
    standbys: StandbyStats | None,
    report: Report,
) -> IndexStats:
    """Return the figures; ``scheme`` and ``identity`` are the settings'. Raise ``StoreError``."""
    shards: list[ShardStats] = []
    parts: list[Prints] = []
    for done, shard in enumerate(stores):
        report(f"shard {shard.partition}", done, len(stores))
        with shard_view(shard.path) as view:
            is_ours = view.owner.index_identity == identity
            prints = (
                [each.prints for each in view.store.prints(scheme.sketch_bands)] if is_ours else []
            )
            parts += prints
            shards.append(_shard(shard, view, prints))
    documents = sum(each.documents for each in shards)
    size = sum(each.bytes for each in shards)
    buckets, mean, fullest = None, None, list[BucketStats]()
    if parts:
        report("buckets", len(stores), len(stores))
        buckets, mean, fullest = _buckets(scheme, joined_prints(parts))
    return IndexStats(
        application=application,
        documents=documents,
        undecidable=sum(each.undecidable for each in shards),
        bytes=size,
        bytes_per_document=round(size / documents, 1) if documents else None,
        window=window,
        standbys=standbys,
        buckets=buckets,
        mean_documents=mean,
        fullest=fullest,
        shards=shards,
    )


def standby_stats(
    settings: Settings, identity: str, timeout_seconds: float, announce: Callable[[str], None]
) -> StandbyStats | None:
    """Ask the broker which shards have no open standby, as the latest control record says."""
    if not settings.standbys:
        return None
    missing: list[int] | None = None
    why: str | None = None
    try:
        missing = _without_standby(settings, identity, timeout_seconds, announce)
    except FirstseenError as error:  # the other figures need no broker
        why = str(error)
    return StandbyStats(wanted=settings.standbys, shards_without=missing, why_unknown=why)


def _without_standby(
    settings: Settings, identity: str, timeout_seconds: float, announce: Callable[[str], None]
) -> list[int]:
    admin = connect_admin(settings, timeout_seconds, announce)
    topics = index_topics(admin, settings, changes=False)
    running = group_members(admin, settings.application_id).keys()
    latest = read_log(settings, identity, topics.shards).replica.latest
    found = []
    for partition in range(topics.raw.partitions):
        members = None if latest is None else latest.standbys_of(partition)
        if members is None:
            since = versions.STANDBYS_SINCE
            raise FirstseenError(f"the log has open standbys only from format version {since} on")
        if members.isdisjoint(running):
            found.append(partition)
    return found


def _shard(shard: LocalShard, view: ShardView, prints: Sequence[Prints]) -> ShardStats:
    store, stored = view.store, view.store.progress()
    documents = len(store)
    times = np.concatenate([each.times_ms for each in prints] or [np.empty(0, dtype=np.int64)])
    live = ENTRIES.key(store.expired_before), ENTRIES.bounds[1]
    first = next((keys[0] for keys, _ in view.rows.scan(*live, 1)), None)
    last = view.rows.last_key_between(*live)
    return ShardStats(
        partition=shard.partition,
        path=str(shard.path),
        index=index_digest(view.owner.index_identity),
        documents=documents,
        undecidable=documents - len(times) if prints or not documents else 0,
        bytes=bytes_under(shard.path),
        oldest=format_rfc3339(int(times.min())) if len(times) else None,
        newest=format_rfc3339(int(times.max())) if len(times) else None,
        first_log_offset=_log_offset(first),
        last_log_offset=_log_offset(last),
        next_raw=None if stored is None else stored.progress.next,
        log_position=None if stored is None else stored.progress.position,
        changelog_offset=store.changelog_offset,
    )


def _buckets(scheme: BlockScheme, prints: Prints) -> tuple[int, float, list[BucketStats]]:
    values = bucket_values(scheme, prints)
    buckets = 0
    members = 0
    fullest: list[BucketStats] = []
    for column in range(values.shape[1]):
        distinct, counts = np.unique(values[:, column], return_counts=True)
        buckets += len(distinct)
        members += int(counts.sum())
        for at in np.argsort(counts)[-_FULLEST:].tolist():
            name = scheme.bucket_name(column)
            fullest.append(BucketStats(name, f"{int(distinct[at]):x}", int(counts[at])))
    fullest.sort(key=lambda each: -each.documents)
    return buckets, round(members / max(1, buckets), 2), fullest[:_FULLEST]


def _log_offset(key: bytes | None) -> int | None:
    return None if key is None else log_offset_of(ENTRIES.number(key))
