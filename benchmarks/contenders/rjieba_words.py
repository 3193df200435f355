"""rjieba: segmentation alone, without a fingerprint. What no fingerprint made of it can beat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import rjieba


def load(_variant: str) -> Callable[[Sequence[str]], int]:
    """Return the work: segment texts; it returns how many."""
    cut = rjieba.Jieba().cut

    def work(texts: Sequence[str]) -> int:
        return sum(cut(text) is not None for text in texts)

    return work
