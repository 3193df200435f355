"""Traditional characters folded into simplified ones: off by default, part of the identity."""

from __future__ import annotations

import unicodedata

import msgspec
import pytest

from simhash_core.documents import Content
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.idf import parse_idf
from simhash_core.text.normalization import (
    normalize,
    normalize_batch,
    simplified,
    simplified_forms,
    simplified_identity,
)
from simhash_core.text.profiles import PROFILES, Profile
from simhash_core.text.word_lists import parse_stop_words, parse_user_dictionary

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


def folding(profile: Profile) -> Profile:
    return msgspec.structs.replace(profile, fold_traditional=True)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_text_in_both_scripts_is_one_text(name: str) -> None:
    for profile, same in ((PROFILES[name], False), (folding(PROFILES[name]), True)):
        one, other = Fingerprinter(profile).fingerprint_batch([TRADITIONAL, SIMPLIFIED])
        assert (one == other) is same


def test_without_folding_the_two_scripts_are_far_apart() -> None:
    wide = PROFILES["wide"]
    one, other = Fingerprinter(wide).fingerprint_batch([TRADITIONAL, SIMPLIFIED])
    assert distance_bits(one.fingerprint, other.fingerprint) > wide.distance


def test_folding_is_part_of_the_identity() -> None:
    classic = PROFILES["classic"]
    assert f" folding={simplified_identity()}" in Fingerprinter(folding(classic)).identity
    assert "simplified" not in Fingerprinter(classic).identity


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


def test_a_batch_is_folded_as_each_text_is() -> None:
    texts = [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000]
    texts += [TRADITIONAL, "Ａ這裡…😀", "這\u0301", "", "國\n國"]
    for fold_case in (True, False):
        assert normalize_batch(texts, fold_case=fold_case, simplify=True) == [
            normalize(text, fold_case=fold_case, simplify=True) for text in texts
        ]


def test_word_lists_are_folded_with_the_texts() -> None:
    profile = folding(
        msgspec.structs.replace(
            PROFILES["classic"],
            idf=parse_idf("test", "這個 0.5\n雲端運算 7.0\n問題 2.0\n".encode()),
            user_dictionary=parse_user_dictionary("雲端運算 1000000"),
            stop_words=parse_stop_words("問題"),
        )
    )
    fingerprinter = Fingerprinter(profile)
    for text in ("這個雲端運算問題", "这个云端运算问题"):
        weights = dict(fingerprinter.weighted_terms(text))
        assert weights == {"这个": 0.5, "云端运算": 7.0}


def test_titles_and_metadata_are_folded() -> None:
    profile = folding(
        msgspec.structs.replace(
            PROFILES["classic"], weighting="tfidf-roles", verify="metadata", verify_at=0.25
        )
    )
    one, other = Fingerprinter(profile).fingerprint_batch(
        [
            Content(TRADITIONAL, title="經濟發展", keywords=("醫療",)),
            Content(SIMPLIFIED, title="经济发展", keywords=("医疗",)),
        ]
    )
    assert one == other
