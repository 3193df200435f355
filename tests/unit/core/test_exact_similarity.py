"""The exact similarities: the vector space model's cosine, and the Jaccard of character 5-grams."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simhash_core.analysis.exact_similarity import exact_jaccard, vector_cosine


def test_the_worked_example_of_the_paper() -> None:
    """Wang, Wu and Li (2016): 2000 / (42.43 × 54.77) = 0.86."""
    terms = "abcde"
    a = dict(zip(terms, (30, 20, 20, 10, 0), strict=True))
    b = dict(zip(terms, (40, 0, 30, 20, 10), strict=True))
    assert vector_cosine(a, b) == pytest.approx(2000 / (42.4264 * 54.7723), rel=1e-5)
    assert round(vector_cosine(a, b), 2) == 0.86
    assert vector_cosine(b, a) == vector_cosine(a, b)


def test_cosine_of_nothing_shared_is_0_and_of_one_direction_is_1() -> None:
    assert vector_cosine({}, {}) == 0
    assert vector_cosine({"a": 1}, {}) == 0
    assert vector_cosine({"a": 1}, {"b": 1}) == 0
    assert vector_cosine({"a": 1, "b": 2}, {"a": 3, "b": 6}) == pytest.approx(1)


def jaccard_by_sets(a: str, b: str) -> float:
    a, b = "".join(a.split()), "".join(b.split())
    one = {a[i : i + 5] for i in range(max(1, len(a) - 4))}
    two = {b[i : i + 5] for i in range(max(1, len(b) - 4))}
    return len(one & two) / len(one | two)


@given(st.text(alphabet="aAb雪 \n\U0001f600", max_size=30), st.text(alphabet="ab雪 ", max_size=30))
@example("abcdefghij", "abcdefg hij cdef")
def test_jaccard_is_that_of_the_sets(a: str, b: str) -> None:
    assert exact_jaccard(a, b) == jaccard_by_sets(a, b)


def test_jaccard_of_a_very_large_alphabet() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 9000)))
    other = text[:6000] + text[3000:]
    assert exact_jaccard(text, other) == jaccard_by_sets(text, other)
