"""Dead letters that are sent again: their records, those that cannot be sent, and the memory."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.documents import RawRecord, SourcePosition
from simhash_core.verdicts import Rejection, RejectionReason
from streams.dead_letters.letters import (
    DeadLetter,
    ReplayOutcome,
    dead_letter_of,
    redelivery,
    why_not_sent,
)
from streams.dead_letters.replay import OffsetRanges
from streams.kafka.topic_follower import ReadRecord
from streams.worker.outputs import dead_letter_record
from tests.unit.documents.samples import RULES

SOURCE = SourcePosition("raw-documents", 3, 42)
RAW = RawRecord(b"weather", b'{"text":', 1_714_536_000_000, (("trace", b"7f"), ("trace", None)))


def letter_of(
    raw: RawRecord = RAW, reason: RejectionReason = RejectionReason.NOT_JSON, *sizes: int
) -> DeadLetter:
    """Return a dead letter as a worker writes it; ``sizes`` are its kept bytes, and all bytes."""
    output = dead_letter_record(Rejection(SOURCE, raw, reason, "broken: mend it", *sizes), RULES)
    position, headers = SourcePosition("dlq", 0, 7), tuple(output.headers)
    letter = dead_letter_of(
        ReadRecord(position, raw.timestamp_ms, output.key, output.value, headers)
    )
    assert letter is not None
    return letter


def counted(*counts: bytes | None) -> DeadLetter:
    headers = tuple(("firstseen-redeliveries", count) for count in counts)
    return letter_of(RawRecord(RAW.key, RAW.value, RAW.timestamp_ms, headers))


def test_key_chooses_where_the_partition_is_gone() -> None:
    assert [redelivery(letter_of(), partitions=count).partition for count in (3, 4)] == [None, 3]


@pytest.mark.parametrize(
    ("counts", "count"),
    [
        *(([], 0), ([b"2"], 2), ([b"2", b"5"], 5), ([b"many"], 0), ([None], 0)),
        *((["٣".encode()], 0), ([b"9" * 5000], 0)),
    ],
)
def test_redeliveries_are_counted_in_any_headers(counts: list[bytes | None], count: int) -> None:
    letter = counted(*counts)
    assert letter.redeliveries == count
    expected = (("firstseen-redeliveries", str(count + 1).encode()),)
    assert redelivery(letter, partitions=4).headers == expected


def test_records_that_are_not_sent_have_a_reason() -> None:
    twice = counted(b"2")
    too_large, cut, whole = (
        letter_of(RAW, RejectionReason.TOO_LARGE, *sizes) for sizes in ((), (4, 5), (5, 5))
    )
    assert why_not_sent(letter_of(), "raw-documents", 1) is None
    assert why_not_sent(twice, "raw-documents", 3) is None
    assert why_not_sent(twice, "raw-documents", 2) is ReplayOutcome.AT_CAP
    assert why_not_sent(too_large, "raw-documents", 3) is ReplayOutcome.WITHOUT_BODY
    assert why_not_sent(cut, "raw-documents", 3) is ReplayOutcome.WITHOUT_BODY
    assert why_not_sent(whole, "raw-documents", 3) is None
    assert redelivery(whole, 4).value == RAW.value
    assert why_not_sent(letter_of(), "other", 3) is ReplayOutcome.OF_ANOTHER_TOPIC


def test_other_records_are_no_dead_letters() -> None:
    record = ReadRecord(SourcePosition("dlq", 0, 7), 0, None, b"x", (("firstseen-reason", b"x"),))
    assert dead_letter_of(record) is None


spans = st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda each: (each[0], sum(each)))


def ranges_of(*added: tuple[int, int]) -> OffsetRanges:
    ranges = OffsetRanges()
    for start, stop in added:
        ranges.add(start, stop)
    return ranges


@given(st.lists(spans, max_size=20))
def test_ranges_are_a_set_that_survives_being_written(added: list[tuple[int, int]]) -> None:
    ranges = ranges_of(*added)
    expected = {offset for start, stop in added for offset in range(start, stop)}
    assert {offset for offset in range(80) if offset in ranges} == expected
    assert ranges.first_missing == min(set(range(80)) - expected)
    pairs = list(ranges)
    assert all(left[1] < right[0] for left, right in pairwise(pairs)), pairs
    text = ranges.text("topic-id")
    assert text is not None
    assert list(OffsetRanges.of_text(text, "topic-id")) == pairs


def test_offsets_of_another_topic_do_not_count() -> None:
    """The offsets of a topic that was created again start from 0."""
    text = ranges_of((0, 9)).text("first")
    assert text is not None
    assert list(OffsetRanges.of_text(text, "second")) == []


def test_text_of_a_long_replay_is_short_or_refused_but_never_cut() -> None:
    assert len(ranges_of((0, 10**8)).text("t") or "") < 60
    assert ranges_of(*((n, n + 1) for n in range(0, 20_000, 2))).text("t") is not None
    irregular = ((n * n * 7919 % 10**9, 1) for n in range(5_000))
    text = ranges_of(*((start, start + length) for start, length in irregular)).text("t")
    assert text is None


@pytest.mark.parametrize("text", ["", "2:t:xx", "1:t:!!", "1:t", "1:t:c${Nk"])
def test_text_of_somebody_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        OffsetRanges.of_text(text, "t")
