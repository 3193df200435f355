"""Starts a new log for an index whose log was lost, or truncated past what its shards need.

The shards keep their entries, outputs and raw offsets; documents in flight are sent again. The new
log starts after the offset of every entry, because a sequence number must never be used twice. So
a new topic is filled up to that offset with empty records, which nobody reads.
"""

from __future__ import annotations

import msgspec

from simhash_core.document_columns import DocumentColumns
from simhash_core.errors import FirstseenError, UsageError
from simhash_core.log.records import (
    NO_CONTROL,
    NO_OFFSET,
    Chain,
    Horizons,
    LogClock,
    log_offset_of,
)
from simhash_core.log.replica import Replica
from streams.kafka.clients import AdminClient
from streams.maintenance import Report
from streams.maintenance.index_topics import (
    ExclusiveMember,
    LogGapError,
    ShardHead,
    changelog_of,
    index_topics,
    log_of,
    raw_watermarks,
    read_log,
    refuse_other_index,
    shard_heads,
    window_of,
)
from streams.maintenance.index_transaction import IndexTransaction, LogReservations
from streams.settings.settings import Settings
from streams.worker.index_on_kafka import NEW_LOG_COMMAND


class LogNotNeededError(FirstseenError):
    """The log has everything that the shards need."""


class NewLog(msgspec.Struct, frozen=True, kw_only=True):
    application: str
    log_offset: int  # where it starts
    filled: int  # empty records before the start
    shards: dict[str, int]  # the next raw offset by partition
    read_again: int  # raw records that are read again, from these offsets on


def begin_new_log(
    settings: Settings, admin: AdminClient, identity: str, report: Report, *, force: bool
) -> NewLog:
    """Start a new log; ``force`` does so even if the present one is usable. Blocking.

    Raises ``LogNotNeededError``, ``UsageError`` for an empty index, ``WorkersRunError``,
    ``IndexChangeError``, and what reading the changelog raises.
    """
    topics = index_topics(admin, settings, changes=True)
    refuse_other_index(topics.shards, identity, settings)
    if topics.is_empty:
        raise UsageError("the index is empty, so its workers can start with any log")
    if not force and _will_do(settings, identity, topics.shards):
        raise LogNotNeededError(
            f"the log {settings.topics.log} has everything that the shards need: start the "
            f"workers. (--force starts a new log anyway)"
        )
    partitions = topics.raw.partitions
    report("joining the group", 0, 0)
    with ExclusiveMember(settings, partitions, NEW_LOG_COMMAND) as member:
        committed = member.committed()  # from here on no worker has an open transaction
        shards = shard_heads(settings, range(partitions))
        end = log_of(settings).ends()[1]
        first = 1 + max(map(_latest_offset, shards))
        heads = [
            (Chain(topics.raw.name, topics.raw.identifier, each), NO_OFFSET)
            for each in range(partitions)
        ]
        filled = max(0, first - end)
        with (
            LogReservations(
                settings, identity, Replica(end, NO_CONTROL), heads, begins=True
            ) as reservations,
            IndexTransaction(settings, NEW_LOG_COMMAND) as transaction,
        ):

            def show(done: int) -> None:
                member.keep()
                report("filling the log", done, filled)

            reservations.fill(filled, show)
            control = reservations.take()
            transaction.continue_behind(control, _clock(settings, shards), shards)
            nexts = {
                each.partition: each.progress.progress.next
                for each in shards
                if each.progress is not None
            }
            offsets = {p: committed.get(p, next_raw) for p, next_raw in nexts.items()}
            transaction.commit(offsets, member.metadata())
    marks = raw_watermarks(settings, topics.raw)
    return NewLog(
        application=settings.application_id,
        log_offset=control,
        filled=filled,
        shards={str(partition): next_raw for partition, next_raw in nexts.items()},
        read_again=sum(
            max(0, marks[partition].readable_end - next_raw)
            for partition, next_raw in nexts.items()
            if partition in marks
        ),
    )


def _will_do(settings: Settings, identity: str, shards: list[ShardHead]) -> bool:
    try:
        state = read_log(settings, identity, shards)
    except LogGapError:
        return False
    if state.damaged:
        return False
    return not any(
        state.replica.lacks_committed(each.progress.progress.position, _latest_offset(each))
        for each in shards
        if each.progress is not None
    )


def _latest_offset(shard: ShardHead) -> int:
    """Return the highest log offset of an entry that the shard knows."""
    expired = 0 if shard.progress is None else shard.progress.expired_before
    return max(shard.latest_entry, log_offset_of(expired) - 1)


def _clock(settings: Settings, shards: list[ShardHead]) -> LogClock | None:
    """Return the watermark after all entries; all shards start with the same one.

    The progress of a shard has the watermark of where it reads the log again. Entries behind that
    are from bundles which the lost log had; without them, they would expire too early.
    """
    known = [each.progress.progress for each in shards if each.progress is not None]
    last = max(known, key=lambda each: each.needed, default=None)
    window = window_of(settings)
    if window is None or last is None:
        return None
    horizons = Horizons(window, last.clock)
    later = [each for shard in shards for each in _entries_from(settings, shard, last.needed)]
    for offset, appended_ms, columns in sorted(later, key=lambda each: each[0]):
        horizons.bundle(offset, columns, appended_ms)
    return horizons.before(1 + max(map(_latest_offset, shards)))


def _entries_from(
    settings: Settings, shard: ShardHead, needed: int
) -> list[tuple[int, int, DocumentColumns]]:
    """Return the entries of a shard from a log offset on: offset, time of the commit, columns."""
    if shard.latest_entry < needed:
        return []
    log = changelog_of(settings, shard.partition)
    entries: list[tuple[int, int, DocumentColumns]] = []
    for tail in log.tails():
        entries = [
            (log_offset_of(int(block.sequences[0])), batch.time_ms, block.columns)
            for batch in tail
            for block in batch.decoded().blocks
        ]
        if any(offset < needed for offset, *_ in entries):
            break
    return [each for each in entries if each[0] >= needed]
