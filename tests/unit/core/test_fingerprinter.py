"""From a text to its fingerprint, by terms or by shingles, and what the fingerprinter caches."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simhash_core.documents import Content
from simhash_core.errors import UnknownNameError, UsageError
from simhash_core.fingerprints.fingerprint import distance_bits
from simhash_core.text.fingerprinter import Fingerprinted, Fingerprinter, FingerprintMemo
from simhash_core.text.profiles import PROFILES, Profile, profile_named
from simhash_core.text.segmentation import SEGMENTERS
from simhash_core.text.verification.shingles import SKETCH_BYTES, similarity
from simhash_core.text.weighting import WEIGHTINGS
from simhash_core.text.word_lists import parse_stop_words
from simhash_core.verdicts import UndecidableReason

ARTICLE = (
    "今天上午,市交通局发布公告称,跨江大桥的加固工程将于下月初开始,预计持续三个月。"
    "施工期间大桥每晚十点至次日五点封闭,公交线路改由隧道通行,货车需要绕行北环高速。"
    "附近居民表示理解,但希望施工方控制噪声。工程负责人介绍,加固后大桥可以再用五十年。"
)
OTHER = (
    "一家初创公司昨天展示了它的新型电池,据称充电只要六分钟,能量密度比现有产品高百分之四十。"
    "研究人员说,关键在于一种薄如蝉翼的陶瓷隔膜。投资者反应热烈,股价在收盘前上涨了一成。"
    "不过也有专家提醒,从实验室到量产往往需要很多年,成本仍然是最大的问题。"
)


WIDE = Profile(256, 16, 16, 48)


@cache
def made_by(profile: str) -> Fingerprinter:
    return Fingerprinter(PROFILES[profile])


@pytest.fixture(params=sorted(PROFILES))
def fingerprinter(request: pytest.FixtureRequest) -> Fingerprinter:
    return made_by(request.param)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", UndecidableReason.EMPTY),
        (" \n\u200b\t", UndecidableReason.EMPTY),
        ("\ud800", UndecidableReason.EMPTY),
        ("……!!!???", UndecidableReason.NO_FEATURES),
        ("😀😀🎉", UndecidableReason.NO_FEATURES),
        ("好的,收到", UndecidableReason.TOO_FEW_FEATURES),
        ("word " * 100_000, UndecidableReason.TOO_FEW_FEATURES),
    ],
)
def test_too_little_text_is_undecidable(
    fingerprinter: Fingerprinter, text: str, reason: UndecidableReason
) -> None:
    made = fingerprinter.fingerprint(text)
    assert made.undecidable is reason
    assert made.fingerprint == b""
    assert len(made.content_digest) == 16


def test_spelling_does_not_change_the_fingerprint(fingerprinter: Fingerprinter) -> None:
    dressed = ARTICLE.replace(",", "，").replace("。", "。\u200b\n\n")
    plain = fingerprinter.fingerprint(ARTICLE)
    assert fingerprinter.fingerprint(dressed).fingerprint == plain.fingerprint


def test_an_edit_moves_few_bits_and_another_text_about_half(fingerprinter: Fingerprinter) -> None:
    article = fingerprinter.fingerprint(ARTICLE).fingerprint
    edited = fingerprinter.fingerprint(ARTICLE.replace("三个月", "四个月")).fingerprint
    other = fingerprinter.fingerprint(OTHER).fingerprint
    bits = len(article) * 8
    assert distance_bits(article, edited) < bits * 0.15
    assert bits * 0.3 < distance_bits(article, other) < bits * 0.7


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(PROFILES)),
    st.lists(st.sampled_from([ARTICLE, OTHER, "", "短", "word " * 30, "a b c d"]), max_size=12),
)
def test_a_batch_gives_what_each_text_gives_alone(profile: str, texts: list[str]) -> None:
    alone = Fingerprinter(PROFILES[profile])
    assert made_by(profile).fingerprint_batch(texts) == [alone.fingerprint(text) for text in texts]


@pytest.mark.parametrize("segmenter", SEGMENTERS)
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_every_segmenter_and_weighting_tells_texts_apart(segmenter: str, weighting: str) -> None:
    profile = msgspec.structs.replace(WIDE, segmenter=segmenter, weighting=weighting)
    fingerprinter = Fingerprinter(profile)
    made = fingerprinter.fingerprint_batch([ARTICLE, ARTICLE + "完。", OTHER])
    article, copy, other = (each.fingerprint for each in made)
    assert distance_bits(article, copy) < distance_bits(article, other)
    assert f"segmenter={segmenter}-" in fingerprinter.identity
    assert f"weighting={weighting} " in fingerprinter.identity


def test_each_setting_changes_the_identity() -> None:
    changes: list[Mapping[str, object]] = [
        {},
        *({"bits": 512}, {"blocks": 21, "block_bits": 12}, {"distance": 40}),
        *({"segmenter": "ngrams"}, {"weighting": "tf"}, {"feature_hash": "java"}),
        {"min_features": 3},
    ]
    made = {Fingerprinter(msgspec.structs.replace(WIDE, **each)).identity for each in changes}
    assert len(made) == len(changes)
    assert profile_named("wide") == PROFILES["wide"]


SHINGLES = {"fingerprint": "shingles", "verify": "shingles", "bands": 13}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"segmenter": "ictclas"}, "choose one of jieba, jieba-posseg, ngrams, rjieba, words"),
        ({"weighting": "bm25"}, "tfidf-length, tfidf-roles, tfidf-sublinear"),
        ({"verify": "words"}, "cosine, metadata, none, shingles"),
        ({"fingerprint": "ngrams"}, "shingles, terms"),
        ({"verify": "cosine", "verify_at": 1.5}, r"verify_at is 1\.5"),
        ({"verify": "cosine", "mean_at": 1.5}, r"mean_at is 1\.5"),
        ({"mean_at": 0.7}, "verify is none: set mean_at to 0, or set verify"),
        ({"min_features": 0}, "min_features is 0"),
        ({"verify": "cosine", "bands": 8}, "set bands to 0"),
        (
            {"verify": "shingles", "bands": 12},
            "to 13 or more, or set band_bins to 2",
        ),
        ({"band_bins": 5}, "band_bins is 5: it must be from 2 to 3"),
        ({"fingerprint": "shingles", "verify": "cosine"}, "set verify to shingles"),
        ({**SHINGLES, "stop_words": parse_stop_words("的")}, "stop_words has no effect"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Fingerprinter(msgspec.structs.replace(WIDE, **settings))
    with pytest.raises(UnknownNameError, match="classic, quick, wide"):
        profile_named("broad")


def test_the_heaviest_terms_come_first() -> None:
    terms = made_by("wide").weighted_terms(ARTICLE)
    weights = [term.weight for term in terms]
    assert weights == sorted(weights, reverse=True)
    assert {"大桥", "加固"} <= {term.term for term in terms[:5]}


def test_a_long_text_needs_half_of_the_features() -> None:
    words = [f"clause{chr(97 + number)}" for number in range(20)]
    long, short, poor = " ".join(words * 2), " ".join(words[:14]), " ".join(words[:13] * 3)
    wide, classic = made_by("wide"), made_by("classic")
    assert wide.fingerprint(long).undecidable is None
    assert wide.fingerprint(long).sketch
    assert classic.fingerprint(long).undecidable is UndecidableReason.TOO_FEW_FEATURES
    for text in (short, poor):
        assert wide.fingerprint(text).undecidable is UndecidableReason.TOO_FEW_FEATURES
    assert " min-features=27/14@120 " in wide.identity
    assert classic.identity.endswith(" min-features=27")


def test_the_latest_documents_are_there_and_old_ones_go() -> None:
    memo = FingerprintMemo(memory_bytes=6 * 1_100)
    made = [Fingerprinted(b"", b"", number, None) for number in range(21)]
    for number in range(20):
        memo.keep(Content(f"{number:050}"), made[number])
        assert memo.get(Content(f"{0:050}")) is made[0]
    assert [memo.get(Content(f"{number:050}")) for number in (17, 18, 19)] == made[17:20]
    memo.keep(Content("x" * 2_000), made[20])
    assert memo.get(Content(f"{1:050}")) is None
    assert memo.get(Content("x" * 2_000)) is None, "it is larger than the memory"


# ---------------------------------------------------------------- of shingles, in any language

_CHARACTERS = [chr(code) for code in range(0x4E00, 0x4E00 + 2000)]


def _text(seed: int, characters: int = 600) -> str:
    return "".join(random.Random(seed).choices(_CHARACTERS, k=characters))


def test_of_shingles_a_bit_differs_with_half_the_chance_of_what_is_not_shared() -> None:
    base = made_by("quick").fingerprint(_text(1, 2_000))
    distances = []
    for kept in (1_900, 1_500, 1_000, 0):
        other = made_by("quick").fingerprint(_text(1, 2_000)[:kept] + _text(2, 2_000 - kept))
        distances.append(distance_bits(base.fingerprint, other.fingerprint))
        jaccard = similarity(base.sketch, other.sketch)
        assert distances[-1] == pytest.approx(256 * (1 - jaccard) / 2, abs=30)
    assert distances == sorted(distances)


def test_of_shingles_features_are_distinct_shingles_and_there_are_no_terms() -> None:
    quick = made_by("quick")
    few, enough = quick.fingerprint_batch([_text(4, 40) * 50, _text(4, 140)])
    assert few.undecidable is UndecidableReason.TOO_FEW_FEATURES
    assert enough.undecidable is None
    assert len(enough.sketch) == SKETCH_BYTES + quick.scheme.sketch_bands.tail_bytes
    assert quick.weighted_terms(_text(3)) == []
    assert "segmenter" not in quick.identity
    assert " fingerprint=shingles-1/5x512 " in quick.identity
    made = quick.fingerprint(_text(8)).fingerprint
    assert made.hex() == "168531fadceaa585e9da631acf17e8a887350d1868ae294c1c7cd789af487585"
