"""Begins a new log for an index whose log was lost, or cut past what its shards need.

What the shards have stays: their entries, what they have put out, their raw offsets. What was on
its way through the log is sent again. The new log begins behind the place of every entry, since a
sequence number must never be used twice: where the topic is a new one, it is filled up to there
with records that say nothing, and nobody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from confluent_kafka.admin import AdminClient

from simhash_core.errors import FirstseenError, UsageError
from simhash_core.log.log_clock import LogClock
from simhash_core.log.packets import NO_OFFSET, Chain
from simhash_core.log.records import NO_CONTROL, Progress
from simhash_core.log.replica import Replica
from simhash_core.log.sequence import log_offset_of
from streams.care.changelog_heads import ShardHead, log_of, shard_heads
from streams.care.index_topics import index_topics, raw_watermarks, refuse_other_index
from streams.care.index_transaction import IndexTransaction
from streams.care.log_reservations import LogReservations
from streams.care.log_state import LogCutError, read_log
from streams.care.sole_member import SoleMember
from streams.settings.settings import Settings
from streams.store.changelog_codec import encode_progress

Report = Callable[[str, int, int], None]

_NAME: Final = "index-new-log"


class LogNotNeededError(FirstseenError):
    """The log has all that the shards need."""


class NewLog(msgspec.Struct, frozen=True, kw_only=True):
    """A new log. ``log_offset``: where it begins. ``filled``: records that say nothing.

    ``shards``: by partition, the raw offset that is read next. ``read_again``: raw records behind
    those, as far as the raw topic has them: what was on its way is among them.
    """

    application: str
    log_offset: int
    filled: int
    shards: dict[str, int]
    read_again: int


def begin_new_log(
    settings: Settings, admin: AdminClient, identity: str, report: Report, *, force: bool
) -> NewLog:
    """Begin a new log; ``force``: although the one that there is will do. Blocking.

    Raises ``LogNotNeededError``, ``UsageError`` for an index that has nothing yet,
    ``WorkersRunError``, ``IndexChangeError``, and what reading the changelog raises.
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
    with SoleMember(settings, partitions, f"{settings.application_id}.{_NAME}") as member:
        committed = member.committed()  # no transaction of a worker is open from here on
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
            IndexTransaction(settings, _NAME) as transaction,
        ):

            def show(done: int) -> None:
                member.keep()
                report("filling the log", done, filled)

            reservations.fill(filled, show)
            reservations.begin_at(max(first, end))
            control = reservations.take()
            nexts: dict[int, int] = {}
            for each in shards:
                if each.progress is None:
                    continue
                was = each.progress
                nexts[each.partition] = was.progress.next
                progress = Progress(
                    was.progress.chain, was.progress.next, control + 1, control, _clock(shards)
                )
                record = encode_progress(
                    progress, was.identity, was.reading, "", was.expired_before
                )
                transaction.change(each.partition, record)
            offsets = {p: committed.get(p, next_raw) for p, next_raw in nexts.items()}
            transaction.commit(offsets, member.metadata())
    marks = raw_watermarks(settings, topics.raw)
    return NewLog(
        application=settings.application_id,
        log_offset=control,
        filled=filled,
        shards={str(partition): next_raw for partition, next_raw in nexts.items()},
        read_again=_behind(nexts, {p: each.readable_end for p, each in marks.items()}),
    )


def _will_do(settings: Settings, identity: str, shards: list[ShardHead]) -> bool:
    try:
        state = read_log(settings, identity, shards)
    except LogCutError:
        return False
    return not state.damaged and max(map(_latest_offset, shards)) < state.end


def _latest_offset(shard: ShardHead) -> int:
    """Return the highest offset of the log that the shard knows of an entry at."""
    expired = 0 if shard.progress is None else shard.progress.expired_before
    return max(shard.latest_entry, log_offset_of(expired) - 1)


def _clock(shards: list[ShardHead]) -> LogClock | None:
    """Return the latest watermark that a shard knows: one for all, as they begin at one place."""
    clocks = [each.progress.progress.clock for each in shards if each.progress is not None]
    known = [each for each in clocks if each is not None]
    return max(known, key=lambda each: each.watermark, default=None)


def _behind(nexts: Mapping[int, int], ends: Mapping[int, int]) -> int:
    return sum(max(0, ends.get(partition, 0) - first) for partition, first in nexts.items())
