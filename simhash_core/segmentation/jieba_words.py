"""Chinese words by jieba: a prefix dictionary, the most probable path, an HMM for new words."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def load() -> tuple[str, Callable[[str], Sequence[str]]]:
    """Return the identity and the cut function of jieba with its own dictionary."""
    import jieba

    # jieba reports on standard error that it builds its dictionary: that is for the program to say.
    jieba.setLogLevel("WARNING")
    tokenizer = jieba.Tokenizer()
    tokenizer.initialize()
    return f"jieba-{jieba.__version__}", tokenizer.lcut
