"""The documents of the contest: Chinese texts of one length, the same ones each time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from benchmarks.contest.shapes import COPIED_SHARE, COPIES, DISTINCT
from benchmarks.texts import CHARACTERS, SEED, generated_documents, with_copies

_CLAUSE = re.compile(r"[^，。！？；：\s]+[，。！？；：]")


def streams(count: int) -> dict[str, list[str]]:
    """Return so many documents for each stream of the contest, by its name."""
    texts = generated_documents(count, CHARACTERS)
    return {DISTINCT: texts, COPIES: with_copies(texts, COPIED_SHARE)}


def shuffled(texts: Sequence[str], characters: int) -> Iterator[str]:
    """Write distinct documents without end, each of whole clauses of these texts in no order.

    They are for what needs many documents: they take a fiftieth of the time of generated ones, and
    have the same words, so that their fingerprints cost the same.
    """
    chance = random.Random(SEED)
    clauses = [clause for text in texts for clause in _CLAUSE.findall(text)]
    while True:
        text = ""
        while len(text) < characters:
            text += chance.choice(clauses)
        yield text[:characters]


def taken(texts: Iterator[str], count: int) -> list[str]:
    """Take the next documents of a stream."""
    return list(islice(texts, count))
