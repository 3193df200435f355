"""Weightings: results of the published formulas, and the sources of the terms' roles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from simhash_core.documents import Content
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import Profile
from simhash_core.text.segmentation import TAG_MARK
from simhash_core.text.weighting import (
    TermStatistics,
    TermTraits,
    length_relevance,
    lengths_of,
    tfidf_length,
    tfidf_roles,
    traits_of,
)

ARTICLE = (
    "市交通局发布公告称，跨江大桥的加固工程将于下月初开始。工程期间大桥封闭，货车绕行北环高速。"
    "综上所述，居民表示理解，但是希望施工方控制噪声。"
)


def _statistics(
    counts: list[float], idf: list[float], traits: TermTraits, in_title: Sequence[bool] = ()
) -> TermStatistics:
    bounds = np.array([0, len(counts)])
    title = np.array(in_title, dtype=np.bool_)
    return TermStatistics(np.array(counts), np.array(idf), bounds, traits, title)


def test_the_length_relevance_of_wang_and_wang() -> None:
    """M2: w(x) = tf · idf · (1 + len(x)), len(x) = exp(−(x − 4.51)² / (2 · 2.207²)).

    A term of a hundred letters has no bonus.
    """
    relevance = [float(length_relevance(x)) for x in range(25)]
    exact = [math.exp(-((x - 4.51) ** 2) / (2 * 2.207**2)) for x in range(25)]
    assert relevance == pytest.approx(exact, abs=1e-12)
    published = [0.28233, 0.52376, 0.79132, 0.97365, 0.97565]
    assert relevance[1:6] == pytest.approx(published, abs=5e-6)
    assert relevance[8] == pytest.approx(0.28642, abs=5e-6)
    terms = _statistics(
        [2.0, 1.0, 3.0], [3.0, 2.0, 5.0], lengths_of(["x" * 100, "大桥", "跨江大桥"])
    )
    expected = [6.0, 1 * 2 * (1 + 0.523764), 3 * 5 * (1 + 0.973654)]
    assert tfidf_length(terms) == pytest.approx(expected, rel=1e-5)


def test_the_four_factors_multiply() -> None:
    """M3: part of speech, length between shortest and longest, cue × 5, title × 5."""
    traits = TermTraits(
        np.array([1.0, 2.0, 5.0, 2.0]),
        np.array([False, True, True, False]),
        np.array([False, False, False, True]),
    )
    in_title = [False, True, False, False]
    terms = _statistics([1.0, 2.0, 1.0, 1.0], [3.0, 4.0, 6.0, 2.0], traits, in_title)
    assert tfidf_roles(terms).tolist() == [
        3.0,
        2 * 4 * 1.5 * 2 * 5,  # (2 − 1) / (5 − 1) is a quarter, its root a half
        6 * 2.0 * 2,
        2 * 1.5 * 5,
    ]


def test_documents_of_a_batch_have_their_own_lengths() -> None:
    bounds, no_title = np.array([0, 2, 2, 4]), np.zeros(4, dtype=np.bool_)
    traits = lengths_of(["a", "bbbbb", "cc", "cc"])
    terms = TermStatistics(np.ones(4), np.ones(4), bounds, traits, no_title)
    assert tfidf_roles(terms).tolist() == [1.0, 2.0, 1.0, 1.0]


def test_parts_of_speech_are_those_of_jiebas_dictionary() -> None:
    terms = ["大桥", "发布", "非常", "qwertyuiop", f"大桥{TAG_MARK}d", f"非常{TAG_MARK}vn"]
    assert traits_of(terms).is_main.tolist() == [True, True, False, False, False, True]
    assert traits_of(terms).lengths.tolist() == [2, 2, 2, 10, 2, 2]
    assert traits_of(["总之", "總之", "therefore"]).is_cue.all()
    assert not traits_of(["大桥"]).is_cue.any()


def test_a_title_makes_its_terms_five_times_as_heavy() -> None:
    """M3: with a title, exactly the terms of the text that are in the title weigh five times."""
    fingerprinter = Fingerprinter(Profile(64, 4, 16, 3, weighting="tfidf-roles"))
    plain = dict(fingerprinter.weighted_terms(Content(ARTICLE)))
    titled = dict(fingerprinter.weighted_terms(Content(ARTICLE, title="大桥加固，地铁不停运")))
    raised = {term for term, weight in titled.items() if weight == 5 * plain[term]}
    assert raised == {"大桥", "加固"}
    assert {term for term in plain if titled[term] == plain[term]} == plain.keys() - raised
    assert max(plain, key=lambda term: plain[term]) == "综上所述"


def test_a_title_is_that_of_its_document_alone() -> None:
    fingerprinter = Fingerprinter(Profile(128, 8, 16, 7, weighting="tfidf-roles"))
    contents = [Content(ARTICLE, title="大桥"), Content(ARTICLE), Content(ARTICLE, title="噪声")]
    together = fingerprinter.fingerprint_batch(contents)
    assert together == [fingerprinter.fingerprint(content) for content in contents]
    assert len({made.fingerprint for made in together}) == 3
    assert "roles=jieba-0.42" in fingerprinter.identity
    assert "roles=" not in Fingerprinter(Profile(64, 4, 16, 3, weighting="tfidf-length")).identity
