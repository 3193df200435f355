"""What a single worker would answer that reads the log in order: by brute force, without an index.

A document is a duplicate of the nearest unique one before it that is near, of equals the earliest.
Near are two documents within the distance that share a block and are confirmed; undecidable ones
are where their contents are equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.rigs.invariants import Known, Nearness

ROWS_A_STEP = 64


class OneReader:
    """Answers for documents, given in the order of the log."""

    def __init__(self, near: Nearness) -> None:
        self._near = near
        self._uniques: list[tuple[str, Known]] = []
        self._words = np.zeros((near.scheme.bits // 64, 1024), dtype=np.uint64)
        self._contents: dict[bytes, str] = {}

    def answers(self, order: Sequence[str], known: Mapping[str, Known]) -> dict[str, str | None]:
        """The original of each document, None for a unique."""
        answers: dict[str, str | None] = {}
        for start in range(0, len(order), ROWS_A_STEP):
            names = order[start : start + ROWS_A_STEP]
            before = self._before([known[name].fingerprint for name in names])
            first = len(self._uniques)
            for row, name in enumerate(names):
                found = known[name]
                if found.fingerprint is None:
                    answers[name] = self._contents.get(found.content_digest)
                    self._contents.setdefault(found.content_digest, name)
                    continue
                answers[name] = self._nearest(found, [*before[row], *self._since(first, found)])
                if answers[name] is None:
                    self._add(name, found)
        return answers

    def _before(self, prints: Sequence[bytes | None]) -> dict[int, list[tuple[int, int]]]:
        """Distance and number of the uniques within the distance, for each of some fingerprints."""
        rows = [row for row, each in enumerate(prints) if each is not None]
        part = _words([prints[row] or b"" for row in rows], len(self._words))
        uniques = self._words[:, : len(self._uniques)]
        distances: NDArray[np.uint16] = np.zeros((len(rows), len(self._uniques)), np.uint16)
        for word, column in enumerate(uniques):
            distances += np.bitwise_count(part[:, word, None] ^ column)
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for at, number in zip(*np.nonzero(distances <= self._near.scheme.distance), strict=True):
            found[rows[at]].append((int(distances[at, number]), int(number)))
        return found

    def _since(self, first: int, document: Known) -> list[tuple[int, int]]:
        """The same of one document, and of uniques that were added since."""
        mine = int.from_bytes(document.fingerprint or b"")
        found = []
        for number in range(first, len(self._uniques)):
            other = int.from_bytes(self._uniques[number][1].fingerprint or b"")
            distance = (mine ^ other).bit_count()
            if distance <= self._near.scheme.distance:
                found.append((distance, number))
        return found

    def _nearest(self, document: Known, candidates: list[tuple[int, int]]) -> str | None:
        for distance, number in sorted(candidates):
            name, other = self._uniques[number]
            shared = self._near.share_a_bucket(document, other)
            if shared and self._near.confirms(distance, document, other):
                return name
        return None

    def _add(self, name: str, document: Known) -> None:
        count, room = len(self._uniques), self._words.shape[1]
        if count == room:
            self._words = np.concatenate([self._words, np.zeros_like(self._words)], axis=1)
        self._words[:, count] = _words([document.fingerprint or b""], len(self._words))[0]
        self._uniques.append((name, document))


def _words(prints: Sequence[bytes], words: int) -> NDArray[np.uint64]:
    """Fingerprints as rows of 64-bit words."""
    return np.frombuffer(b"".join(prints), np.uint64).reshape(len(prints), words)
