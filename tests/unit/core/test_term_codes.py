"""Term codes: equal codes mean equal terms, and every term can be spelled again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.text.term_codes import SEPARATOR, encode

# Any term of a normalised text: no control characters, and with them no separator.
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


def test_a_code_is_the_units_of_the_term() -> None:
    made = encode(["大桥\nbridge"])
    assert made.low.tolist() == [0x6865_5927, 0x0064_0069_0072_0062]
    assert made.high.tolist() == [0, 0x0065_0067]


def test_no_terms_have_no_codes() -> None:
    made = encode([])
    assert made.low.size == made.high.size == made.starts.size == 0
    assert made.spelled(np.arange(0)) == []
