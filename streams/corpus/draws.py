"""Random draws that are the same on every machine and Python version.

Python guarantees the sequence of ``random()`` for a seed, but not that of ``choice``, ``sample`` or
``shuffle``; so every draw uses ``random()`` alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")

_MIN_FOR_RESTS = 4


def integer(rng: random.Random, low: int, high: int) -> int:
    """Draw a whole number from ``low`` to ``high``, both included."""
    return low + int(rng.random() * (high - low + 1))


def chance(rng: random.Random, probability: float) -> bool:
    return rng.random() < probability


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    return items[int(rng.random() * len(items))]


def pick_skewed(rng: random.Random, items: Sequence[Item]) -> Item:
    """Draw one item, the first ones more often: the n-th has a probability near 1/sqrt(n)."""
    return items[int(rng.random() ** 2 * len(items))]


def shuffled(rng: random.Random, items: Sequence[Item]) -> list[Item]:
    """Return the items in random order (Fisher and Yates)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    """Draw a whole number whose order of magnitude is uniform."""
    return min(high, int(low * (high / low) ** rng.random()))


class Deck(Generic[Item]):
    """Draws each item once, in random order, then all of them again.

    The last two items sit out the beginning of the next round.
    """

    __slots__ = ("_drawn", "_items", "_left", "_rng")

    def __init__(self, rng: random.Random, items: Sequence[Item]) -> None:
        self._rng = rng
        self._items = items
        self._left: list[Item] = []
        self._drawn: tuple[Item, ...] = ()

    def draw(self) -> Item:
        left = self._left
        if not left:
            left.extend(self._items)
            if len(left) > _MIN_FOR_RESTS:
                for item in self._drawn:
                    left.remove(item)
        index = int(self._rng.random() * len(left))
        left[index], left[-1] = left[-1], left[index]
        item = left.pop()
        self._drawn = (*self._drawn[-1:], item)
        return item
