"""Normalisation: one spelling for what a reader takes for the same text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.text.normalization import normalize

anything = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Ｆｕｌｌ　Ｗｉｄｔｈ，１２３！", "full width,123!"),
        ("STRASSE Straße", "strasse strasse"),
        ("e\u0301", "\u00e9"),
        ("\ufb01ne", "fine"),
        (" a \t\n\u3000 b\u00a0", "a b"),
        ("soft\u00adhyphen zero\u200bwidth nul\x00l", "softhyphen zerowidth null"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("\u0345", "\u03b9"),
        ("ǰ J\u030c", "ǰ ǰ"),  # folds to two characters, which compose to the one again
        ("ΐ", "ΐ"),
        ("", ""),
        ("\u200b", ""),
        ("👨\u200d👩\u200d👧", "👨👩👧"),
        ("你好，世界！", "你好,世界!"),
    ],
)
def test_spellings_of_one_text(text: str, normal: str) -> None:
    """Each pair looks alike to a reader, or nearly so."""
    assert normalize(text) == normal


@pytest.mark.timeout(60)
def test_every_character_comes_to_rest() -> None:
    """Folding and composing do not go on for ever."""
    every = map(chr, range(0x110000))
    changing = [c for c in every if unicodedata.normalize("NFKD", c).casefold() != c]
    assert len(changing) > 10_000
    for sign in changing:
        once = normalize(f"x{sign}x")
        assert normalize(once) == once, hex(ord(sign))


@given(anything)
def test_the_normal_form_of_a_normal_form_is_itself(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once


@given(anything)
def test_the_result_can_be_encoded_and_has_single_blanks(text: str) -> None:
    normal = normalize(text)
    assert normal.encode().decode() == normal
    assert normal == " ".join(normal.split())


@given(st.text(st.characters(codec="utf-8", exclude_categories=("C", "M"))))
def test_the_short_cut_for_full_width_signs_changes_nothing(text: str) -> None:
    slow = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    assert normalize(text) == normalize(slow)
