"""Dead letters as they are read back, and the record that is sent again.

That record has the key, value, timestamp, headers and partition of the raw record; the header
``firstseen-redeliveries`` is raised by one, and other headers of the filter are removed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from simhash_core.documents import Headers, SourcePosition
from simhash_core.verdicts import RejectionReason
from streams.dead_letters.redeliveries import OffsetRanges
from streams.documents.output_records import (
    ERROR_HEADER_PREFIX,
    FILTER_HEADER_PREFIX,
    KEPT_HEADER,
    REDELIVERIES_HEADER,
    WHOLE_HEADER,
    DeadLetterOutput,
    received_output,
)
from streams.kafka.producers import ProducerRecord
from streams.kafka.topic_follower import ReadRecord

REDELIVERIES_MAX: Final = 3

_COUNT_DIGITS_MAX: Final = 9


class ReplayOutcome(StrEnum):
    SENT = "sent"
    REPLAYED_BEFORE = "replayed_before"
    AT_CAP = "at_cap"
    WITHOUT_BODY = "without_body"  # it was too large, so the dead letter has a part of it
    OF_ANOTHER_TOPIC = "of_another_topic"  # it came from a topic that these settings do not read


class DeadLetter(NamedTuple):
    """``source``: position of the raw record; ``redeliveries``: how often that was sent again."""

    record: ReadRecord
    source: SourcePosition
    reason: str
    detail: str
    redeliveries: int


def dead_letter_of(record: ReadRecord) -> DeadLetter | None:
    said = received_output(record.value, record.headers)
    if not isinstance(said, DeadLetterOutput):
        return None
    return DeadLetter(record, said.source, said.reason, said.detail, _redeliveries(record.headers))


def why_not_sent(letter: DeadLetter, raw_topic: str, redeliveries_max: int) -> ReplayOutcome | None:
    """Return why a dead letter cannot be sent again, or None if it can."""
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
    """Return the record to send to a raw topic with so many ``partitions``."""
    raised = (REDELIVERIES_HEADER, str(letter.redeliveries + 1).encode())
    partition = letter.source.partition
    return ProducerRecord(
        letter.source.topic,
        letter.record.key,
        letter.record.value,
        partition if partition < partitions else None,
        letter.record.timestamp_ms,
        (*own_headers(letter.record.headers), raised),
        (letter.source,),
    )


def own_headers(headers: Headers) -> Headers:
    ours = (FILTER_HEADER_PREFIX, ERROR_HEADER_PREFIX)
    return tuple(pair for pair in headers if not pair[0].startswith(ours))


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
    """A dead letter without its body. ``state`` is None if a replay would send it."""

    letter: DeadLetter
    state: ReplayOutcome | None


class Count(NamedTuple):
    records: int = 0
    to_replay: int = 0

    def and_one(self, *, to_replay: bool) -> Count:
        return Count(self.records + 1, self.to_replay + to_replay)


class Summary:
    def __init__(self) -> None:
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
    """Count all records, and keep the ``limit`` newest by record time, without bodies.

    ``reasons`` selects; an empty set selects all.
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
    # Offsets of different partitions do not compare: use the times.
    of_all = [listed for kept_of_one in newest.values() for listed in kept_of_one]
    of_all.sort(key=lambda listed: listed.letter.record.timestamp_ms)
    kept = of_all[-limit:] if limit else []
    summary.newest = sorted(kept, key=lambda listed: listed.letter.record.position)
    return summary
