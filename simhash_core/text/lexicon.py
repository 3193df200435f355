"""The lexicon: votes and idf of each recent term, so that no term is hashed twice.

By Zipf's law a few tens of thousands of words make up nearly all running text. A full lexicon is
emptied and fills again; that is simpler than eviction and costs as little.
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
from simhash_core.text.idf import IdfModel
from simhash_core.text.segmentation import is_feature
from simhash_core.text.term_codes import NO_ROW, CodeIndex, TermCodes
from simhash_core.text.term_traits import TermTraits, TraitsOf, no_traits, word_of

TERMS_MAX: Final = 65_536  # 17 MB at 256 bits

_FIRST_ROW: Final = NO_ROW + 1
_ROOM: Final = TERMS_MAX + 16_384  # with what one more batch nearly always brings

_Item = TypeVar("_Item", bound=np.generic)


class Lexicon(defaultdict[str, int]):
    """Terms to rows of the columns.

    For a tagged term, all columns but the traits are the word's. ``short_hashes`` are folded
    feature hashes. ``traits`` are empty without ``traits_of``.
    """

    def __init__(
        self,
        bits: int,
        feature_hash: FeatureHash,
        idf: IdfModel,
        stop_words: Container[str] = (),
        traits_of: TraitsOf | None = None,
    ) -> None:
        # A new term gets the next row when it is looked up, all in C.
        super().__init__(count(_FIRST_ROW).__next__)
        self._bits = bits
        self._hash = feature_hash
        self._idf = idf
        self._stop_words = stop_words
        self._traits_of = traits_of
        self._used = _FIRST_ROW
        self._index = CodeIndex(_ROOM)
        # Reserve the whole room at once: the system gives memory only to used rows, and copying a
        # growing column takes longer than learning the terms.
        self.votes: Votes = np.zeros((_ROOM, bits), dtype=np.int8)
        self.idf: NDArray[np.float64] = np.zeros(_ROOM)
        self.is_feature: NDArray[np.bool_] = np.zeros(_ROOM, dtype=np.bool_)
        self.short_hashes: NDArray[np.uint32] = np.zeros(_ROOM, dtype=np.uint32)
        self.traits = no_traits(_ROOM if traits_of is not None else 0)

    @property
    def is_full(self) -> bool:
        """Whether the next call of ``rows`` empties the lexicon and voids all earlier rows."""
        return self._used > TERMS_MAX

    def rows(self, terms: TermCodes) -> NDArray[np.int64]:
        """Return the row of each term; rows are valid as long as the lexicon is not full."""
        if self.is_full:
            self._forget()
        rows = self._index.find(terms.low, terms.high)
        unknown = np.flatnonzero(rows == NO_ROW)
        if unknown.size:
            # New ones, long ones, and the few that the index had no place for.
            rows[unknown] = list(map(self.__getitem__, terms.spelled(unknown)))
            self._learn()
            self._index.add(terms.low[unknown], terms.high[unknown], rows[unknown])
        return rows

    def _learn(self) -> None:
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
    """Return the XOR of each hash's 32-bit words, as no hash has all bits well mixed."""
    words = np.frombuffer(hashes, dtype=">u4").reshape(-1, bits // 32)
    folded: NDArray[np.uint32] = np.bitwise_xor.reduce(words, axis=1).astype(np.uint32)
    return folded


def _with_zeros(column: NDArray[_Item], rows: int) -> NDArray[_Item]:
    return np.concatenate([column, np.zeros(rows, dtype=column.dtype)])
