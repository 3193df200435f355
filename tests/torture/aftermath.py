"""What the internal topics tell when all is done: how much the shards met, and what they left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from simhash_core.documents import SourcePosition
from simhash_core.entries import Progress, PutParked, PutPending
from streams.changelog_codec import decode_change
from streams.settings import Settings
from streams.topic_follower import ReadRecord, TopicFollower

READ_SECONDS = 120.0


@dataclass
class Aftermath:
    """Sums over the changelogs of all shards.

    ``parked``, ``pending``: documents that ever waited, entries that were ever undecided.
    ``left_pending``, ``left_parked``: what nobody settled; at rest there is none. ``reached``: the
    next offset of the probes, by shard.
    """

    parked: int = 0
    pending: int = 0
    left_pending: int = 0
    left_parked: int = 0
    reached: dict[int, int] = field(default_factory=dict)


def read_all(settings: Settings, topics: dict[str, int]) -> Iterator[ReadRecord]:
    """Read topics from their beginnings to their present ends, committed records only."""
    with TopicFollower(settings, topics, from_beginning=True, gaps="error") as follower:
        ends = follower.ends()
        deadline = time.monotonic() + READ_SECONDS
        while not follower.has_passed(ends):
            yield from follower.read(0.1)
            assert time.monotonic() < deadline, f"{list(topics)} cannot be read to their ends"


def aftermath(settings: Settings, shards: int) -> Aftermath:
    """Fold the changelogs."""
    pending: set[tuple[int, SourcePosition]] = set()
    parked: set[tuple[int, int]] = set()
    ever_parked: set[tuple[int, int]] = set()
    found = Aftermath()
    for record in read_all(settings, {settings.topics.changelog: shards}):
        shard = record.position.partition
        match decode_change(record.key, record.value, str(record.position)):
            case PutPending(source, None):
                pending.discard((shard, source))
            case PutPending(source):
                pending.add((shard, source))
                found.pending += 1
            case PutParked(ticket, _, None):
                parked.discard((shard, ticket))
            case PutParked(ticket):
                parked.add((shard, ticket))
                ever_parked.add((shard, ticket))
            case Progress(offset):
                found.reached[shard] = offset
            case _:
                pass
    found.parked, found.left_pending, found.left_parked = (
        len(ever_parked),
        len(pending),
        len(parked),
    )
    return found
