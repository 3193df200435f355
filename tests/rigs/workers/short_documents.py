"""Thousands of short documents of invented words, in which near-duplicates follow closely.

About four of ten documents are edits of an earlier one, mostly of one of the last few, which is
then still undecided. Edits of edits drift, so that some are near to several uniques or to none.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice, product

from tests.rigs.workers.stream_outputs import Raw

WORDS = tuple(map("".join, product("bdfgklmnprstvz", "aeiou", "lmnrst", "aeiou")))
WORDS_A_TEXT = (28, 50)
COPY, SHORT, BROKEN = 0.40, 0.06, 0.02
LAST_FEW = 30
START_MS = 1_709_251_200_000


def short_documents(rng: random.Random, count: int) -> Iterator[Raw]:
    """Yield ``count`` raw records: texts, edits of texts, posts of a few words, broken records."""
    texts: list[list[str]] = []
    for number in range(count):
        key = f"doc-{number:06d}"
        drawn = rng.random()
        if drawn < BROKEN:
            value = b'{"text": '
        elif drawn < BROKEN + SHORT:
            value = _json(key, [rng.choice(WORDS[:40]), rng.choice(WORDS[:40])])
        else:
            copied = drawn < BROKEN + SHORT + COPY and texts
            words = _edited(rng, texts) if copied else _written(rng)
            texts.append(words)
            value = _json(key, words)
        yield Raw(key.encode(), value, timestamp_ms=START_MS + number)


def _written(rng: random.Random) -> list[str]:
    return rng.choices(WORDS, k=rng.randint(*WORDS_A_TEXT))


def _edited(rng: random.Random, texts: list[list[str]]) -> list[str]:
    """Return an earlier text, mostly one of the last few, with up to three words replaced."""
    recent = rng.random() < 0.8
    words = list(rng.choice(texts[-LAST_FEW:] if recent else texts))
    for _ in range(rng.randint(0, 3)):
        words[rng.randrange(len(words))] = rng.choice(WORDS)
    return words


def _json(key: str, words: list[str]) -> bytes:
    return json.dumps({"id": key, "text": " ".join(words)}).encode()


def keyed_documents(seed: int, count: int) -> list[Raw]:
    made = islice(short_documents(random.Random(seed), count), count)
    return [raw._replace(key=b"%d-%s" % (seed, raw.key)) for raw in made]
