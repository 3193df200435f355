"""The exact Jaccard of character 5-grams, against sets and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.analysis.exact_similarity import exact_jaccard


def by_sets(a: str, b: str) -> float:
    a, b = "".join(a.split()), "".join(b.split())
    one = {a[i : i + 5] for i in range(max(1, len(a) - 4))}
    two = {b[i : i + 5] for i in range(max(1, len(b) - 4))}
    return len(one & two) / len(one | two)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("", "", 1.0),  # one empty gram each
        ("", "abcdef", 0.0),
        ("abcd", "abcd", 1.0),
        ("abcd", "abcde", 0.0),  # the gram abcd, the gram abcde
        ("abcde", "a b c\nde", 1.0),  # white space counts for nothing
        ("abcdef", "abcdeg", 1 / 3),  # abcde is shared; bcdef, bcdeg are not
        ("今天下雪了吗", "今天下雪了吧", 1 / 3),
        ("Abcde", "abcde", 0.0),  # case counts
        ("aaaaaaaa", "aaaaa", 1.0),  # sets, not counts
    ],
)
def test_jaccard_by_hand(a: str, b: str, expected: float) -> None:
    assert exact_jaccard(a, b) == pytest.approx(expected)
    assert exact_jaccard(b, a) == pytest.approx(expected)


@given(st.text(alphabet="ab雪 \n\U0001f600", max_size=30), st.text(alphabet="ab雪 ", max_size=30))
def test_jaccard_is_that_of_the_sets(a: str, b: str) -> None:
    assert exact_jaccard(a, b) == by_sets(a, b)


def test_jaccard_of_a_very_large_alphabet() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 9000)))
    other = text[:6000] + text[3000:]
    assert exact_jaccard(text, other) == by_sets(text, other)
