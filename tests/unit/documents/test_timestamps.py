"""Times in records: accepted forms, their milliseconds, and the written form."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simhash_core.errors import UsageError
from streams.documents.timestamps import (
    TIME_MS_MAX,
    TIME_MS_MIN,
    TimestampError,
    format_rfc3339,
    parse_rfc3339,
    parse_timestamp,
    times_ms,
)

NOON_MS = 1_714_564_800_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2024-05-01T12:00:00Z", NOON_MS),
        ("2024-05-01T12:00:00+00:00", NOON_MS),
        ("2024-05-01T12:00:00-00:00", NOON_MS),
        ("2024-05-01T20:00:00+08:00", NOON_MS),
        ("2024-05-01T06:30:00-05:30", NOON_MS),
        ("2024-05-01t12:00:00z", NOON_MS),
        ("2024-05-01 12:00:00Z", NOON_MS),
        ("2024-05-01T12:00:00.5Z", NOON_MS + 500),
        ("2024-05-01T12:00:00.001999999Z", NOON_MS + 1),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("0001-01-01T00:00:00Z", TIME_MS_MIN),
        ("9999-12-31T23:59:59.999Z", TIME_MS_MAX),
    ],
)
def test_rfc3339_is_read_to_the_millisecond(text: str, time_ms: int) -> None:
    assert parse_rfc3339(text) == time_ms


OTHER_SPELLINGS = """|2024-05-01|2024-05-01T12:00:00|2024-05-01T12:00Z|20240501T120000Z
2024-W18-3T12:00:00Z|2024-05-01T12:00:00.Z|2024-05-01T12:00:00,5Z|2024-05-01T12:00:00+0800
2024-05-01T12:00:00+08|2024-05-01T12:00:00 Z| 2024-05-01T12:00:00Z|٢٠٢٤-05-01T12:00:00Z
1714564800000"""
IMPOSSIBLE = """2024-02-30T12:00:00Z|2024-13-01T12:00:00Z|0000-01-01T00:00:00Z|2024-05-01T24:00:00Z
2024-05-01T12:60:00Z|2024-05-01T12:00:61Z|2024-05-01T12:00:00+24:00|2024-05-01T12:00:00+08:60
0001-01-01T00:00:00+00:01|9999-12-31T23:59:59-00:01"""


def test_other_spellings_and_impossible_times_are_refused() -> None:
    texts = f"{OTHER_SPELLINGS}\n{IMPOSSIBLE}".replace("\n", "|").split("|")
    for text in (*texts, "2024-05-01T12:00:00Z\n"):
        with pytest.raises(TimestampError):
            pytest.fail(f"{text!r} is {parse_rfc3339(text)}")


def test_numbers_in_range_are_milliseconds_and_other_values_are_no_time() -> None:
    for value in (0, NOON_MS, TIME_MS_MIN, TIME_MS_MAX):
        assert parse_timestamp(value) == value
    assert [parse_timestamp(value) for value in (NOON_MS + 0.75, -0.5)] == [NOON_MS, -1]
    out_of_range = (math.nan, math.inf, -math.inf, TIME_MS_MIN - 1, TIME_MS_MAX + 1, 10**400)
    others: list[object] = [True, False, [], {}]
    for wrong in (*out_of_range, *others):
        with pytest.raises(TimestampError):
            parse_timestamp(wrong)


@given(st.integers(TIME_MS_MIN, TIME_MS_MAX))
def test_written_times_are_read_back(time_ms: int) -> None:
    assert parse_rfc3339(format_rfc3339(time_ms)) == time_ms


def test_times_in_range_are_written_in_utc_with_milliseconds() -> None:
    assert format_rfc3339(NOON_MS + 7) == "2024-05-01T12:00:00.007Z"
    assert format_rfc3339(TIME_MS_MIN) == "0001-01-01T00:00:00.000Z"
    for time_ms in (TIME_MS_MIN - 1, TIME_MS_MAX + 1):
        with pytest.raises(UsageError, match=str(time_ms)):
            format_rfc3339(time_ms)


@given(st.lists(st.integers(TIME_MS_MIN, TIME_MS_MAX)), st.booleans())
def test_many_times_are_read_together(moments: list[int], mixed: bool) -> None:
    texts = [format_rfc3339(each) for each in moments]
    if mixed:
        moments, texts = [*moments, NOON_MS], [*texts, "2024-05-01T20:00:00+08:00"]
    assert times_ms(texts).tolist() == moments


@example("2024-02-30T12:00:00.000Z")
@example("0000-01-01T00:00:00.000Z")
@example("2016-12-31T23:59:60.000Z")
@given(st.from_regex(r"[0-9]{4}-[0-3][0-9]-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}[Z1]\Z"))
def test_a_time_among_others_is_read_as_alone(text: str) -> None:
    noon = "2024-05-01T12:00:00.000Z"
    try:
        expected = parse_rfc3339(text)
    except TimestampError:
        with pytest.raises(TimestampError):
            times_ms([noon, text])
        return
    assert times_ms([noon, text]).tolist() == [NOON_MS, expected]
