"""Segmenters: normalised text to terms, by name.

A segmenter is a pure function from text to its terms in order, repeats included. Its name carries
the version of what it was made with, because the index identity must change when the terms may.
Terms without a letter or a digit are left in: ``is_feature`` says which of them count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from simhash_core.errors import UnknownNameError
from simhash_core.text.segmentation import jieba_posseg, jieba_words, ngrams, rjieba_words, words
from simhash_core.text.user_dictionary import UserDictionary

Cut = Callable[[str], Sequence[str]]
CutAll = Callable[[Sequence[str]], Iterator[Sequence[str]]]


SEPARATORS: Final = (
    " ,;:!?()[]{}<>\"'/\\|*=@$^~`"
    "\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026\u00b7"
    "\u3001\u3002\u3008\u3009\u300a\u300b\u300c\u300d\u300e\u300f"
    "\u3010\u3011\u3014\u3015\u3016\u3017"
)
"""Characters that every dictionary segmenter makes a term of its own, whatever stands beside them.

None of them is a feature. Not all that there are: what a normalised text often has.
"""


class Segmenter(NamedTuple):
    """A segmenter and the name that stands for it in the index identity.

    ``cut_all`` gives the terms of one text after the other: they are thousands of strings, best
    used and let go before the next ones are made. ``separators``: characters at which a text may be
    divided, and what is between them cut by itself, without a change to its features; empty where
    there are none.
    """

    identity: str
    cut_all: CutAll
    separators: str = ""

    def cut(self, text: str) -> Sequence[str]:
        """Return the terms of one text."""
        return next(self.cut_all([text]))


class _Kind(NamedTuple):
    """How a segmenter is loaded.

    ``of_any_script``: whether runs of other scripts than Han and ASCII are cut by ``words``.
    ``separators``: as of ``Segmenter``.
    """

    load: Callable[[UserDictionary | None], tuple[str, Cut]]
    of_any_script: bool = False
    separators: str = SEPARATORS


_BY_NAME: Final[Mapping[str, _Kind]] = {
    "words": _Kind(rjieba_words.load, of_any_script=True),
    "rjieba": _Kind(rjieba_words.load),
    "jieba": _Kind(jieba_words.load),
    "jieba-posseg": _Kind(jieba_posseg.load, of_any_script=True),
    "ngrams": _Kind(ngrams.load, separators=""),
}
SEGMENTERS: Final = tuple(_BY_NAME)
WITHOUT_DICTIONARY: Final = frozenset({"ngrams"})
"""Segmenters that have no dictionary to which words could be added."""


def load_segmenter(name: str, user_dictionary: UserDictionary | None = None) -> Segmenter:
    """Return the segmenter called ``name``; its dictionary is loaded here, not at import.

    A segmenter of ``WITHOUT_DICTIONARY`` leaves a user dictionary unread. Raises
    ``UnknownNameError`` for a name that is not in ``SEGMENTERS``.
    """
    if name not in _BY_NAME:
        raise UnknownNameError("segmenter", name, SEGMENTERS)
    kind = _BY_NAME[name]
    identity, cut = kind.load(user_dictionary)
    if name == "words":
        identity = f"{words.VERSION}/{identity}"
    if user_dictionary is not None:
        identity += f"+{user_dictionary.identity}"
    if kind.of_any_script:
        return Segmenter(identity, partial(words.cut_all, dictionary=cut), kind.separators)
    return Segmenter(identity, lambda texts: map(cut, texts), kind.separators)


def is_feature(term: str) -> bool:
    """Whether a term says anything: it has a letter or a digit (in any script)."""
    return term.isalnum() or any(c.isalnum() for c in term)
