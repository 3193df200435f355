"""The documents of the contest: Chinese texts of one length, the same ones each time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice

from benchmarks.contest.shapes import COPIED_SHARE, COPIES, DISTINCT
from benchmarks.texts import CHARACTERS, SEED, generated_documents, with_copies

_PHRASE_CHARACTERS = 12


def streams(count: int) -> dict[str, list[str]]:
    """Return so many documents for each stream of the contest, by its name."""
    texts = generated_documents(count, CHARACTERS)
    return {DISTINCT: texts, COPIES: with_copies(texts, COPIED_SHARE)}


def shuffled(texts: Sequence[str], characters: int) -> Iterator[str]:
    """Write distinct documents without end, each of phrases of these texts in no order.

    They are for what needs many documents: they take a fiftieth of the time of generated ones.
    """
    chance = random.Random(SEED)
    phrases = [
        text[start : start + _PHRASE_CHARACTERS]
        for text in texts
        for start in range(0, len(text) - _PHRASE_CHARACTERS, _PHRASE_CHARACTERS)
    ]
    while True:
        yield "".join(chance.choices(phrases, k=characters // _PHRASE_CHARACTERS))


def taken(texts: Iterator[str], count: int) -> list[str]:
    """Take the next documents of a stream."""
    return list(islice(texts, count))
