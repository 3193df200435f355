"""The memo of runs returns the segmenter's own terms, and pauses while it saves little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhash_core.fingerprints.feature_hashes import feature_hash_named
from simhash_core.text.idf import IdfModel
from simhash_core.text.lexicon import Lexicon
from simhash_core.text.normalization import normalize
from simhash_core.text.segmentation import (
    SEGMENTERS,
    SEPARATORS,
    Segmenter,
    is_feature,
    load_segmenter,
    word_of,
)
from simhash_core.text.segmentation_cache import (
    LONGEST_TRIAL,
    MAX_UNITS,
    REST,
    SHORTEST_TRIAL,
    CacheTrials,
    RunSplitter,
    SegmentationCache,
)
from simhash_core.text.word_lists import parse_user_dictionary

TEXTS = [
    "",
    "今天上午,市交通局发布公告称,跨江大桥的加固工程将于下月初开始。",
    "新版本 2.0 支持 c++ 和 at&t,吞吐量提升35%;配置项delivery=exactly_once_v2,见 a.b/c-d。",
    "internationalisation of the counterintuitively long timetable, e.g. 010-12306",
    "吉野家の牛丼を食べました。ภาษาไทย, кошка и naïve café 한국어",
    "今天上午,市交通局发布公告称,明天上午。",
    ",。",
    "𠮷野家,的牛丼",
]
PIECES = ["测试", "北京大学", "3.", "t恤", "c++", "ab", "1", "-", "%", "кот", "かな", "แมว"]


_segmenter = cache(load_segmenter)


def _features(terms: Iterable[str]) -> list[str]:
    return [term for term in terms if is_feature(word_of(term))]


class Memo:
    """A memo of runs, which must give the terms that the segmenter gives for whole texts."""

    def __init__(self, segmenter: Segmenter, memory_bytes: int = 1 << 20) -> None:
        self.segmenter = segmenter
        self.lexicon = Lexicon(64, feature_hash_named("xxh3"), IdfModel("test", {}, 1.0))
        self.memo = SegmentationCache(segmenter, self.lexicon, memory_bytes)

    def check(self, *texts: str) -> None:
        rows, sizes = self.memo.rows([*texts])
        spelled = {row: term for term, row in self.lexicon.items()}
        terms = iter([spelled[row] for row in rows.tolist()])
        found = [_features(islice(terms, size)) for size in sizes.tolist()]
        assert found == [_features(self.segmenter.cut(text)) for text in texts]


@pytest.mark.parametrize("name", SEGMENTERS)
def test_terms_are_those_of_the_whole_text(name: str) -> None:
    memo = Memo(_segmenter(name))
    for texts in (TEXTS, TEXTS[::-1], [], TEXTS):
        memo.check(*texts)


@pytest.mark.parametrize("name", ["words", "rjieba", "jieba"])
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(SEPARATORS)), max_size=8))
def test_no_term_reaches_over_a_separator(name: str, pieces: list[tuple[str, str]]) -> None:
    text = normalize("".join(f"{piece}{separator}" for piece, separator in pieces))
    Memo(_segmenter(name)).check(text)


def test_words_of_the_user_keep_what_separators_divide() -> None:
    words = parse_user_dictionary("甲/乙 1000000\n跨江大桥的 1000000")
    Memo(load_segmenter("words", words)).check("有甲/乙的", "跨江大桥的加固")


def test_runs_made_to_have_one_hash_are_told_apart() -> None:
    """Polynomials of a Thue-Morse sequence and its complement differ by a multiple of 2⁶⁴."""
    opposite = [place.bit_count() % 2 for place in range(2_048)]
    runs = ["".join("的了"[digit ^ flip] for digit in opposite) for flip in (0, 1)]
    split = RunSplitter(SEPARATORS).split(runs)
    assert split is not None
    assert split.hashes[0] == split.hashes[1]
    for texts in (runs, [runs[1], "跨江大桥", runs[0]]):
        memo = Memo(_segmenter("words"))
        for batch in ([texts[0]], texts, TEXTS):
            memo.check(*batch)


def test_a_text_too_long_to_be_divided_is_segmented_whole() -> None:
    texts = ["大桥,加固。" * (MAX_UNITS // 6 + 1), "大桥"]
    assert RunSplitter(SEPARATORS).split(texts) is None
    Memo(_segmenter("words")).check(*texts)


def test_a_memo_that_does_not_pay_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 200 texts, each text is a copy of the one before, with one new run."""
    monkeypatch.setattr("simhash_core.text.segmentation_cache.SHORTEST_TRIAL", 100)
    memo, cut = Memo(_segmenter("words")), 0

    def count(text: str) -> Sequence[str]:
        nonlocal cut
        cut += len(text)
        return memo.segmenter.cut(text)

    memo.memo._segmenter = memo.segmenter._replace(cut_all=lambda texts: map(count, texts))
    shares = []
    for number in range(600):
        runs = [str(10 * min(number, 200) + place) for place in range(9)]
        text = f"{number}大桥,{','.join(runs)}"
        cut = 0
        memo.check(text)
        shares.append(cut / len(text))
    assert max(shares[50:200]) > 0.9
    assert sum(shares[-100:]) < 50


