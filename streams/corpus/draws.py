"""Random draws that are the same on every machine and Python version.

Python guarantees the sequence of ``random()`` for a seed, but not that of ``choice``, ``sample`` or
``shuffle``; so every draw uses ``random()`` alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

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


def deck(rng: random.Random, items: Sequence[Item]) -> Iterator[Item]:
    """Yield all items in random order, round after round; a round's last two do not come first."""
    order: list[Item] = []
    while True:
        last, order = order[-2:], shuffled(rng, items)
        while len(order) > _MIN_FOR_RESTS and any(item in last for item in order[:2]):
            order = shuffled(rng, items)
        yield from order
