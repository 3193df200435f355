"""Overlapping runs of four characters, for languages that no dictionary here covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

WIDTH: Final = 4


def load(_words: object = None) -> tuple[str, Callable[[str], Sequence[str]]]:
    """Return the identity and the cut function of character 4-grams."""
    return f"ngrams-{WIDTH}", cut


def cut(text: str) -> Sequence[str]:
    """Return each run of four characters, white space left out; a shorter text is one run."""
    packed = "".join(text.split())
    if len(packed) <= WIDTH:
        return [packed] if packed else []
    return [packed[i : i + WIDTH] for i in range(len(packed) - WIDTH + 1)]
