"""Durations: their text and their milliseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.errors import UsageError
from simhash_core.window import DURATION_MS_MAX, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("30d", 2_592_000_000), ("12h", 43_200_000), ("90m", 5_400_000), ("45s", 45_000), ("7ms", 7)],
)
def test_units_of_durations(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize(
    "text", ["", "30", "d", "-1d", "1.5d", "30 d", "30D", "1w", "36501d", "٣d"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


@given(st.integers(0, DURATION_MS_MAX))
def test_a_duration_has_one_text(duration_ms: int) -> None:
    text = format_duration(duration_ms)
    assert parse_duration(text) == duration_ms
    assert format_duration(parse_duration(f"{duration_ms}ms")) == text


def test_a_duration_is_told_in_its_longest_unit() -> None:
    assert [format_duration(parse_duration(text)) for text in ("48h", "36h", "0s")] == [
        "2d",
        "36h",
        "0d",
    ]
