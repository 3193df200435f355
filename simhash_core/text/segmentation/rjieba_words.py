"""The same words by rjieba, jieba's algorithm and dictionary in Rust: 8 to 16 times as fast.

It cuts about 2 % of Chinese documents a little differently (e.g. "010-12306"), hence a segmenter
with an identity of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version

from simhash_core.text.user_dictionary import UserDictionary


def load(words: UserDictionary | None) -> tuple[str, Callable[[str], Sequence[str]]]:
    """Return the identity and the cut function of rjieba with its dictionary and ``words``."""
    import rjieba

    segmenter = rjieba.Jieba()
    if words is not None:
        for word in words.words:
            segmenter.add_word(word.text, word.frequency, word.tag)
    return f"rjieba-{version('rjieba')}", segmenter.cut
