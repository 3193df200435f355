"""The records that the feed sends, in order; they are drawn from a seed.

Documents come in clusters: a text and copies of it, some at the same time in other partitions, some
a little later, some much later. In an archive one record is one minute of the stream, so that a
window of days passes in seconds. Some documents are late, have a scope, or replace an earlier one;
some are tombstones.

Two excerpts differ in 85 or more of 256 bits; edits in one to six places change a fingerprint by 10
to 70 bits. So at a distance of 48, copies are on both sides of the threshold, and nearness is not
transitive within a cluster. This is the hard case.
"""

from __future__ import annotations

import heapq
import json
import random
import re
from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from itertools import count
from typing import NamedTuple

from streams.corpus.articles import write_article
from streams.corpus.language import LANGUAGES

AT_ONCE = 4
SOON = 400
VIRAL_COPIES = (30, 80)
LATE = 0.1
SCOPES = ("", "a", "b")
SCOPE_SHARES = (80, 10, 10)
OTHER_SCOPE = 0.05
REPLACES = 0.06
ELSEWHERE = 0.2
NAMED = 2_000
VIRAL_WITHIN = 120
KEYLESS = 0.2
BROKEN = (
    b"\xff\xfe not UTF-8 \xc3\x28",
    b'{"id": "cut", "text": "it ends in the mid',
    b'["no", "object"]',
    b'{"id": "silent"}',
    b'{"text": 17}',
    b"",
    None,
)

SHORTEST = 100
LONGEST = 220
SPOTS_MAX = 6
SPOT_CHARACTERS = (1, 2, 2, 4, 8)
SHORT_CHARACTERS = (2, 9)
REMEMBERED = 200


class Kind(StrEnum):
    EDITED = "edited"
    EXACT = "exact"
    SHORT = "short"
    BROKEN = "broken"
    DELETE = "delete"
    VIRAL = "viral"


SHARES = {
    Kind.EDITED: 0.70,
    Kind.EXACT: 0.10,
    Kind.SHORT: 0.155,
    Kind.BROKEN: 0.04,
    Kind.DELETE: 0.04,
    Kind.VIRAL: 0.005,
}


class Times(NamedTuple):
    """The times of documents: of the first one, between two, and how late one may be."""

    start_ms: int
    step_ms: float
    late_ms: int


ARCHIVE = Times(1_714_536_000_000, 60_000, 5 * 3_600_000)
"""One record is one minute of an earlier year."""


