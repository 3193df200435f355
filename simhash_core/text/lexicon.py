"""The lexicon: votes and idf of each recent term, and how terms are found in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from itertools import count, islice, repeat
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhash_core.fingerprints.feature_hashes import FeatureHash
from simhash_core.fingerprints.fingerprint import Votes, votes_of
from simhash_core.text.idf import IdfModel
from simhash_core.text.segmentation import is_feature, word_of
from simhash_core.text.weighting import TermTraits, TraitsOf, no_traits

SEPARATOR: Final = "\n"  # between terms; normalised texts do not contain it

_UTF16: Final = "utf-16-le"
_SEPARATOR_BYTES: Final = SEPARATOR.encode(_UTF16)
_UNITS_A_WORD: Final = 4
_WORDS: Final = 2
# Indexed by how many of the four units read at the start of a term belong to it.
_MASKS: Final = np.array([(1 << 16 * units) - 1 for units in range(5)], dtype=np.uint64)


class TermCodes(NamedTuple):
    """Terms, and an exact 128-bit code for every short one; each array has one element per term.

    The code of a term of up to eight UTF-16 units is the term itself. This includes nearly every
    Chinese word and most English ones. So array operations compare all terms of a batch, not string
    comparisons.
    """

    low: NDArray[np.uint64]  # the code; both halves are 0 for a term that has none
    high: NDArray[np.uint64]
    starts: NDArray[np.int64]  # in ``encoded``, in UTF-16 units
    ends: NDArray[np.int64]
    encoded: bytes

    def spelled(self, codes: NDArray[np.int64]) -> list[str]:
        # Each term with the separator after it, all decoded at once.
        starts, ends = self.starts[codes] * 2, self.ends[codes] * 2 + len(_SEPARATOR_BYTES)
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        joined = b"".join([self.encoded[start:end] for start, end in spans])
        return joined.decode(_UTF16, "surrogatepass").split(SEPARATOR)[:-1]


def encode(joined: Iterable[str]) -> TermCodes:
    """Return the codes of the terms in ``joined``, whose strings have separators between terms."""
    text = SEPARATOR.join(joined)
    if not text:
        none = np.zeros(0, dtype=np.int64)
        return TermCodes(none.view(np.uint64), none.view(np.uint64), none, none, b"")
    encoded = (text + SEPARATOR).encode(_UTF16, "surrogatepass")
    ends = np.flatnonzero(np.frombuffer(encoded, dtype="<u2") == ord(SEPARATOR))
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts
    words = _words(encoded)
    low = words[starts] & _MASKS[np.minimum(sizes, _UNITS_A_WORD)]
    beyond = np.clip(sizes - _UNITS_A_WORD, 0, _UNITS_A_WORD)
    high = words[starts + _UNITS_A_WORD] & _MASKS[beyond]
    long = np.flatnonzero(sizes > _UNITS_A_WORD * _WORDS)
    low[long] = high[long] = 0
    return TermCodes(low, high, starts, ends, encoded)


def _words(encoded: bytes) -> NDArray[np.uint64]:
    """Return the four units from each position on as one number, with zeros after the end."""
    units = len(encoded) // 2
    rows = units // _UNITS_A_WORD + _WORDS
    padded = encoded + bytes(8 * (rows + 1) - len(encoded))
    words = np.empty((rows, _UNITS_A_WORD), dtype=np.uint64)
    for shift in range(_UNITS_A_WORD):
        words[:, shift] = np.frombuffer(padded, dtype="<u8", count=rows, offset=2 * shift)
    return words.reshape(-1)


NO_ROW: Final = 0  # what ``find`` returns for an unknown code; no code may have this row

Codes = NDArray[np.uint64]
Rows = NDArray[np.int64]

_STEPS_MAX: Final = 16
_PLACES_A_ROW: Final = 4
_CODE_BITS: Final = 64
# Odd numbers whose product mixes well upwards: 2⁶⁴ over the golden ratio; a prime of XXH64.
_LOW_FACTOR: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_HIGH_FACTOR: Final = np.uint64(0xC2B2_AE3D_27D4_EB4F)


class CodeIndex:
    """Maps codes of 128 bits, in two columns, to rows. The code (0, 0) is never found.

    It is an open-addressing table in numpy arrays: a code is at its hash or in one of the next few
    slots; there are four times as many slots as codes. A code that finds no free slot is not kept,
    which bounds the steps of every look-up, even for maliciously chosen codes.
    """

    def __init__(self, rows: int) -> None:
        """Start with space for ``rows`` rows; it grows as needed."""
        # The system assigns memory only to used pages, so reserving is cheaper than growing.
        self._low: Codes = np.zeros(rows, dtype=np.uint64)
        self._high: Codes = np.zeros(rows, dtype=np.uint64)
        self._places_log2 = (rows * _PLACES_A_ROW - 1).bit_length()
        self._places: NDArray[np.int32] = np.zeros(1 << self._places_log2, dtype=np.int32)

    def find(self, low: Codes, high: Codes) -> Rows:
        at = self._first_places(low, high)
        rows = self._places[at].astype(np.int64)
        # Few codes are left after the first step, so later steps process these alone.
        left = np.flatnonzero(self._differ(rows, low, high))
        for step in range(1, _STEPS_MAX):
            left = left[rows[left] != NO_ROW]
            if not left.size:
                break
            rows[left] = self._places[(at[left] + step) & self._last_place]
            left = left[self._differ(rows[left], low[left], high[left])]
        rows[left] = NO_ROW
        return rows

    def add(self, low: Codes, high: Codes, rows: Rows) -> None:
        """Keep the row of each code if there is a free slot for it; (0, 0) is left out.

        A known code must not be added again, and two codes must not have the same row.
        """
        rows, first = np.unique(rows, return_index=True)
        low, high = low[first], high[first]
        coded = (low | high) != 0
        self.add_new(low[coded], high[coded], rows[coded])

    def add_new(self, low: Codes, high: Codes, rows: Rows) -> None:
        """Like ``add``, for codes other than (0, 0) and ascending rows, each given once."""
        if not rows.size:
            return
        self._make_room(int(rows[-1]) + 1)
        self._low[rows], self._high[rows] = low, high
        self._place(rows)

    @property
    def _last_place(self) -> int:
        return len(self._places) - 1

    def _first_places(self, low: Codes, high: Codes) -> NDArray[np.int64]:
        mixed = (low ^ (high * _HIGH_FACTOR)) * _LOW_FACTOR
        return (mixed >> np.uint64(_CODE_BITS - self._places_log2)).astype(np.int64)

    def _differ(self, rows: Rows, low: Codes, high: Codes) -> NDArray[np.bool_]:
        differ: NDArray[np.bool_] = self._low[rows] != low
        differ |= self._high[rows] != high
        return differ

    def _make_room(self, rows: int) -> None:
        """Lengthen the columns to ``rows``; more rows need more slots."""
        if rows > len(self._low):
            more = np.zeros(max(rows, 2 * len(self._low)) - len(self._low), dtype=np.uint64)
            self._low = np.concatenate([self._low, more])
            self._high = np.concatenate([self._high, more])
        if rows * _PLACES_A_ROW > len(self._places):
            self._places_log2 = (rows * _PLACES_A_ROW - 1).bit_length()
            self._places = np.zeros(1 << self._places_log2, dtype=np.int32)
            self._place(np.flatnonzero(self._low | self._high))

    def _place(self, rows: Rows) -> None:
        """Put rows, whose codes are in the columns, into the first free slots from their hashes."""
        at = self._first_places(self._low[rows], self._high[rows])
        for _ in range(_STEPS_MAX):
            if not rows.size:
                break
            free = self._places[at] == NO_ROW
            self._places[at[free]] = rows[free]  # if several rows take one slot, the last one stays
            left = self._places[at] != rows
            rows, at = rows[left], (at[left] + 1) & self._last_place


TERMS_MAX: Final = 65_536  # 17 MB at 256 bits

_FIRST_ROW: Final = NO_ROW + 1
# This includes the new terms of nearly any one more batch.
_ROOM: Final = TERMS_MAX + 16_384

_Item = TypeVar("_Item", bound=np.generic)


class Lexicon(defaultdict[str, int]):
    """Maps recent terms to rows of the columns, so that no term is hashed twice.

    By Zipf's law a few tens of thousands of words make up nearly all running text. A full lexicon
    is emptied and fills again; that is simpler than eviction and costs as little.

    For a tagged term, all columns but the traits are those of the word. ``short_hashes`` are folded
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
        # When a new term is looked up it gets the next row, all in C.
        super().__init__(count(_FIRST_ROW).__next__)
        self._bits = bits
        self._hash = feature_hash
        self._idf = idf
        self._stop_words = stop_words
        self._traits_of = traits_of
        self._used = _FIRST_ROW
        self._index = CodeIndex(_ROOM)
        # Reserve all the memory at once: the system assigns only used pages, and copying a growing
        # column takes longer than adding the terms.
        self.votes: Votes = np.zeros((_ROOM, bits), dtype=np.int8)
        self.idf: NDArray[np.float64] = np.zeros(_ROOM)
        self.is_feature: NDArray[np.bool_] = np.zeros(_ROOM, dtype=np.bool_)
        self.short_hashes: NDArray[np.uint32] = np.zeros(_ROOM, dtype=np.uint32)
        self.traits = no_traits(_ROOM if traits_of is not None else 0)

    @property
    def is_full(self) -> bool:
        """Whether the next call of ``rows`` empties the lexicon and makes earlier rows invalid."""
        return self._used > TERMS_MAX

    def rows(self, terms: TermCodes) -> NDArray[np.int64]:
        """Return the row of each term; rows are valid as long as the lexicon is not full."""
        if self.is_full:
            self._forget()
        rows = self._index.find(terms.low, terms.high)
        unknown = np.flatnonzero(rows == NO_ROW)
        if unknown.size:
            # These are new terms, long terms, and the few that did not fit into the index.
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
        self.votes = _with_zeros(self.votes, rows)
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
    """Return the XOR of each hash's 32-bit words, because some hashes mix their bits poorly."""
    words = np.frombuffer(hashes, dtype=">u4").reshape(-1, bits // 32)
    folded: NDArray[np.uint32] = np.bitwise_xor.reduce(words, axis=1).astype(np.uint32)
    return folded


def _with_zeros(column: NDArray[_Item], rows: int) -> NDArray[_Item]:
    return np.concatenate([column, np.zeros((rows, *column.shape[1:]), dtype=column.dtype)])
