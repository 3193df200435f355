"""Languages and word lists: with default settings, a copy is near and another text is not."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from simhash_core.errors import UsageError
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text import segmentation
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.normalization import normalize
from simhash_core.text.profiles import PROFILES, Profile
from simhash_core.text.segmentation import is_feature, load_segmenter
from simhash_core.text.word_lists import UserWord, parse_stop_words, parse_user_dictionary


class Language(NamedTuple):
    """Three texts: ``text``, the same with ``old`` replaced by ``new``, and ``other``."""

    text: str
    old: str
    new: str
    other: str


LANGUAGES = {
    item.pop("language"): Language(**item)
    for item in json.loads(Path(__file__).with_name("language_texts.json").read_text("utf-8"))
}


@cache
def _wide() -> Fingerprinter:
    return Fingerprinter(PROFILES["wide"])


def _distance(a: str, b: str) -> tuple[int, bool]:
    """Return how many bits differ, and whether the sketches agree."""
    made, other = _wide().fingerprint_batch([a, b])
    assert made.undecidable is other.undecidable is None
    distance = distance_bits(made.fingerprint, other.fingerprint)
    verifier = _wide().verifier
    assert verifier is not None
    return distance, verifier.similarity(distance, made.sketch, other.sketch) is not None


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_edited_copy_is_near_and_another_text_is_not(language: str) -> None:
    text, old, new, other = LANGUAGES[language]
    edited = text.replace(old, new)
    assert edited != text
    distance, agree = _distance(text, edited)
    assert distance <= _wide().profile.distance
    assert agree
    assert _distance(text, other)[0] > _wide().profile.distance * 1.3
    features = [term for term in load_segmenter("words").cut(normalize(text)) if is_feature(term)]
    assert sum(len(term) > 1 for term in features) > 0.6 * len(features)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("привет, мир", "привет|,| |мир"),
        ("déjà vu l'été naïve", "déjà| |vu| |l|'|été| |naïve"),
        ("東京へ行きます。東京", "東京へ|京へ行|へ行き|行きま|きます|。|東京"),
        ("안녕하세요 세계", "안녕하세요| |세계"),
        ("สวัสดีครับ ok", "สวัส|วัสด|ัสดี|สดีค|ดีคร|ีครั|ครับ| |ok"),
        ("نعم، لا", "نعم|،| |لا"),
        ("क्षत्रिय है।", "क्षत्रिय| |है|।"),
        ("版本v2ß与кириллица2混排", "版本|v2ss|与|кириллица2|混排"),
        ("の", "の"),
    ],
)
def test_runs_of_other_scripts_are_cut_by_what_they_are(text: str, terms: str) -> None:
    assert "|".join(load_segmenter("words").cut(normalize(text))) == terms


def test_chinese_and_english_have_the_dictionarys_terms() -> None:
    texts = [normalize(LANGUAGES[name][0]) for name in LANGUAGES]
    words, rjieba = load_segmenter("words"), load_segmenter("rjieba")
    together = list(words.cut_all(texts))
    cuts = zip(LANGUAGES, texts, together, strict=True)
    same = {name for name, text, cut in cuts if list(cut) == list(rjieba.cut(text))}
    assert {"simplified Chinese", "traditional Chinese", "Chinese with code", "English"} <= same
    assert not same & {"French", "Japanese", "Korean", "Thai", "Russian"}
    assert [list(cut) for cut in together] == [list(words.cut(text)) for text in texts]


def test_a_long_run_is_cut_in_one_pass() -> None:
    words = load_segmenter("words")
    assert len(words.cut("永" * 100_000 + "の")) == 99_999
    assert len(words.cut("я " + "永" * 100_000)) > 2


# ---------------------------------------------------------------- what a user can add


def test_a_word_of_a_user_dictionary_is_one_term() -> None:
    dictionary = parse_user_dictionary("弹性伸缩组\n云上铁路 1000 nz\n")
    for name in ("words", "rjieba", "jieba", "jieba-posseg"):
        own = load_segmenter(name, dictionary)
        terms = {term.partition("\x1f")[0] for term in own.cut("本平台的弹性伸缩组很稳定")}
        assert "弹性伸缩组" in terms
        assert own.identity.endswith(f"+{dictionary.identity}")
        assert "弹性伸缩组" not in load_segmenter(name).cut("本平台的弹性伸缩组很稳定")


def test_lines_of_a_user_dictionary() -> None:
    dictionary = parse_user_dictionary("\ufeff云计算 5 n\n\n  ＡＢＣ \n石墨烯 nz\n")
    assert dictionary.words == (
        UserWord("云计算", 5, "n"),
        UserWord("abc", None, None),
        UserWord("石墨烯", None, "nz"),
    )
    assert parse_user_dictionary("云计算 5 n\nabc\n石墨烯 nz").identity == dictionary.identity


def test_a_bad_line_of_a_user_dictionary_is_named() -> None:
    for line in ("云 计 算", "云计算 -5", "云计算 5 n more", "云计算 n 5", "\u200b"):
        with pytest.raises(UsageError, match="user_dictionary, line 2: expected"):
            parse_user_dictionary(f"好\n{line}\n")


def test_stop_words_are_no_features() -> None:
    text = LANGUAGES["simplified Chinese"][0]
    stop = parse_stop_words("大桥\n\nＫａｆｋａ\n大桥\n")
    assert stop.words == {"大桥", "kafka"}
    own = Fingerprinter(Profile(64, 4, 16, 3, stop_words=stop))
    plain = Fingerprinter(Profile(64, 4, 16, 3))
    assert "大桥" in {term.term for term in plain.weighted_terms(text)}
    assert "大桥" not in {term.term for term in own.weighted_terms(text)}
    assert own.fingerprint(text).features == plain.fingerprint(text).features - 1
    assert own.identity.endswith(f"stop-words={stop.identity}")
    assert "stop-words" not in plain.identity


def test_empty_lists_and_a_dictionary_without_effect_are_refused() -> None:
    with pytest.raises(UsageError, match="stop_words has 0 words"):
        parse_stop_words(" \n")
    with pytest.raises(UsageError, match="user_dictionary has 0 words"):
        parse_user_dictionary("")
    dictionary = parse_user_dictionary("云计算")
    with pytest.raises(UsageError, match="no effect with the segmenter 'ngrams'"):
        Fingerprinter(Profile(64, 4, 16, 3, segmenter="ngrams", user_dictionary=dictionary))


def test_a_version_that_cuts_as_before_keeps_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "version", lambda _: "9.9.9")
    assert load_segmenter("rjieba").identity == "rjieba-9.9.9"
    monkeypatch.setattr(segmentation, "SAME_TERMS_AS", {"9.9.9": "0.2.2"})
    assert load_segmenter("rjieba").identity == "rjieba-0.2.2"