class Planned(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None

    @property
    def is_delete(self) -> bool:
        """Whether the record removes the documents with its key."""
        return self.value is None and bool(self.key)


class Texts:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._language = LANGUAGES["zh"]
        self._left: list[str] = []
        self._written: deque[str] = deque(maxlen=REMEMBERED)

    def excerpt(self) -> str:
        """Return a text of a few sentences that is near to no other."""
        while not self._left:
            topic = self._rng.choice(self._language.topics)
            article = write_article(self._rng, self._language, topic)
            self._left = _excerpts(article.text)
        text = self._left.pop()
        self._written.append(text)
        return text

    def short(self) -> str:
        """Return a text that is too short for a fingerprint; some are repeated by chance."""
        text = self.excerpt()
        start = self._rng.randrange(len(text) - SHORT_CHARACTERS[1])
        return text[start : start + self._rng.randint(*SHORT_CHARACTERS)]

    def edited(self, text: str) -> str:
        """Return a copy in which some parts come from other texts."""
        for _ in range(self._rng.randint(1, SPOTS_MAX)):
            size = self._rng.choice(SPOT_CHARACTERS)
            other = self._rng.choice(self._written)
            there = self._rng.randrange(max(1, len(other) - size))
            here = self._rng.randrange(max(1, len(text) - size))
            text = text[:here] + other[there : there + size] + text[here + size :]
        return text


def _excerpts(article: str) -> list[str]:
    """Cut an article at its sentences; the rest at the end is dropped."""
    excerpts, current = [], ""
    for sentence in re.findall(r"[^。]+。", article.replace("\n", "")):
        current += sentence
        if len(current) >= SHORTEST:
            excerpts.append(current[:LONGEST])
            current = ""
    return excerpts


class _Copy(NamedTuple):
    due: int
    number: int
    text: str
    partition: int
    scope: str


class Plan:
    def __init__(self, seed: int, documents: int, partitions: int, times: Times = ARCHIVE) -> None:
        self._times = times
        self._rng = random.Random(seed)
        self._texts = Texts(self._rng)
        self._documents = documents
        self._partitions = partitions
        self._copies: list[_Copy] = []
        self._numbers = count()
        self._names: deque[tuple[str, int]] = deque(maxlen=NAMED)

    def __iter__(self) -> Iterator[Planned]:
        for position in range(self._documents):
            if self._copies and self._copies[0].due <= position:
                copy = heapq.heappop(self._copies)
                yield self._document(position, copy.text, copy.partition, copy.scope)
            else:
                yield self._cluster(position)

    def _cluster(self, position: int) -> Planned:
        """Begin a cluster: its first record, and its copies for later."""
        rng = self._rng
        kind = rng.choices(list(SHARES), list(SHARES.values()))[0]
        partition = rng.randrange(self._partitions)
        if kind is Kind.BROKEN:
            return Planned(partition, None, rng.choice(BROKEN))
        if kind is Kind.DELETE:
            return self._delete(position, partition)
        scope = rng.choices(SCOPES, SCOPE_SHARES)[0]
        text = self._texts.short() if kind is Kind.SHORT else self._texts.excerpt()
        copied = text
        for _ in range(self._size(kind)):
            if kind in {Kind.EDITED, Kind.VIRAL}:
                # Sometimes it copies the copy before: then two texts may be near to it, but not to
                # each other.
                copied = self._texts.edited(rng.choice((text, copied)))
            others = [p for p in range(self._partitions) if p != partition]
            copy = _Copy(
                position + self._gap(kind, position),
                next(self._numbers),
                copied,
                rng.choice(others or [partition]),
                rng.choice(SCOPES) if rng.random() < OTHER_SCOPE else scope,
            )
            heapq.heappush(self._copies, copy)
        return self._document(position, text, partition, scope)

    def _delete(self, position: int, partition: int) -> Planned:
        """Return a tombstone for a recent document, mostly in the same partition, or for none."""
        name, where = f"t{position:07d}", partition
        if self._names:
            name, where = self._rng.choice(self._names)
        if self._rng.random() < ELSEWHERE:
            where = partition
        return Planned(where, name.encode(), None)

    def _size(self, kind: Kind) -> int:
        if kind is Kind.VIRAL:
            return self._rng.randint(*VIRAL_COPIES)
        return self._rng.choices(range(6), (40, 25, 15, 10, 6, 4))[0]

    def _gap(self, kind: Kind, position: int) -> int:
        rng = self._rng
        if kind is Kind.VIRAL:
            return rng.randint(1, VIRAL_WITHIN)
        farthest = max(1, self._documents - position - 1)
        longest = rng.choices((AT_ONCE, SOON, farthest), (60, 20, 20))[0]
        return rng.randint(1, longest)

    def _document(self, position: int, text: str, partition: int, scope: str) -> Planned:
        rng = self._rng
        name = f"t{position:07d}"
        if self._names and rng.random() < REPLACES:
            name, _ = rng.choice(self._names)
        self._names.append((name, partition))
        key = None if rng.random() < KEYLESS else name.encode()
        start_ms, step_ms, late_ms = self._times
        time_ms = start_ms + int(position * step_ms)
        if rng.random() < LATE:
            time_ms -= rng.randrange(late_ms)
        fields = {"id": name, "text": text, "timestamp": time_ms, "scope": scope}
        value = json.dumps(fields, ensure_ascii=False)
        return Planned(partition, key, value.encode())
