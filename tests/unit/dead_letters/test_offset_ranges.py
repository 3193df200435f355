"""A set of offsets: it is one, and it survives being written down."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.dead_letters.redeliveries import TEXT_CHARACTERS_MAX, OffsetRanges

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
    assert OffsetRanges.of_text(text, "topic-id") == ranges


def test_offsets_of_another_topic_do_not_count() -> None:
    """Offsets of a topic that was created again began anew."""
    text = ranges_of((0, 9)).text("first")
    assert text is not None
    assert OffsetRanges.of_text(text, "second") == OffsetRanges()


def test_text_of_a_long_replay_is_short_or_refused_but_never_cut() -> None:
    assert len(ranges_of((0, 10**8)).text("t") or "") < 60
    assert ranges_of(*((n, n + 1) for n in range(0, 20_000, 2))).text("t") is not None
    irregular = ((n * n * 7919 % 10**9, 1) for n in range(5_000))
    text = ranges_of(*((start, start + length) for start, length in irregular)).text("t")
    assert text is None or len(text) <= TEXT_CHARACTERS_MAX
    assert text is None


@pytest.mark.parametrize("text", ["", "2:t:xx", "1:t:!!", "1:t", "1:t:c${Nk"])
def test_text_of_somebody_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        OffsetRanges.of_text(text, "t")
