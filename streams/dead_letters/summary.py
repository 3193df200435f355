"""What lies on the dead letters' topic: counts by reason and partition, and the newest records."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streams.dead_letters.letters import DeadLetter, ReplayOutcome, dead_letter_of, why_not_sent
from streams.dead_letters.offset_ranges import OffsetRanges
from streams.kafka.topic_follower import ReadRecord


class Listed(NamedTuple):
    """A dead letter without its body. ``state``: what a replay would say of it, None: send it."""

    letter: DeadLetter
    state: ReplayOutcome | None


class Count(NamedTuple):
    """Dead letters, and how many of them a replay would send."""

    records: int = 0
    to_replay: int = 0

    def and_one(self, *, to_replay: bool) -> Count:
        """Return the count with one more."""
        return Count(self.records + 1, self.to_replay + to_replay)


class Summary:
    """Counts of what was read, and the newest of it."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self.total = Count()
        self.by_reason: dict[str, Count] = {}
        self.by_partition: dict[int, Count] = {}
        self.no_dead_letter = 0
        self.newest: list[Listed] = []


def summarise(
    records: Iterable[ReadRecord],
    *,
    raw_topic: str,
    done: Mapping[int, OffsetRanges],
    redeliveries_max: int,
    reasons: frozenset[str],
    limit: int,
) -> Summary:
    """Read all records, and keep the ``limit`` newest by the time of the record, without bodies.

    ``reasons``: of these alone, none: of any. ``redeliveries_max``: how often a record may be sent
    again.
    """
    summary = Summary()
    newest: dict[int, deque[Listed]] = {}
    for record in records:
        letter = dead_letter_of(record)
        if letter is None:
            summary.no_dead_letter += 1
            continue
        if reasons and letter.reason not in reasons:
            continue
        partition, offset = record.position.partition, record.position.offset
        is_done = offset in done.get(partition, OffsetRanges())
        state = (
            ReplayOutcome.REPLAYED_BEFORE
            if is_done
            else why_not_sent(letter, raw_topic, redeliveries_max)
        )
        waits = state is None
        summary.total = summary.total.and_one(to_replay=waits)
        of_reason = summary.by_reason.get(letter.reason, Count())
        summary.by_reason[letter.reason] = of_reason.and_one(to_replay=waits)
        of_partition = summary.by_partition.get(partition, Count())
        summary.by_partition[partition] = of_partition.and_one(to_replay=waits)
        bodiless = letter._replace(record=record._replace(value=None, headers=()))
        newest.setdefault(partition, deque(maxlen=limit)).append(Listed(bodiless, state))
    # Offsets of partitions do not compare, so times choose between them; within one, offsets do.
    of_all = [listed for kept_of_one in newest.values() for listed in kept_of_one]
    of_all.sort(key=lambda listed: listed.letter.record.timestamp_ms)
    kept = of_all[-limit:] if limit else []
    summary.newest = sorted(kept, key=lambda listed: listed.letter.record.position)
    return summary
