"""Known sketches: many entries are compared with a document at once, without reading them.

Texts of one template are often within the distance of each other, but not similar: all of them are
unique documents. One look-up then has thousands of pairs, and reading each entry from its store and
comparing it alone takes some microseconds. So the sketches of entries that were found not to be
similar are kept in memory, a limited number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import BytesColumn
from simhash_core.index.pairs import Pairs
from simhash_core.text.verification import Verifier

MANY: Final = 16  # pairs of one document that are worth the arrays
_CAPACITY: Final = 1 << 16  # sketches, of 256 bytes each
_FIRST_CAPACITY: Final = 256
_TOGETHER: Final = 512  # pairs, whose sketches fit the processor's cache
_FIRST_ROW: Final = np.zeros(1, dtype=np.intp)


class KnownSketches:
    """Sketches by sequence number; the oldest ones are replaced."""

    def __init__(self, verifier: Verifier | None) -> None:
        self._verifier = verifier
        self._words: NDArray[np.uint64] | None = None  # (places, words)
        self._place_of: dict[int, int] = {}
        self._sequences: list[int] = []  # by place
        self._next = 0

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._place_of

    def note(self, sequence: int, sketch: bytes) -> None:
        """Keep a sketch, unless it cannot be compared with others at once."""
        if self._verifier is None or sequence in self:
            return
        words = self._verifier.words(BytesColumn.of([sketch]), _FIRST_ROW)
        if words is None:
            return
        place = self._next
        if self._words is None:
            self._words = np.zeros((_FIRST_CAPACITY, words.shape[1]), dtype=np.uint64)
        elif place == len(self._words):
            self._words = np.concatenate((self._words, np.zeros_like(self._words)))
        if place == len(self._sequences):
            self._sequences.append(sequence)
        else:
            del self._place_of[self._sequences[place]]
            self._sequences[place] = sequence
        self._words[place] = words[0]
        self._place_of[sequence] = place
        self._next = (place + 1) % _CAPACITY

    def without_dissimilar(self, pairs: Pairs, words: NDArray[np.uint64] | None) -> Pairs:
        """Return the pairs but those with a known entry that is not similar.

        ``words`` are those of the documents of ``pairs.rows``. An entry with the same content has
        the same sketch, so it is similar.
        """
        if words is None or self._words is None or self._verifier is None:
            return pairs
        place_of = self._place_of.get
        sequences, of = np.unique(pairs.sequences, return_inverse=True)
        places = np.array([place_of(each, -1) for each in sequences.tolist()], dtype=np.intp)[of]
        known = np.flatnonzero(places >= 0)
        kept = np.ones(len(pairs), dtype=np.bool_)
        rows, distances, places = pairs.rows[known], pairs.distances[known], places[known]
        kept[known] = are_similar(self._verifier, distances, words, rows, self._words, places)
        return pairs.take(kept)


def joined_words(parts: Sequence[NDArray[np.uint64] | None]) -> NDArray[np.uint64] | None:
    known = [each for each in parts if each is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def are_similar(
    verifier: Verifier,
    distances: NDArray[np.uint16],
    ours: NDArray[np.uint64],
    rows: NDArray[np.intp],
    theirs: NDArray[np.uint64],
    others: NDArray[np.intp],
) -> NDArray[np.bool_]:
    """Return which pairs are similar: a row of ``ours``, and one of ``theirs``."""
    similar = np.empty(len(rows), dtype=np.bool_)
    for first in range(0, len(rows), _TOGETHER):
        part = slice(first, first + _TOGETHER)
        similar[part] = verifier.are_similar(
            distances[part], ours[rows[part]], theirs[others[part]]
        )
    return similar
