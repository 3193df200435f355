"""The lexicon: one row a term, whichever way it was found."""

from __future__ import annotations

import numpy as np
import pytest

from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.fingerprints.fingerprint import votes_of
from simhash_core.text.idf import IdfModel
from simhash_core.text.lexicon import Lexicon
from simhash_core.text.term_codes import SEPARATOR, encode

BITS = 128
HASH = feature_hash_named("xxh3")
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
        assert lexicon.idf[found].tolist() == [2.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 2.0]
        assert lexicon.is_feature[found].tolist() == [term != "，" for term in TERMS]
        expected = votes_of(b"".join(HASH(term, BITS) for term in TERMS), BITS)
        assert np.array_equal(lexicon.votes[found], expected)


def test_terms_made_to_collide_get_rows_of_their_own() -> None:
    """Such words are made by undoing the hash; four units are any 64 bits."""
    inverse = pow(0x9E37_79B9_7F4A_7C15, -1, 2**64)
    words = []
    for k in range(1, 3_000):
        units = ((inverse * k) % 2**64).to_bytes(8, "little")
        word = units.decode("utf-16-le", "surrogatepass")
        if "\0" not in word and SEPARATOR not in word:
            words.append(word)
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
