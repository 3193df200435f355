"""Normal forms of a batch: the quick way gives what the thorough one does."""

from __future__ import annotations

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from simhash_core.text.normalization import normalize, normalize_batch, normalize_terms

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
everyday = st.text(st.sampled_from("的桥，。！Ａ１ aBé\u3000\n\t'…\u0301ß\u200b😀"), max_size=40)


@given(st.lists(st.one_of(anything, everyday), max_size=8))
@example(["a ", " b", "", "  ", "c"])
@example(["a  b", "e\u0301  c", "  d "])
@example(["\ud800", "好", "\ud83d", "\ude00"])
@example([])
def test_a_batch_gives_what_each_text_gives_alone(texts: list[str]) -> None:
    assert normalize_batch(texts) == [normalize(text) for text in texts]


@given(st.lists(st.one_of(anything, everyday), max_size=8))
@example(["a", "\0", "b c", " d", "", "Ａ"])
@example(["a\nb", "\n"])
@example([])
def test_terms_are_normalised_as_texts_are(terms: list[str]) -> None:
    assert normalize_terms(terms) == [normalize(term) for term in terms]


def test_a_batch_normalises_every_character_as_a_text_does() -> None:
    texts = [
        before + chr(code) + after for code in range(0x10000) for before, after in ("ee", "  ")
    ]
    assert normalize_batch(texts) == [normalize(text) for text in texts]


def test_whatever_composes_with_what_stands_before_it_goes_the_thorough_way() -> None:
    """A table of single characters would leave two."""
    pairs = []
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pairs.append("".join(chr(int(part, 16)) for part in parts))
    pairs += ["\u1100\u1161", "\uac00\u11a8", "\uffa1\uffc2", "\u304b\uff9e"]
    assert len(pairs) > 900
    assert normalize_batch(pairs) == [normalize(pair) for pair in pairs]
