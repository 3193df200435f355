"""The shared part of the plain recipes: a 64-bit SimHash of the words of a text, in four blocks.

They use ``simhash`` from PyPI with the words of ``jieba`` and their counts. Documents are near up
to a distance of 3, so near documents share a block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import jieba
from simhash import Simhash  # type: ignore[import-not-found]

DISTANCE: Final = 3

_BLOCKS: Final = 4
_BLOCK_BITS: Final = 16

Seen = tuple[int, str]
"""An earlier document: its fingerprint and its id."""


def load() -> None:
    """Load the dictionary now, not with the first document."""
    jieba.setLogLevel("WARNING")
    jieba.initialize()


def fingerprint(text: str) -> int:
    return int(Simhash(Counter(jieba.lcut(text))).value)


def blocks(value: int) -> list[str]:
    mask = (1 << _BLOCK_BITS) - 1
    return [f"{block}-{value >> block * _BLOCK_BITS & mask}" for block in range(_BLOCKS)]


def nearest(value: int, candidates: Iterable[Seen]) -> str | None:
    """Return the id of the nearest candidate within the distance, or None."""
    near = [((value ^ other).bit_count(), name) for other, name in candidates]
    distance, name = min(near, default=(DISTANCE + 1, ""))
    return name if distance <= DISTANCE else None