@pytest.mark.parametrize(("memory_bytes", "terms_max"), [(1, 65_536), (1 << 20, 3)])
def test_a_full_memo_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, memory_bytes: int, terms_max: int
) -> None:
    monkeypatch.setattr("simhash_core.text.lexicon.TERMS_MAX", terms_max)
    memo = Memo(_segmenter("words"), memory_bytes)
    for text in TEXTS:
        memo.check(text)


BATCH = SHORTEST_TRIAL // 16


def used(trials: CacheTrials, characters: int, share: float) -> int:
    """Use text of which the memo saves ``share``; return the number of characters it handled."""
    worked = 0
    for _ in range(characters // BATCH):
        worked += BATCH if trials.is_on else 0
        trials.count(BATCH, int(BATCH * share) if trials.is_on else 0)
    return worked


def test_a_memo_that_does_not_pay_works_on_every_17th_text() -> None:
    length = 40 * REST * LONGEST_TRIAL
    share = used(CacheTrials(), length, 0.25) / length
    assert 0.9 / (REST + 1) < share < 1.1 / (REST + 1)


def test_trials_grow_until_one_pays_in_its_second_half() -> None:
    assert used(CacheTrials(), 50 * SHORTEST_TRIAL, 0.5) == 50 * SHORTEST_TRIAL
    trials = CacheTrials()
    used(trials, SHORTEST_TRIAL // 2, 0.0)
    used(trials, SHORTEST_TRIAL // 2, 0.5)
    assert trials.is_on
    trials = CacheTrials()
    for doubling in range(3):
        trial = SHORTEST_TRIAL << doubling
        assert used(trials, trial, 0.0) == trial
        assert used(trials, REST * trial, 0.0) == 0
    assert used(trials, 9 * SHORTEST_TRIAL, 0.9) == 9 * SHORTEST_TRIAL
    assert used(trials, 10 * SHORTEST_TRIAL, 0.0) == SHORTEST_TRIAL


def test_a_trial_begins_again_when_the_memo_is_emptied() -> None:
    trials = CacheTrials()
    used(trials, SHORTEST_TRIAL * 3 // 4, 0.3)
    trials.emptied()
    used(trials, SHORTEST_TRIAL // 2, 0.3)
    used(trials, SHORTEST_TRIAL // 2, 0.9)
    assert trials.is_on
    used(trials, SHORTEST_TRIAL, 0.0)
    trials.emptied()  # a pause goes on
    assert used(trials, REST * SHORTEST_TRIAL, 0.0) == 0
    assert trials.is_on
