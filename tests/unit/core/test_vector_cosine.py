"""The vector space model's cosine."""

from __future__ import annotations

import pytest

from simhash_core.analysis.exact_similarity import vector_cosine


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
