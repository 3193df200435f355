"""Dead letters as they are read back: what each says, and the record to send again for it.

A record sent again is the raw record: its key, value, timestamp and headers, to the partition that
it came from, and the header ``firstseen-redeliveries`` raised by one. What the filter had put on
(its reason, where the record was) is taken off.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from simhash_core.documents import Headers, SourcePosition
from simhash_core.rejections import RejectionReason
from streams.kafka.producer_record import ProducerRecord
from streams.kafka.topic_follower import ReadRecord
from streams.output.output_records import ERROR_HEADER_PREFIX, REDELIVERIES_HEADER
from streams.output.received_outputs import DeadLetterOutput, received_output
from streams.output.verdict_headers import FILTER_HEADER_PREFIX

REDELIVERIES_MAX: Final = 3
"""How often a record is sent again by default."""

_COUNT_DIGITS_MAX: Final = 9


class ReplayOutcome(StrEnum):
    """What a replay did with a dead letter, or why it left it."""

    SENT = "sent"
    """Sent again and acknowledged."""
    REPLAYED_BEFORE = "replayed_before"
    """An earlier replay has sent it."""
    AT_CAP = "at_cap"
    """It has been sent again as often as is allowed."""
    WITHOUT_BODY = "without_body"
    """It was too large, so the dead letter has no value that could be sent."""
    OF_ANOTHER_TOPIC = "of_another_topic"
    """It came from a topic that these settings do not read."""


class DeadLetter(NamedTuple):
    """The record, the raw record that it stands for, why, and how often that was sent again."""

    record: ReadRecord
    source: SourcePosition
    reason: str
    detail: str
    redeliveries: int


def dead_letter_of(record: ReadRecord) -> DeadLetter | None:
    """Return what a record of the dead letters' topic says; None where it is no dead letter."""
    said = received_output(record.value, record.headers)
    if not isinstance(said, DeadLetterOutput):
        return None
    return DeadLetter(record, said.source, said.reason, said.detail, _redeliveries(record.headers))


def why_not_sent(letter: DeadLetter, raw_topic: str, redeliveries_max: int) -> ReplayOutcome | None:
    """Return what keeps a dead letter from being sent again; None where nothing does.

    ``redeliveries_max``: how often a record may be sent again.
    """
    if letter.source.topic != raw_topic:
        return ReplayOutcome.OF_ANOTHER_TOPIC
    if letter.reason == RejectionReason.TOO_LARGE:
        return ReplayOutcome.WITHOUT_BODY
    if letter.redeliveries >= redeliveries_max:
        return ReplayOutcome.AT_CAP
    return None


def redelivery(letter: DeadLetter, partitions: int) -> ProducerRecord:
    """Return the record that is sent again, to a raw topic of so many ``partitions``."""
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
    """Return the headers that the raw record came with."""
    ours = (FILTER_HEADER_PREFIX, ERROR_HEADER_PREFIX)
    return tuple(pair for pair in headers if not pair[0].startswith(ours))


def _redeliveries(headers: Headers) -> int:
    """Return the highest count that the headers hold; what is no count is a stranger's, and 0."""
    counts = [
        (value or b"").decode(errors="replace")
        for name, value in headers
        if name == REDELIVERIES_HEADER
    ]
    return max(
        (int(c) for c in counts if c.isascii() and c.isdecimal() and len(c) <= _COUNT_DIGITS_MAX),
        default=0,
    )
