"""The traits of a term: its length, its part of speech, whether it is a cue term."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.normalization import normalize
from simhash_core.text.word_lists import read_jieba_file

# ---- Cue terms: words that announce a conclusion or a turn of a text.
#
# They belong to the improved tf-idf weights (``tfidf_roles``): "综上所述", "总之", "但是", … The
# paper names a lexicon and shows a few of its words; this list is ours, in both scripts, with the
# corresponding English words. Words are normalised.


CUE_TERMS_VERSION: Final = "cues-1"

_SIMPLIFIED: Final = """
综上所述 综上 总之 总而言之 总的来说 总的来看 总体而言 简而言之 简言之 一言以蔽之 归根结底
归根到底 由此可见 可见 由此 因此 因而 所以 从而 于是 故而 结论 结果表明 研究表明 表明 但是 但
然而 不过 可是 却 反之 相反 尽管如此 虽然 尽管 事实上 实际上 其实 换言之 换句话说 也就是说 即
首先 其次 再次 最后 最终 第一 第二 第三 一方面 另一方面 此外 另外 值得注意 值得一提 重要的是
关键 关键在于 特别是 尤其 尤其是 主要 根本 根据 据悉 据报道
"""
_TRADITIONAL: Final = """
綜上所述 綜上 總之 總而言之 總的來說 總的來看 總體而言 簡而言之 簡言之 一言以蔽之 歸根結底
歸根到底 由此可見 可見 從而 於是 結論 結果表明 研究表明 不過 卻 儘管如此 雖然 儘管 事實上 實際上
其實 換言之 換句話說 也就是說 首先 其次 再次 最後 最終 此外 值得注意 重要的是 關鍵 關鍵在於
特別是 根據 據悉 據報導
"""
_ENGLISH: Final = """
therefore thus hence consequently conclusion conclude concluding summary overall finally
ultimately however but nevertheless nonetheless although though whereas contrary moreover
furthermore additionally importantly notably significantly especially namely first second third
lastly
"""

CUE_TERMS: Final = frozenset(f"{_SIMPLIFIED} {_TRADITIONAL} {_ENGLISH}".split())


# ---- Traits of terms.
#
# They depend on the term alone, so each is computed once and kept in the lexicon's columns. A
# segmenter that tags its terms puts ``TAG_MARK``, which normalised texts do not have, and the tag
# after the word.


TAG_MARK: Final = "\x1f"

_NOUNS_AND_VERBS: Final = ("n", "v")


class TermTraits(NamedTuple):
    lengths: NDArray[np.float64]  # characters
    is_main: NDArray[np.bool_]  # a noun or a verb
    is_cue: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> TermTraits:
        return TermTraits(self.lengths[rows], self.is_main[rows], self.is_cue[rows])


TraitsOf = Callable[[Sequence[str]], TermTraits]


def no_traits(rows: int) -> TermTraits:
    empty = np.zeros(rows, dtype=np.bool_)
    return TermTraits(np.zeros(rows), empty, empty.copy())


def lengths_of(terms: Sequence[str]) -> TermTraits:
    """Return traits with only the lengths filled in."""
    lengths = np.array([len(word_of(term)) for term in terms], dtype=np.float64)
    return no_traits(len(terms))._replace(lengths=lengths)


def traits_of(terms: Sequence[str]) -> TermTraits:
    """Return the traits of terms, tagged or not; the first call loads jieba's dictionary."""
    return TermTraits(
        lengths_of(terms).lengths,
        np.array([_is_main(*term.partition(TAG_MARK)) for term in terms], dtype=np.bool_),
        np.array([word_of(term) in CUE_TERMS for term in terms], dtype=np.bool_),
    )


def word_of(term: str) -> str:
    return term.partition(TAG_MARK)[0]


def traits_identity() -> str:
    """Return the identity of the dictionary and of the list of cues."""
    return f"jieba-{version('jieba')}+{CUE_TERMS_VERSION}"


def _is_main(word: str, mark: str, tag: str) -> bool:
    return tag.startswith(_NOUNS_AND_VERBS) if mark else word in _main_words()


@cache
def _main_words() -> frozenset[str]:
    """Return the nouns and verbs of jieba's dictionary, whose lines are word, count, tag."""
    lines = read_jieba_file("dict.txt").decode("utf-8").splitlines()
    parts = (line.split(" ") for line in lines)
    return frozenset(
        normalize(word) for word, _count, tag in parts if tag.startswith(_NOUNS_AND_VERBS)
    )
