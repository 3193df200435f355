"""What the plain recipes share: a 64-bit SimHash of the words of a text, in four blocks.

``simhash`` from PyPI with the words of ``jieba`` and their counts, as it is meant to be used. Near
is a distance of at most 3, so near documents share a block.
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
"""A document that was seen: its fingerprint and its id."""


def load() -> None:
    """Load the dictionary now, and not at the first document."""
    jieba.setLogLevel("WARNING")
    jieba.initialize()


def fingerprint(text: str) -> int:
    return int(Simhash(Counter(jieba.lcut(text))).value)


def blocks(value: int) -> list[str]:
    mask = (1 << _BLOCK_BITS) - 1
    return [f"{block}-{value >> block * _BLOCK_BITS & mask}" for block in range(_BLOCKS)]


def nearest(value: int, candidates: Iterable[Seen]) -> str | None:
    """Return the id of the nearest candidate that is near, None if there is none."""
    near = [((value ^ other).bit_count(), name) for other, name in candidates]
    distance, name = min(near, default=(DISTANCE + 1, ""))
    return name if distance <= DISTANCE else None
