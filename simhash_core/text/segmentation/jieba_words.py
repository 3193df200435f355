"""Chinese words by jieba: a prefix dictionary, the most probable path, an HMM for new words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simhash_core.text.user_dictionary import UserDictionary


def load(words: UserDictionary | None) -> tuple[str, Callable[[str], Sequence[str]]]:
    """Return the identity and the cut function of jieba with its own dictionary and ``words``."""
    import jieba

    cut: Callable[[str], Sequence[str]] = tokenizer(words).lcut
    return f"jieba-{jieba.__version__}", cut


def tokenizer(words: UserDictionary | None) -> Any:  # noqa: ANN401 - jieba has no types
    """Return a tokenizer of its own, its dictionary loaded."""
    import jieba

    # jieba reports on standard error that it builds its dictionary: that is for the program to say.
    jieba.setLogLevel("WARNING")
    jieba_tokenizer = jieba.Tokenizer()
    jieba_tokenizer.initialize()
    if words is not None:
        for word in words.words:
            jieba_tokenizer.add_word(word.text, word.frequency, word.tag)
    return jieba_tokenizer
