"""Reads dead letters and counts them; makes the records that are sent again.

A record that is sent again has the key, value, timestamp, headers and partition of the raw record.
The header ``firstseen-redeliveries`` is raised by one, and other headers of the filter are removed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from simhash_core.documents import Headers, SourcePosition
from simhash_core.errors import UsageError
from simhash_core.verdicts import RejectionReason
from streams.documents.output_records import (
    ERROR_HEADER_PREFIX,
    FILTER_HEADER_PREFIX,
    KEPT_HEADER,
    REDELIVERIES_HEADER,
    WHOLE_HEADER,
    DeadLetterOutput,
    received_output,
    source_position,
)
from streams.kafka.clients import AdminClient
from streams.kafka.producers import ProducerRecord
from streams.kafka.topic_follower import ReadRecord, TopicFollower, read_at
from streams.settings.settings import Settings
from streams.topics.admin import TopicsError, partitions_of, topic_id

_COUNT_DIGITS_MAX: Final = 9


# ---- The topic


class DeadLetterTopics(NamedTuple):
    dead_letters: str
    dead_letter_partitions: int
    dead_letter_topic_id: str
    raw: str
    raw_partitions: int


def dead_letter_topics(admin: AdminClient, settings: Settings) -> DeadLetterTopics:
    names = settings.topics.dead_letters, settings.topics.raw
    there = partitions_of(admin, names)
    for name in names:
        if name not in there:
            raise TopicsError(
                f"topic {name} is missing, or this user may not see it: run 'firstseen topics "
                "create', or grant the ACL operation Describe"
            )
    dead, raw = names
    return DeadLetterTopics(dead, there[dead], topic_id(admin, dead), raw, there[raw])


def position_on(topics: DeadLetterTopics, text: str) -> SourcePosition:
    """Return the position named by ``topic/partition@offset`` or ``partition@offset``."""
    shown = text if "/" in text else f"{topics.dead_letters}/{text}"
    position = source_position(shown)
    if position.topic != topics.dead_letters:
        raise UsageError(
            f"{text} is not on {topics.dead_letters}: give the position of the dead letter, the "
            "first column of 'firstseen dlq list'"
        )
    if position.partition >= topics.dead_letter_partitions:
        raise UsageError(
            f"{text}: {topics.dead_letters} has {topics.dead_letter_partitions} partition(s), "
            "counted from 0"
        )
    return position


def read_all(
    settings: Settings, topics: DeadLetterTopics, announce: Callable[[str], None]
) -> Iterator[ReadRecord]:
    partitions: Mapping[str, int] = {topics.dead_letters: topics.dead_letter_partitions}
    with TopicFollower(settings, partitions, from_beginning=True, announce=announce) as follower:
        for records in follower.batches(follower.ends()):
            yield from records


def read_positions(settings: Settings, positions: Iterable[SourcePosition]) -> Iterator[ReadRecord]:
    """Yield the records at ``positions``; raise ``UsageError`` if one does not exist."""
    for position in dict.fromkeys(positions):
        record = read_at(settings, position)
        if record is None:
            raise UsageError(f"there is no record at {position}: it was deleted, or never existed")
        yield record


# ---- Dead letters


class ReplayOutcome(StrEnum):
    SENT = "sent"
    REPLAYED_BEFORE = "replayed_before"
    AT_CAP = "at_cap"
    WITHOUT_BODY = "without_body"  # it was too large, so the dead letter has only a part of it
    OF_ANOTHER_TOPIC = "of_another_topic"  # it came from a topic that these settings do not read


class DeadLetter(NamedTuple):
    record: ReadRecord
    source: SourcePosition
    reason: str
    detail: str
    redeliveries: int


def dead_letter_of(record: ReadRecord) -> DeadLetter | None:
    output = received_output(record.value, record.headers)
    if not isinstance(output, DeadLetterOutput):
        return None
    return DeadLetter(
        record, output.source, output.reason, output.detail, _redeliveries(record.headers)
    )


def why_not_sent(
    letter: DeadLetter, raw_topic: str, redeliveries_max: int, *, replayed_before: bool = False
) -> ReplayOutcome | None:
    if replayed_before:
        return ReplayOutcome.REPLAYED_BEFORE
    if letter.source.topic != raw_topic:
        return ReplayOutcome.OF_ANOTHER_TOPIC
    if letter.reason == RejectionReason.TOO_LARGE and not _is_whole(letter.record.headers):
        return ReplayOutcome.WITHOUT_BODY
    if letter.redeliveries >= redeliveries_max:
        return ReplayOutcome.AT_CAP
    return None


def _is_whole(headers: Headers) -> bool:
    sizes = dict(headers)
    return sizes.get(KEPT_HEADER) is not None and sizes[KEPT_HEADER] == sizes.get(WHOLE_HEADER)


def redelivery(letter: DeadLetter, partitions: int) -> ProducerRecord:
    ours = (FILTER_HEADER_PREFIX, ERROR_HEADER_PREFIX)
    kept = [pair for pair in letter.record.headers if not pair[0].startswith(ours)]
    partition = letter.source.partition
    return ProducerRecord(
        letter.source.topic,
        letter.record.key,
        letter.record.value,
        partition if partition < partitions else None,
        letter.record.timestamp_ms,
        (*kept, (REDELIVERIES_HEADER, str(letter.redeliveries + 1).encode())),
        (letter.source,),
    )


def _redeliveries(headers: Headers) -> int:
    counts = [
        (value or b"").decode(errors="replace")
        for name, value in headers
        if name == REDELIVERIES_HEADER
    ]
    return max(
        (int(c) for c in counts if c.isascii() and c.isdecimal() and len(c) <= _COUNT_DIGITS_MAX),
        default=0,
    )


class Listed(NamedTuple):
    """``state`` is None if a replay would send the letter."""

    letter: DeadLetter
    state: ReplayOutcome | None


@dataclass
class Count:
    records: int = 0
    to_replay: int = 0


class Summary:
    def __init__(self) -> None:
        self.total = Count()
        self.by_reason: defaultdict[str, Count] = defaultdict(Count)
        self.by_partition: defaultdict[int, Count] = defaultdict(Count)
        self.no_dead_letter = 0
        self.newest: list[Listed] = []


def summarise(
    records: Iterable[ReadRecord],
    *,
    raw_topic: str,
    done: Mapping[int, Container[int]],
    redeliveries_max: int,
    reasons: frozenset[str],
    limit: int,
) -> Summary:
    """Count all records, and keep the ``limit`` newest by record time, without bodies.

    An empty set of ``reasons`` selects all.
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
        replayed = offset in done.get(partition, ())
        state = why_not_sent(letter, raw_topic, redeliveries_max, replayed_before=replayed)
        of_reason, of_partition = summary.by_reason[letter.reason], summary.by_partition[partition]
        for count in (summary.total, of_reason, of_partition):
            count.records += 1
            count.to_replay += state is None
        bodiless = letter._replace(record=record._replace(value=None, headers=()))
        newest.setdefault(partition, deque(maxlen=limit)).append(Listed(bodiless, state))
    # Offsets of different partitions do not compare: use the times.
    of_all = [listed for kept_of_one in newest.values() for listed in kept_of_one]
    of_all.sort(key=lambda listed: listed.letter.record.timestamp_ms)
    kept = of_all[-limit:] if limit else []
    summary.newest = sorted(kept, key=lambda listed: listed.letter.record.position)
    return summary
