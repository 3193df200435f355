"""The ``simhash`` library (1e0ng), 64 bits: what a Python user finds first.

``jieba``: it is fed words and their counts, which is its weighted form, and faster than the words
one by one. ``ngrams``: it is given the text, and takes runs of four characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def load(variant: str) -> Callable[[Sequence[str]], int]:
    """Return the work: fingerprints of texts; it returns how many."""
    # Only the environment of the peers has it, and type checkers do not look there.
    simhash: Any = import_module("simhash").Simhash
    features = _words() if variant == "jieba" else _whole

    def work(texts: Sequence[str]) -> int:
        return sum(simhash(features(text)).value is not None for text in texts)

    return work


def _words() -> Callable[[str], Mapping[str, int]]:
    jieba: Any = import_module("jieba")
    jieba.setLogLevel("WARNING")
    jieba.initialize()
    return lambda text: Counter(jieba.lcut(text))


def _whole(text: str) -> str:
    return text
