"""Segmenters: normalised text to terms, by name.

A segmenter is a pure function from text to its terms in order, repeats included. Its name carries
the version of what it was made with, because the index identity must change when the terms may.
Terms without a letter or a digit are left in: ``is_feature`` says which of them count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from simhash_core.errors import UnknownNameError
from simhash_core.segmentation import jieba_words, ngrams, rjieba_words

Cut = Callable[[str], Sequence[str]]


class Segmenter(NamedTuple):
    """A segmenter and the name that stands for it in the index identity."""

    identity: str
    cut: Cut


_LOADERS: Final[Mapping[str, Callable[[], tuple[str, Cut]]]] = {
    "rjieba": rjieba_words.load,
    "jieba": jieba_words.load,
    "ngrams": ngrams.load,
}
SEGMENTERS: Final = tuple(_LOADERS)


def load_segmenter(name: str) -> Segmenter:
    """Return the segmenter called ``name``; its dictionary is loaded here, not at import.

    Raises ``UnknownNameError`` for a name that is not in ``SEGMENTERS``.
    """
    if name not in _LOADERS:
        raise UnknownNameError("segmenter", name, SEGMENTERS)
    return Segmenter(*_LOADERS[name]())


def is_feature(term: str) -> bool:
    """Whether a term says anything: it has a letter or a digit (in any script)."""
    return any(c.isalnum() for c in term)
