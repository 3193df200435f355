"""Random draws that mean the same on every machine and every Python version.

Python promises that `random.Random(seed).random()` repeats its sequence for ever; it promises
nothing of the kind for `choice`, `sample` or `shuffle`. So every draw here is built on `random()`
alone, and a demo stream is the same wherever it is made.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")

_MIN_FOR_RESTS = 4


def integer(rng: random.Random, low: int, high: int) -> int:
    """Draw a whole number from `low` to `high`, both included."""
    return low + int(rng.random() * (high - low + 1))


def chance(rng: random.Random, probability: float) -> bool:
    """Draw True with this probability."""
    return rng.random() < probability


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    """Draw one of the items, each with the same probability."""
    return items[int(rng.random() * len(items))]


def pick_skewed(rng: random.Random, items: Sequence[Item]) -> Item:
    """Draw one of the items, the first ones far more often than the last.

    The squared draw gives the n-th item a probability near 1/sqrt(n): the long tail that names and
    the words of one article have.
    """
    return items[int(rng.random() ** 2 * len(items))]


def shuffled(rng: random.Random, items: Sequence[Item]) -> list[Item]:
    """Return the items in a random order (Fisher and Yates)."""
    order = list(items)
    for last in range(len(order) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    """Draw a whole number from `low` to `high` whose order of magnitude is uniform."""
    return min(high, int(low * (high / low) ** rng.random()))


class Deck(Generic[Item]):
    """Draws without repetition: each item once, in random order, then all of them again.

    An article that has 8 quotations to choose from must not say one of them twice. The order is
    drawn lazily, since most articles use a few items of each deck. Where the deck begins again,
    the last two items sit the round out, so that no list reads "a, b and a".
    """

    __slots__ = ("_drawn", "_items", "_left", "_rng")

    def __init__(self, rng: random.Random, items: Sequence[Item]) -> None:
        """Hold the items, at least one; they are not copied before the first draw."""
        self._rng = rng
        self._items = items
        self._left: list[Item] = []
        self._drawn: tuple[Item, ...] = ()

    def draw(self) -> Item:
        """Take the next item."""
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
