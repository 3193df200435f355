"""The lexicon: for each term met lately its votes and idf, so that no term is hashed twice.

Words follow Zipf's law: a few tens of thousands make up nearly all running text. A full lexicon
is forgotten whole and fills again; that is simpler than eviction and costs as little.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.feature_hashes import FeatureHash
from simhash_core.fingerprint import Votes, votes_of
from simhash_core.idf import IdfModel
from simhash_core.segmentation import is_feature

MOST_TERMS: Final = 65_536
"""Terms kept: at 256 bits 17 MB."""

NOT_A_FEATURE: Final = 0
"""The row of every term without a letter or digit."""


class Lexicon(dict[str, int]):
    """Term to row, for the columns ``votes`` (int8, rows × bits) and ``idf`` (float64, rows)."""

    def __init__(self, bits: int, feature_hash: FeatureHash, idf: IdfModel) -> None:
        """Begin empty; nothing is computed before ``rows`` asks for it."""
        super().__init__()
        self._bits = bits
        self._hash = feature_hash
        self._idf = idf
        self._new: list[str] = []
        self._used = 0
        self.votes: Votes
        self.idf: NDArray[np.float64]
        self._forget()

    def rows(self, terms: Iterable[str], count: int) -> NDArray[np.int64]:
        """Return the row of each of ``count`` terms; rows are good until the next call."""
        if self._used > MOST_TERMS:
            self._forget()
        # dict.__getitem__ calls __missing__ for the new ones: no Python code runs for known terms.
        found = np.fromiter(map(self.__getitem__, terms), dtype=np.int64, count=count)
        if self._new:
            self._learn()
        return found

    def __missing__(self, term: str) -> int:
        """Give a new term a row, to be filled by ``_learn``."""
        if is_feature(term):
            row = self._used + len(self._new)
            self._new.append(term)
        else:
            row = NOT_A_FEATURE
        self[term] = row
        return row

    def _learn(self) -> None:
        end = self._used + len(self._new)
        if end > len(self.idf):
            size = max(end, 2 * len(self.idf))
            self.votes = np.concatenate(
                [self.votes, np.zeros((size - len(self.idf), self._bits), np.int8)]
            )
            self.idf = np.concatenate([self.idf, np.zeros(size - len(self.idf))])
        hashes = b"".join(self._hash(term, self._bits) for term in self._new)
        self.votes[self._used : end] = votes_of(hashes, self._bits)
        self.idf[self._used : end] = [self._idf.idf(term) for term in self._new]
        self._used = end
        self._new.clear()

    def _forget(self) -> None:
        self.clear()
        self._used = 1  # row 0 is NOT_A_FEATURE
        self.votes = np.zeros((1024, self._bits), dtype=np.int8)
        self.idf = np.zeros(1024)
