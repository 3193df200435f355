"""The lexicon: for each term met lately its votes and idf, so that no term is hashed twice.

Words follow Zipf's law: a few tens of thousands make up nearly all running text. A full lexicon
is forgotten whole and fills again; that is simpler than eviction and costs as little.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.code_index import NO_ROW, CodeIndex
from simhash_core.feature_hashes import FeatureHash
from simhash_core.fingerprint import Votes, votes_of
from simhash_core.idf import IdfModel
from simhash_core.segmentation import is_feature
from simhash_core.term_codes import TermCodes

MOST_TERMS: Final = 65_536
"""Terms kept: at 256 bits 17 MB."""

_FIRST_ROW: Final = NO_ROW + 1
_FIRST_SIZE: Final = 1024


class Lexicon(dict[str, int]):
    """Term to row. Rows are those of three columns.

    ``votes``: int8 (rows, bits). ``idf``: float64 (rows,). ``is_feature``: bool (rows,), whether
    the term counts at all.
    """

    def __init__(self, bits: int, feature_hash: FeatureHash, idf: IdfModel) -> None:
        """Begin empty; nothing is computed before ``rows`` asks for it."""
        super().__init__()
        self._bits = bits
        self._hash = feature_hash
        self._idf = idf
        self._new: list[str] = []
        self._used = _FIRST_ROW
        self._index: CodeIndex
        self.votes: Votes
        self.idf: NDArray[np.float64]
        self.is_feature: NDArray[np.bool_]
        self._forget()

    def rows(self, terms: TermCodes) -> NDArray[np.int64]:
        """Return the row of each term; rows are good until the next call."""
        if self._used > MOST_TERMS:
            self._forget()
        rows = self._index.find(terms.low, terms.high)
        unknown = np.flatnonzero(rows == NO_ROW)
        if unknown.size:
            # New ones, long ones, and the few that the index found no place for.
            rows[unknown] = [self[term] for term in terms.spelled(unknown)]
            self._learn()
            self._index.add(terms.low[unknown], terms.high[unknown], rows[unknown])
        return rows

    def __missing__(self, term: str) -> int:
        """Give a new term a row, to be filled by ``_learn``."""
        row = self[term] = self._used + len(self._new)
        self._new.append(term)
        return row

    def _learn(self) -> None:
        if not self._new:
            return
        end = self._used + len(self._new)
        if end > len(self.idf):
            self._lengthen(max(end, 2 * len(self.idf)) - len(self.idf))
        hashes = b"".join(self._hash(term, self._bits) for term in self._new)
        self.votes[self._used : end] = votes_of(hashes, self._bits)
        self.idf[self._used : end] = [self._idf.idf(term) for term in self._new]
        self.is_feature[self._used : end] = [is_feature(term) for term in self._new]
        self._used = end
        self._new.clear()

    def _lengthen(self, rows: int) -> None:
        more = np.zeros((rows, self._bits), dtype=np.int8)
        self.votes = np.concatenate([self.votes, more])
        self.idf = np.concatenate([self.idf, np.zeros(rows)])
        self.is_feature = np.concatenate([self.is_feature, np.zeros(rows, dtype=np.bool_)])

    def _forget(self) -> None:
        self.clear()
        self._index = CodeIndex()
        self._used = _FIRST_ROW
        self.votes = np.zeros((_FIRST_SIZE, self._bits), dtype=np.int8)
        self.idf = np.zeros(_FIRST_SIZE)
        self.is_feature = np.zeros(_FIRST_SIZE, dtype=np.bool_)
