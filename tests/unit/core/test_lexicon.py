"""The lexicon: one row per term, found by a code that spells the term and an index of codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.fingerprints.fingerprint import votes_of
from simhash_core.text.idf import IdfModel
from simhash_core.text.lexicon import NO_ROW, SEPARATOR, CodeIndex, Codes, Lexicon, encode

BITS = 128
HASH = feature_hash_named("xxh3")
UNDONE = pow(0x9E37_79B9_7F4A_7C15, -1, 2**64)
IDF = IdfModel("test", {"大桥": 2.0}, 9.0)
TERMS = [
    "大桥",
    "的",
    "，",
    "internationalisation",
    "𠮷野家",
    "bridges",
    "counterintuitively",
    "大桥",
]


def rows(lexicon: Lexicon, terms: list[str]) -> list[int]:
    return list(map(int, lexicon.rows(encode([SEPARATOR.join(terms)]))))


def test_each_row_describes_its_term() -> None:
    lexicon = Lexicon(BITS, HASH, IDF)
    for _ in range(2):  # new, then known
        found = rows(lexicon, TERMS)
        assert found[0] == found[-1]
        assert len(set(found)) == len(set(TERMS))
        assert lexicon.idf[found].tolist() == [2.0, *[9.0] * 6, 2.0]
        assert lexicon.is_feature[found].tolist() == [term != "，" for term in TERMS]
        expected = votes_of(b"".join(HASH(term, BITS) for term in TERMS), BITS)
        assert np.array_equal(lexicon.votes[found], expected)


def test_terms_made_to_collide_get_rows_of_their_own() -> None:
    """Such terms come from inverting the hash: four code units can give any 64 bits."""
    units = [((UNDONE * k) % 2**64).to_bytes(8, "little") for k in range(1, 3_000)]
    words = [each.decode("utf-16-le", "surrogatepass") for each in units]
    words = [word for word in words if "\0" not in word and SEPARATOR not in word]
    assert len(words) > 2_000
    lexicon = Lexicon(BITS, HASH, IDF)
    first = rows(lexicon, words)
    assert len(set(first)) == len(words)
    assert rows(lexicon, words[::-1]) == first[::-1]


def test_a_full_lexicon_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simhash_core.text.lexicon.TERMS_MAX", 3)
    lexicon = Lexicon(BITS, HASH, IDF)
    rows(lexicon, TERMS)
    assert len(lexicon) == len(set(TERMS))
    assert rows(lexicon, ["新"]) == [1]
    assert list(lexicon) == ["新"]


# Terms of a normalised text have no control characters, and so no separator.
term = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
few_letters = st.text(st.sampled_from("ab的\U00020bb7"), min_size=1, max_size=10)


@given(st.lists(st.lists(st.one_of(term, few_letters), min_size=1, max_size=8), max_size=6))
def test_codes_are_equal_exactly_where_terms_are(texts: list[list[str]]) -> None:
    terms = [term for text in texts for term in text]
    made = encode([SEPARATOR.join(text) for text in texts])
    codes = list(zip(made.low.tolist(), made.high.tolist(), strict=True))
    assert made.spelled(np.arange(len(terms))) == terms
    short = [len(term.encode("utf-16-le")) // 2 <= 8 for term in terms]
    assert [code != (0, 0) for code in codes] == short
    coded = {term: code for term, code in zip(terms, codes, strict=True) if code != (0, 0)}
    assert len(set(coded.values())) == len(coded)
    assert all(coded.get(term, (0, 0)) == code for term, code in zip(terms, codes, strict=True))


# ---------------------------------------------------------------- the index of codes

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
    """The products of these codes are small, so that the hash of each is 0."""
    made = [((UNDONE * k) % 2**64, 0) for k in range(1, 2_001)]
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
