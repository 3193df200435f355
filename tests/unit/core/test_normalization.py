"""Normalisation gives one spelling to texts that a reader takes for the same."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simhash_core.documents import Content
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.idf import parse_idf
from simhash_core.text.normalization import (
    normalize,
    normalize_batch,
    normalize_terms,
    simplified,
    simplified_forms,
    simplified_identity,
)
from simhash_core.text.profiles import PROFILES
from simhash_core.text.word_lists import parse_stop_words, parse_user_dictionary

MARKS = "\u0300\u0301\u0315\u0316\u0327\u0334\u0344\u0345\u05b0\u0f71\u0f73\u3099\uff9e"
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
        ("ǰ J\u030c", "ǰ ǰ"),  # it folds to two characters, which compose to one again
        ("ΐ", "ΐ"),
        ("", ""),
        ("\u200b", ""),
        ("👨\u200d👩\u200d👧", "👨👩👧"),
        ("你好，世界！", "你好,世界!"),
    ],
)
def test_spellings_of_one_text(text: str, normal: str) -> None:
    """The texts of each pair look the same, or nearly the same."""
    assert normalize(text) == normal


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "marks", ["\u0315\u0300", "\u0f73", "\u0316\u0344", "\u0315\u200d\u0300\u200d"]
)
def test_a_megabyte_of_marks_takes_no_longer_than_one_of_letters(marks: str) -> None:
    """``unicodedata`` sorts marks by insertion: these would take several minutes."""
    text = "a" + marks * (600_000 // len(marks))
    once = normalize(text)
    assert normalize(once) == once


@given(
    st.lists(
        st.one_of(
            st.text(MARKS, min_size=64, max_size=200),
            st.text("aeｅ\u1e69ﾞ가\u0f40 ", max_size=3),
            st.text(MARKS, max_size=3),
        ),
        min_size=8,
        max_size=30,
    ).map("".join)
)
def test_long_runs_of_marks_have_the_form_of_unicode(text: str) -> None:
    text += " " * 1_000
    assert normalize(text, fold_case=False) == " ".join(unicodedata.normalize("NFKC", text).split())


@pytest.mark.timeout(60)
def test_every_character_comes_to_rest() -> None:
    """Repeated folding and composing reach a form that does not change."""
    every = map(chr, range(0x110000))
    changing = [c for c in every if unicodedata.normalize("NFKD", c).casefold() != c]
    assert len(changing) > 10_000
    for sign in changing:
        once = normalize(f"x{sign}x")
        assert normalize(once) == once, hex(ord(sign))


@given(anything)
def test_a_normal_form_is_its_own_can_be_encoded_and_has_single_blanks(text: str) -> None:
    normal = normalize(text)
    assert normalize(normal) == normal
    assert normal.encode().decode() == normal
    assert normal == " ".join(normal.split())


@given(st.text(st.characters(codec="utf-8", exclude_categories=("C", "M"))))
def test_the_short_cut_for_full_width_signs_changes_nothing(text: str) -> None:
    slow = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    assert normalize(text) == normalize(slow)


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


def test_whatever_composes_with_what_stands_before_it_goes_the_thorough_way() -> None:
    """A table of single characters would leave two characters."""
    pairs = []
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pairs.append("".join(chr(int(part, 16)) for part in parts))
    pairs += ["\u1100\u1161", "\uac00\u11a8", "\uffa1\uffc2", "\u304b\uff9e"]
    assert len(pairs) > 900
    assert normalize_batch(pairs) == [normalize(pair) for pair in pairs]


# ---------------------------------------------------------------- traditional characters

TRADITIONAL = (
    "在這個問題上，許多國家的專家學者發表了不同的意見，認為應該繼續發展經濟，並且保護環境，讓人們"
    "過上更好的生活。他們還說，現在最重要的是開放市場，吸引投資，減少貧困，擴大就業，提高教育和醫療"
    "的水準，改善農村的基礎設施。看著窗外，記者們沒有說話。"
)
SIMPLIFIED = (
    "在这个问题上，许多国家的专家学者发表了不同的意见，认为应该继续发展经济，并且保护环境，让人们"
    "过上更好的生活。他们还说，现在最重要的是开放市场，吸引投资，减少贫困，扩大就业，提高教育和医疗"
    "的水准，改善农村的基础设施。看着窗外，记者们没有说话。"
)


def folding(name: str, **settings: object) -> Fingerprinter:
    profile = msgspec.structs.replace(PROFILES[name], fold_traditional=True, **settings)
    return Fingerprinter(profile)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_text_in_both_scripts_is_one_text(name: str) -> None:
    for fingerprinter, same in ((Fingerprinter(PROFILES[name]), False), (folding(name), True)):
        one, other = fingerprinter.fingerprint_batch([TRADITIONAL, SIMPLIFIED])
        assert (one == other) is same
        assert (f" folding={simplified_identity()}" in fingerprinter.identity) is same


def test_what_is_folded_stays_as_it_is() -> None:
    forms = "".join(map(chr, simplified_forms().values()))
    assert len(forms) > 3_000
    assert simplified(forms) == forms
    assert unicodedata.normalize("NFKC", forms) == forms
    assert normalize(forms, simplify=True) == forms


def test_simplified_text_is_left_alone_but_for_what_stands_for_two() -> None:
    assert simplified(SIMPLIFIED) == SIMPLIFIED
    assert simplified("什么时候才吃？") == "什么时候才吃？"
    assert simplified("乾隆，著名") == "干隆，着名"
    assert simplified("裡裏偽僞說説為爲線綫") == "里里伪伪说说为为线线"


@pytest.mark.parametrize(("fold_case", "simplify"), [(True, False), (True, True), (False, True)])
def test_a_batch_has_every_character_as_a_text_has(fold_case: bool, simplify: bool) -> None:
    texts = [beside + chr(code) + beside for code in range(0x10000) for beside in "e "]
    texts += [*map(chr, simplified_forms()), TRADITIONAL, "Ａ這裡…😀", "這\u0301", "", "國\n國"]
    expected = [normalize(text, fold_case=fold_case, simplify=simplify) for text in texts]
    assert normalize_batch(texts, fold_case=fold_case, simplify=simplify) == expected


def test_word_lists_are_folded_with_the_texts() -> None:
    fingerprinter = folding(
        "classic",
        idf=parse_idf("test", "這個 0.5\n雲端運算 7.0\n問題 2.0\n".encode()),
        user_dictionary=parse_user_dictionary("雲端運算 1000000"),
        stop_words=parse_stop_words("問題"),
    )
    for text in ("這個雲端運算問題", "这个云端运算问题"):
        assert dict(fingerprinter.weighted_terms(text)) == {"这个": 0.5, "云端运算": 7.0}


def test_titles_and_metadata_are_folded() -> None:
    settings = {"weighting": "tfidf-roles", "verify": "metadata", "verify_at": 0.25}
    contents = [
        Content(TRADITIONAL, title="經濟發展", keywords=("醫療",)),
        Content(SIMPLIFIED, title="经济发展", keywords=("医疗",)),
    ]
    one, other = folding("classic", **settings).fingerprint_batch(contents)
    assert one == other
