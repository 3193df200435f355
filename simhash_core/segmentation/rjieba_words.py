"""The same words by rjieba, jieba's algorithm and dictionary in Rust: 8 to 16 times as fast.

It cuts about 2 % of Chinese documents a little differently (e.g. "010-12306"), hence a segmenter
with an identity of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version


def load() -> tuple[str, Callable[[str], Sequence[str]]]:
    """Return the identity and the cut function of rjieba with its built-in dictionary."""
    import rjieba

    return f"rjieba-{version('rjieba')}", rjieba.Jieba().cut
