"""The log of an index as a worker that begins now would know it."""

from __future__ import annotations

from typing import NamedTuple

from simhash_core.errors import FirstseenError, ProtocolError
from simhash_core.log.packets import Chain, Heads, Packet
from simhash_core.log.records import NO_CONTROL
from simhash_core.log.replica import Replica
from streams.care.changelog_heads import ShardHead, log_of
from streams.ordering.log_codec import LogCodec, OtherIndexError
from streams.settings.settings import Settings

_DAMAGES_NAMED = 20


class LogCutError(FirstseenError):
    """The log does not have what the shards need of it; the message says how to go on."""


class LogState(NamedTuple):
    """The log from where the shards need it to its end.

    ``start`` and ``end``: offsets of the topic. ``needed``: the lowest offset that a shard needs.
    ``replica``: what was read. ``foreign``: records of other indexes. ``damaged``: what cannot be
    read, a sentence each.
    """

    start: int
    end: int
    needed: int
    replica: Replica
    foreign: int
    damaged: list[str]

    @property
    def heads(self) -> list[tuple[Chain, int]]:
        """The heads of all chains, as the last control record has them."""
        return [] if self.replica.latest is None else self.replica.latest.heads

    @property
    def undecided(self) -> int:
        """Documents in packets that count and are not decided yet."""
        heads = Heads(self.heads)
        documents = 0
        for item in self.replica.undecided.values():
            if isinstance(item, Packet) and heads.counts(item):
                heads.advance(item)
                documents += len(item)
        return documents


def read_log(settings: Settings, identity: str, shards: list[ShardHead]) -> LogState:
    """Read the log from where the shards need it; blocking.

    Where no shard has any progress, nothing is read. Raises ``LogCutError`` where that is not
    there, and what ``Changelog.read`` raises.
    """
    log = log_of(settings)
    start, end = log.ends()
    known = [each.progress.progress for each in shards if each.progress is not None]
    first = min(known, key=lambda each: each.position, default=None)
    if first is None:
        return LogState(start, end, end, Replica(end, NO_CONTROL), 0, [])
    needed = min(each.needed for each in known)
    if needed < start or first.position > end:
        raise LogCutError(
            f"the shards need the log {settings.topics.log} from offset {needed} to "
            f"{first.position} at least, but it has {start} to {end - 1}: it was truncated, or "
            f"deleted and created again. 'firstseen index new-log' starts a new log from the "
            f"state of the shards"
        )
    replica = Replica(first.position, first.control)
    codec = LogCodec(identity)
    foreign = 0
    damaged: list[str] = []
    for batch in log.read(replica.start, lambda _left: None):
        for offset, value in zip(batch.offsets, batch.values, strict=True):
            try:
                replica.read(offset, codec.decode(value, f"{settings.topics.log}/0@{offset}"))
            except OtherIndexError:
                foreign += 1
                replica.skip(offset)
            except ProtocolError as error:
                replica.skip(offset)
                if len(damaged) < _DAMAGES_NAMED:
                    damaged.append(str(error))
    return LogState(start, end, needed, replica, foreign, damaged)
