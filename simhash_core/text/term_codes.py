"""Terms as numbers: an exact 128-bit code for every short term of a text, by array operations.

A segmenter makes a new string for each word it finds. To hash each one and look it up in a Python
dict costs more than to find it in the text; joined into one string again, all terms are compared by
their UTF-16 units at once. Up to eight units are the code, so that equal codes mean equal
terms: eight units hold nearly every Chinese word and most English ones. A longer term has no code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

SEPARATOR: Final = "\n"
"""Stands between terms. Normalised texts do not have it."""

_UTF16: Final = "utf-16-le"
_SEPARATOR_BYTES: Final = SEPARATOR.encode(_UTF16)
_UNITS_A_WORD: Final = 4
_WORDS: Final = 2
# By the number of units, at most four, that are the term's own of the four read at its start.
_MASKS: Final = np.array([(1 << 16 * units) - 1 for units in range(5)], dtype=np.uint64)


class TermCodes(NamedTuple):
    """The terms of a text, one entry a term in each array.

    ``low`` and ``high``: the code, uint64; both are 0 for a term that has none. ``starts`` and
    ``ends``: where the term stands in ``encoded``, in UTF-16 units.
    """

    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    encoded: bytes

    def spelled(self, codes: NDArray[np.int64]) -> list[str]:
        """Return the terms at these places as strings."""
        # Each with the separator that follows it, decoded in one piece.
        starts, ends = self.starts[codes] * 2, self.ends[codes] * 2 + len(_SEPARATOR_BYTES)
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        joined = b"".join([self.encoded[start:end] for start, end in spans])
        return joined.decode(_UTF16, "surrogatepass").split(SEPARATOR)[:-1]


def encode(joined: Iterable[str]) -> TermCodes:
    """Return the codes of all terms of ``joined``, strings of terms with separators between."""
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
    """Return the four units from each place on as one number, with zeros after the end."""
    units = len(encoded) // 2
    rows = units // _UNITS_A_WORD + _WORDS
    padded = encoded + bytes(8 * (rows + 1) - len(encoded))
    words = np.empty((rows, _UNITS_A_WORD), dtype=np.uint64)
    for shift in range(_UNITS_A_WORD):
        words[:, shift] = np.frombuffer(padded, dtype="<u8", count=rows, offset=2 * shift)
    return words.reshape(-1)
