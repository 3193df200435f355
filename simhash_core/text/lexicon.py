"""The lexicon: for each term seen lately its votes and idf, so that no term is hashed twice.

Words follow Zipf's law: a few tens of thousands make up nearly all running text. A full lexicon
is forgotten whole and fills again; that is simpler than eviction and costs as little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from itertools import count, islice, repeat
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.feature_hashes import FeatureHash
from simhash_core.fingerprints.fingerprint import Votes, votes_of
from simhash_core.text.code_index import NO_ROW, CodeIndex
from simhash_core.text.idf import IdfModel
from simhash_core.text.segmentation import is_feature
from simhash_core.text.term_codes import TermCodes
from simhash_core.text.term_traits import TermTraits, TraitsOf, no_traits, word_of

TERMS_MAX: Final = 65_536
"""Terms kept: at 256 bits 17 MB."""

_FIRST_ROW: Final = NO_ROW + 1
# Those kept, and what one more batch nearly always brings.
_ROOM: Final = TERMS_MAX + 16_384

_Item = TypeVar("_Item", bound=np.generic)


class Lexicon(defaultdict[str, int]):
    """Term to row. Rows are those of the columns.

    ``votes``: int8 (rows, bits). ``idf``: float64 (rows,). ``is_feature``: bool (rows,), whether
    the term counts at all. ``short_hashes``: uint32 (rows,), the feature hash folded. ``traits``:
    (rows,) in each column, of nothing where no ``traits_of`` was given. All but the traits are of
    the word alone where the term is tagged.
    """

    def __init__(
        self,
        bits: int,
        feature_hash: FeatureHash,
        idf: IdfModel,
        stop_words: Container[str] = (),
        traits_of: TraitsOf | None = None,
    ) -> None:
        """Begin empty; nothing is computed before ``rows`` asks for it."""
        # A new term gets the next row by being asked for, which is all done in C.
        super().__init__(count(_FIRST_ROW).__next__)
        self._bits = bits
        self._hash = feature_hash
        self._idf = idf
        self._stop_words = stop_words
        self._traits_of = traits_of
        self._used = _FIRST_ROW
        self._index = CodeIndex(_ROOM)
        # The whole room at once: the system gives memory to the rows that are used, and a column
        # that grows is copied, which takes longer than to learn the terms.
        self.votes: Votes = np.zeros((_ROOM, bits), dtype=np.int8)
        self.idf: NDArray[np.float64] = np.zeros(_ROOM)
        self.is_feature: NDArray[np.bool_] = np.zeros(_ROOM, dtype=np.bool_)
        self.short_hashes: NDArray[np.uint32] = np.zeros(_ROOM, dtype=np.uint32)
        self.traits = no_traits(_ROOM if traits_of is not None else 0)

    @property
    def is_full(self) -> bool:
        """Whether the next call of ``rows`` begins empty again: all rows given before are void."""
        return self._used > TERMS_MAX

    def rows(self, terms: TermCodes) -> NDArray[np.int64]:
        """Return the row of each term; rows are good as long as the lexicon is not full."""
        if self.is_full:
            self._forget()
        rows = self._index.find(terms.low, terms.high)
        unknown = np.flatnonzero(rows == NO_ROW)
        if unknown.size:
            # New ones, long ones, and the few that the index found no place for.
            rows[unknown] = list(map(self.__getitem__, terms.spelled(unknown)))
            self._learn()
            self._index.add(terms.low[unknown], terms.high[unknown], rows[unknown])
        return rows

    def _learn(self) -> None:
        """Fill the rows of the terms that have got theirs last."""
        new_terms = _FIRST_ROW + len(self) - self._used
        if not new_terms:
            return
        terms = [*islice(reversed(self), new_terms)][::-1]
        end = self._used + new_terms
        if end > len(self.idf):
            self._lengthen(end - len(self.idf))
        new = slice(self._used, end)
        words = [word_of(term) for term in terms]
        bits, feature_hash = self._bits, self._hash
        hashes = b"".join(map(feature_hash, words, repeat(bits)))
        self.votes[new] = votes_of(hashes, bits)
        self.short_hashes[new] = _folded(hashes, bits)
        self.idf[new] = list(map(self._idf.table.get, words, repeat(self._idf.unknown)))
        stop_words = self._stop_words
        self.is_feature[new] = [is_feature(word) and word not in stop_words for word in words]
        if self._traits_of is not None:
            for column, values in zip(self.traits, self._traits_of(terms), strict=True):
                column[new] = values
        self._used = end

    def _lengthen(self, rows: int) -> None:
        self.votes = np.concatenate([self.votes, np.zeros((rows, self._bits), dtype=np.int8)])
        self.idf = _with_zeros(self.idf, rows)
        self.is_feature = _with_zeros(self.is_feature, rows)
        self.short_hashes = _with_zeros(self.short_hashes, rows)
        if self._traits_of is not None:
            lengths, is_main, is_cue = self.traits
            self.traits = TermTraits(
                _with_zeros(lengths, rows), _with_zeros(is_main, rows), _with_zeros(is_cue, rows)
            )

    def _forget(self) -> None:
        self.clear()
        self.default_factory = count(_FIRST_ROW).__next__
        self._index = CodeIndex(_ROOM)
        self._used = _FIRST_ROW


def _folded(hashes: bytes, bits: int) -> NDArray[np.uint32]:
    """Return the 32-bit words of each hash, XORed: no hash has all of its bits well mixed."""
    words = np.frombuffer(hashes, dtype=">u4").reshape(-1, bits // 32)
    folded: NDArray[np.uint32] = np.bitwise_xor.reduce(words, axis=1).astype(np.uint32)
    return folded


def _with_zeros(column: NDArray[_Item], rows: int) -> NDArray[_Item]:
    return np.concatenate([column, np.zeros(rows, dtype=column.dtype)])
