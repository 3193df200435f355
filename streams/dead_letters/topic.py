"""Reads the dead letters' topic: up to its present end, or single records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from simhash_core.documents import SourcePosition
from simhash_core.errors import UsageError
from streams.documents.output_records import source_position
from streams.kafka.clients import AdminClient
from streams.kafka.topic_follower import ReadRecord, TopicFollower, read_at
from streams.settings.settings import Settings
from streams.topics.admin import TopicsError, partitions_of, topic_id


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
    """Return the position named by ``topic/partition@offset`` or ``partition@offset``.

    Raises ``UsageError`` if it is invalid or on another topic.
    """
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
    """Yield all records up to the present end, in order within a partition.

    Raises ``BrokerUnavailableError``.
    """
    partitions: Mapping[str, int] = {topics.dead_letters: topics.dead_letter_partitions}
    with TopicFollower(settings, partitions, from_beginning=True, announce=announce) as follower:
        for records in follower.batches(follower.ends()):
            yield from records


def read_positions(settings: Settings, positions: Iterable[SourcePosition]) -> Iterator[ReadRecord]:
    """Yield the records at ``positions``; raise ``UsageError`` if one does not exist (any more)."""
    for position in dict.fromkeys(positions):
        record = read_at(settings, position)
        if record is None:
            raise UsageError(f"there is no record at {position}: it was deleted or never existed")
        yield record
