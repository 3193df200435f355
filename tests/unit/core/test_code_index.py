"""The index of term codes: what it finds, and that nobody can make it slow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.text.term_codes import NO_ROW, CodeIndex, Codes

Code = tuple[int, int]

words = st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1))
codes = st.tuples(words, words).filter(any)


def columns(pairs: list[Code]) -> tuple[Codes, Codes]:
    table = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return table[:, 0].copy(), table[:, 1].copy()


@given(st.lists(st.lists(codes, max_size=60), max_size=6), st.lists(codes, max_size=20))
def test_the_index_finds_what_was_added_and_nothing_else(
    batches: list[list[Code]], others: list[Code]
) -> None:
    index = CodeIndex(rows=8)
    rows: dict[Code, int] = {}
    for batch in batches:
        fresh = [code for code in batch if code not in rows]
        for code in fresh:
            rows.setdefault(code, len(rows) + 1)
        index.add(*columns(fresh), np.array([rows[code] for code in fresh], dtype=np.int64))
    asked = [*rows, *others]
    assert index.find(*columns(asked)).tolist() == [rows.get(code, NO_ROW) for code in asked]


def test_the_index_grows_and_keeps_all_but_a_few() -> None:
    index = CodeIndex(rows=8)
    low = np.arange(1, 50_001, dtype=np.uint64) * np.uint64(65_537)
    high = np.zeros_like(low)
    rows = np.arange(1, 50_001)
    for start in range(0, len(rows), 7_000):
        part = slice(start, start + 7_000)
        index.add(low[part], high[part], rows[part])
    found = index.find(low, high)
    assert set(found[found != rows].tolist()) <= {NO_ROW}
    assert (found == rows).mean() > 0.999


def test_codes_that_all_want_one_place_are_dropped_not_searched_for() -> None:
    """The codes have small products, so that the hash of each is 0."""
    inverse = pow(0x9E37_79B9_7F4A_7C15, -1, 2**64)
    made = [((inverse * k) % 2**64, 0) for k in range(1, 2_001)]
    rows = np.arange(1, 2_001)
    index = CodeIndex(rows=8)
    index.add(*columns(made), rows)
    found = index.find(*columns(made))
    kept = found != NO_ROW
    assert 0 < kept.sum() <= 16
    assert np.array_equal(found[kept], rows[kept])


@pytest.mark.parametrize("row", [1, 5_000])
def test_the_code_of_zeros_stands_for_no_code(row: int) -> None:
    index = CodeIndex(rows=8)
    index.add(*columns([(0, 0)]), np.array([row]))
    assert index.find(*columns([(0, 0)])).tolist() == [NO_ROW]
