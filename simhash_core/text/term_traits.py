"""What can be said of a term by itself: how long it is, what part of speech, whether it is a cue.

Some weightings look at these; they belong to the term, so each is worked out once and kept in the
lexicon's columns. A segmenter that tags its terms puts ``TAG_MARK`` and the tag after the word;
normalised texts do not have the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.cue_terms import CUE_TERMS, VERSION
from simhash_core.text.jieba_files import read_jieba_file
from simhash_core.text.normalization import normalize

TAG_MARK: Final = "\x1f"

_NOUNS_AND_VERBS: Final = ("n", "v")


class TermTraits(NamedTuple):
    """One row a term in each column.

    ``lengths``: characters, float64. ``is_main``: whether it is a noun or a verb, bool. ``is_cue``:
    whether it announces what matters (``simhash_core.text.cue_terms``), bool.
    """

    lengths: NDArray[np.float64]
    is_main: NDArray[np.bool_]
    is_cue: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> TermTraits:
        """Return the traits of these rows."""
        return TermTraits(self.lengths[rows], self.is_main[rows], self.is_cue[rows])


TraitsOf = Callable[[Sequence[str]], TermTraits]


def no_traits(rows: int) -> TermTraits:
    """Return so many rows of nothing."""
    empty = np.zeros(rows, dtype=np.bool_)
    return TermTraits(np.zeros(rows), empty, empty.copy())


def lengths_of(terms: Sequence[str]) -> TermTraits:
    """Return the traits of terms with the lengths alone filled in."""
    lengths = np.array([len(word_of(term)) for term in terms], dtype=np.float64)
    return no_traits(len(terms))._replace(lengths=lengths)


def traits_of(terms: Sequence[str]) -> TermTraits:
    """Return the traits of terms, tagged or not; loads jieba's dictionary at the first call."""
    return TermTraits(
        lengths_of(terms).lengths,
        np.array([_is_main(*term.partition(TAG_MARK)) for term in terms], dtype=np.bool_),
        np.array([word_of(term) in CUE_TERMS for term in terms], dtype=np.bool_),
    )


def word_of(term: str) -> str:
    """Return a term without its tag."""
    return term.partition(TAG_MARK)[0]


def traits_identity() -> str:
    """Return what names the dictionary that parts of speech come from, and the list of cues."""
    return f"jieba-{version('jieba')}+{VERSION}"


def _is_main(word: str, mark: str, tag: str) -> bool:
    return tag.startswith(_NOUNS_AND_VERBS) if mark else word in _main_words()


@cache
def _main_words() -> frozenset[str]:
    """Return the words that jieba's dictionary has as nouns or verbs: lines of word, count, tag."""
    lines = read_jieba_file("dict.txt").decode("utf-8").splitlines()
    parts = (line.split(" ") for line in lines)
    return frozenset(
        normalize(word) for word, _count, tag in parts if tag.startswith(_NOUNS_AND_VERBS)
    )
