"""Texts for the stream: excerpts of written articles, and copies of them that were edited.

Two excerpts are some 125 of 256 bits apart, and 85 at least; an edit of one to six spots moves a
text by 10 to 70 bits. So with a distance of 48 copies lie on both sides of the threshold, and
nearness is not transitive within a cluster, which is the hard case.
"""

from __future__ import annotations

import random
import re
from collections import deque

from streams.corpus.articles import write_article
from streams.corpus.language import LANGUAGES

SHORTEST = 100
LONGEST = 220
SPOTS_MAX = 6
SPOT_CHARACTERS = (1, 2, 2, 4, 8)
SHORT_CHARACTERS = (2, 9)
REMEMBERED = 200


class Texts:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._language = LANGUAGES["zh"]
        self._left: list[str] = []
        self._written: deque[str] = deque(maxlen=REMEMBERED)

    def excerpt(self) -> str:
        """A text of a few sentences, near to no other."""
        while not self._left:
            topic = self._rng.choice(self._language.topics)
            article = write_article(self._rng, self._language, topic)
            self._left = _excerpts(article.text)
        text = self._left.pop()
        self._written.append(text)
        return text

    def short(self) -> str:
        """A text with too little in it for a fingerprint; some come again by chance."""
        text = self.excerpt()
        start = self._rng.randrange(len(text) - SHORT_CHARACTERS[1])
        return text[start : start + self._rng.randint(*SHORT_CHARACTERS)]

    def edited(self, text: str) -> str:
        """A copy in which a few spots hold what stands in other texts."""
        for _ in range(self._rng.randint(1, SPOTS_MAX)):
            size = self._rng.choice(SPOT_CHARACTERS)
            other = self._rng.choice(self._written)
            there = self._rng.randrange(max(1, len(other) - size))
            here = self._rng.randrange(max(1, len(text) - size))
            text = text[:here] + other[there : there + size] + text[here + size :]
        return text


def _excerpts(article: str) -> list[str]:
    """Cut an article at its sentences; what is left over at the end is dropped."""
    excerpts, current = [], ""
    for sentence in re.findall(r"[^。]+。", article.replace("\n", "")):
        current += sentence
        if len(current) >= SHORTEST:
            excerpts.append(current[:LONGEST])
            current = ""
    return excerpts
