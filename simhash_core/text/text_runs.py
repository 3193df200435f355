"""The runs of texts: what stands between separators, each with a number that nearly identifies it.

All by array operations over the UTF-16 units of a whole batch. The hash of a run is a polynomial of
its units modulo 2⁶⁴: from the running sums over a batch, the hash of every run is one subtraction,
and one multiplication that takes off where in the batch it stands. Equal runs have equal hashes.
Different ones practically never do, but can be made to (Pachocki & Radoszewski 2013), so whoever
takes two runs for one has to compare them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.term_codes import SEPARATOR

MAX_UNITS: Final = 1 << 18
"""UTF-16 units of texts that are divided together; the powers of the polynomial take 4 MB."""

UTF16: Final = "utf-16-le"

_ALL_UNITS: Final = 0x10000
_MODULUS: Final = 1 << 64
_BASE: Final = 0x9E37_79B9_7F4A_7C15
"""2⁶⁴ over the golden ratio; odd, so that it has an inverse."""
_HALF: Final = np.uint64(32)


class TextRuns(NamedTuple):
    """The runs of some texts, one after the other; none of them is empty.

    ``units``: the texts, each with a separator after it, uint16 (units,). ``is_inside``: which of
    them are in a run, bool (units,). ``starts``, ``sizes``: of the runs there, int64 (runs,).
    ``hashes``: uint64 (runs,). ``until``: how many runs the first texts have together, int64
    (texts,).
    """

    units: NDArray[np.uint16]
    is_inside: NDArray[np.bool_]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    until: NDArray[np.int64]

    def joined(self, runs: NDArray[np.int64], between: str) -> NDArray[np.uint16]:
        """Return the units of these runs with the character ``between`` after each."""
        sizes = self.sizes.take(runs) + 1
        joined = self.units.take(spans(self.starts.take(runs), sizes))
        joined[np.cumsum(sizes) - 1] = ord(between)
        return joined


class RunSplitter:
    """Divides texts at separators."""

    def __init__(self, separators: str) -> None:
        """``separators``: characters of one UTF-16 unit each."""
        self._is_inside = np.ones(_ALL_UNITS, dtype=np.bool_)
        self._is_inside[[ord(separator) for separator in (*separators, SEPARATOR)]] = False

    def split(self, texts: Sequence[str]) -> TextRuns | None:
        """Return the runs of normalised texts; None for more than ``MAX_UNITS`` of text."""
        units = np.frombuffer(SEPARATOR.join([*texts, ""]).encode(UTF16), dtype="<u2")
        if len(units) > MAX_UNITS:
            return None
        is_inside = self._is_inside.take(units)
        # Each text ends with a separator, so a run that begins has an end.
        limits = np.flatnonzero(is_inside[1:] != is_inside[:-1]) + 1
        if is_inside[:1].any():
            limits = np.concatenate(([0], limits))
        starts, ends = limits[0::2], limits[1::2]
        return TextRuns(
            units,
            is_inside,
            starts,
            ends - starts,
            _hashes(units, starts, ends),
            np.searchsorted(starts, np.flatnonzero(units == ord(SEPARATOR))),
        )


def spans(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of spans, one span after the other: int64 (sum of sizes,)."""
    places = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    places += np.arange(len(places))
    return places


def _hashes(
    units: NDArray[np.uint16], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    sums = np.zeros(len(units) + 1, dtype=np.uint64)
    np.cumsum(units * _powers(_BASE)[: len(units)], out=sums[1:])
    hashes = (sums[ends] - sums[starts]) * _powers(pow(_BASE, -1, _MODULUS))[starts]
    # The low bits of a sum say nothing of the high bits of what was added.
    hashes ^= hashes >> _HALF
    return hashes


@cache
def _powers(base: int) -> NDArray[np.uint64]:
    """Return the powers of a base from the 0th on, modulo 2⁶⁴, (MAX_UNITS,)."""
    powers = np.ones(MAX_UNITS, dtype=np.uint64)
    known = 1
    while known < MAX_UNITS:
        factor = np.uint64(pow(base, known, _MODULUS))
        powers[known : 2 * known] = powers[:known] * factor
        known *= 2
    return powers
