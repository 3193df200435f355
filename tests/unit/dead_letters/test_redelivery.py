"""The record that is sent again for a dead letter, and when none is."""

from __future__ import annotations

import pytest

from simhash_core.documents import Headers, RawRecord, SourcePosition
from simhash_core.verdicts import Rejection, RejectionReason
from streams.dead_letters.letters import (
    DeadLetter,
    ReplayOutcome,
    dead_letter_of,
    redelivery,
    why_not_sent,
)
from streams.kafka.topic_follower import ReadRecord
from streams.worker.outputs import dead_letter_record
from tests.unit.documents.samples import RULES

SOURCE = SourcePosition("raw-documents", 3, 42)
RAW = RawRecord(b"weather", b'{"text":', 1_714_536_000_000, (("trace", b"7f"), ("trace", None)))


def letter_of(
    raw: RawRecord = RAW, reason: RejectionReason = RejectionReason.NOT_JSON
) -> DeadLetter:
    """What is read back of the dead letter of a raw record."""
    put_out = dead_letter_record(Rejection(SOURCE, raw, reason, "broken: mend it"), RULES)
    record = ReadRecord(
        SourcePosition("dlq", 0, 7),
        raw.timestamp_ms,
        put_out.key,
        put_out.value,
        tuple(put_out.headers),
    )
    letter = dead_letter_of(record)
    assert letter is not None
    return letter


def with_headers(*headers: tuple[str, bytes | None]) -> DeadLetter:
    return letter_of(RawRecord(RAW.key, RAW.value, RAW.timestamp_ms, headers))


def test_raw_record_goes_back_as_it_was() -> None:
    again = redelivery(letter_of(), partitions=4)
    assert (again.topic, again.partition) == ("raw-documents", 3)
    assert (again.key, again.value, again.timestamp_ms) == (RAW.key, RAW.value, RAW.timestamp_ms)
    assert again.headers == (*RAW.headers, ("firstseen-redeliveries", b"1"))


def test_key_chooses_where_the_partition_is_gone() -> None:
    assert redelivery(letter_of(), partitions=3).partition is None


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ((), 0),
        ((("firstseen-redeliveries", b"2"),), 2),
        ((("firstseen-redeliveries", b"2"), ("firstseen-redeliveries", b"5")), 5),
        ((("firstseen-redeliveries", b"many"),), 0),
        ((("firstseen-redeliveries", None),), 0),
        ((("firstseen-redeliveries", "٣".encode()),), 0),
        ((("firstseen-redeliveries", b"9" * 5000),), 0),
    ],
)
def test_redeliveries_are_counted_once_whatever_the_headers_say(
    headers: Headers, count: int
) -> None:
    letter = with_headers(*headers)
    assert letter.redeliveries == count
    expected = (("firstseen-redeliveries", str(count + 1).encode()),)
    assert redelivery(letter, partitions=4).headers == expected


def test_records_that_are_not_sent_have_a_reason() -> None:
    twice = with_headers(("firstseen-redeliveries", b"2"))
    too_large = letter_of(reason=RejectionReason.TOO_LARGE)
    assert why_not_sent(letter_of(), "raw-documents", 1) is None
    assert why_not_sent(twice, "raw-documents", 3) is None
    assert why_not_sent(twice, "raw-documents", 2) is ReplayOutcome.AT_CAP
    assert why_not_sent(too_large, "raw-documents", 3) is ReplayOutcome.WITHOUT_BODY
    assert why_not_sent(letter_of(), "other", 3) is ReplayOutcome.OF_ANOTHER_TOPIC


def test_other_records_are_no_dead_letters() -> None:
    record = ReadRecord(SourcePosition("dlq", 0, 7), 0, None, b"x", (("firstseen-reason", b"x"),))
    assert dead_letter_of(record) is None
