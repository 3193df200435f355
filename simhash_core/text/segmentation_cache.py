"""From texts to lexicon rows, with a cache of segmented runs.

A dictionary segmenter first cuts a text at characters that belong to no word. So the text can be
split there in advance, and a run always gives the same terms: an edited copy shares most runs with
the original. The separators are not features and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simhash_core.text.lexicon import NO_ROW, SEPARATOR, CodeIndex, Lexicon, encode
from simhash_core.text.segmentation import Segmenter

# Lengths in characters of text. The first trial is short, and so is each trial after one that paid
# off.
SHORTEST_TRIAL: Final = 1 << 19
LONGEST_TRIAL: Final = 1 << 22  # about as many as a cache remembers
REST: Final = 16  # length of a pause, in trials
# Share of characters; measured on distinct texts: at .25 a cache costs time, at .39 it saves time.
_WORTH_IT: Final = 1 / 3


class CacheTrials:
    """Decides when the cache is used: in trials, with pauses after trials that do not pay off.

    Looking up and remembering runs costs a third of the time of segmentation. Near copies and texts
    of one style save more than that, distinct texts save less. After a trial that does not pay off,
    the cache pauses for ``REST`` times its length. The next trial is twice as long, so that copies
    of much earlier documents are noticed too.
    """

    def __init__(self) -> None:
        self._length = SHORTEST_TRIAL
        self._rest = 0
        self._begin_trial()

    @property
    def is_on(self) -> bool:
        return self._rest <= 0

    def count(self, characters: int, saved: int) -> None:
        """Count segmented text; ``saved`` of its characters came from the cache."""
        if not self.is_on:
            self._rest -= characters
            return
        self._done += characters
        # A cache begins empty, so only the second half of a trial counts.
        if 2 * self._done > self._length:
            self._counted += characters
            self._saved += saved
        if self._done >= self._length:
            self._end_trial()

    def emptied(self) -> None:
        """Begin the trial again, because an empty cache saves little at first."""
        if self.is_on:
            self._begin_trial()

    def _begin_trial(self) -> None:
        self._done = self._counted = self._saved = 0

    def _end_trial(self) -> None:
        if self._saved < self._counted * _WORTH_IT:
            self._rest = REST * self._length
            self._length = min(2 * self._length, LONGEST_TRIAL)
        else:
            self._length = SHORTEST_TRIAL
        self._begin_trial()


MAX_UNITS: Final = 1 << 18
"""Limit of UTF-16 units in texts that are split together; the polynomial's powers take 4 MB."""

UTF16: Final = "utf-16-le"

_ALL_UNITS: Final = 0x10000
_MODULUS: Final = 1 << 64
_BASE: Final = 0x9E37_79B9_7F4A_7C15  # 2⁶⁴ over the golden ratio; odd, so it has an inverse
_HALF: Final = np.uint64(32)


class TextRuns(NamedTuple):
    """The runs of some texts: the non-empty parts between separators.

    Equal runs have equal hashes. Different runs with one hash can be constructed (Pachocki &
    Radoszewski 2013), so equal hashes must be verified.
    """

    units: NDArray[np.uint16]  # the texts, each with a separator after it
    is_inside: NDArray[np.bool_]  # which units are in a run
    starts: NDArray[np.int64]  # of the runs, in ``units``
    sizes: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    until: NDArray[np.int64]  # (texts,), the number of runs up to the end of each text

    def joined(self, runs: NDArray[np.int64], between: str) -> NDArray[np.uint16]:
        sizes = self.sizes.take(runs) + 1
        joined = self.units.take(spans(self.starts.take(runs), sizes))
        joined[np.cumsum(sizes) - 1] = ord(between)
        return joined


class RunSplitter:
    def __init__(self, separators: str) -> None:
        self._is_inside = np.ones(_ALL_UNITS, dtype=np.bool_)
        self._is_inside[[ord(separator) for separator in (*separators, SEPARATOR)]] = False

    def split(self, texts: Sequence[str]) -> TextRuns | None:
        """Return the runs of normalised texts; None for more than ``MAX_UNITS`` of text."""
        units = np.frombuffer(SEPARATOR.join([*texts, ""]).encode(UTF16), dtype="<u2")
        if len(units) > MAX_UNITS:
            return None
        is_inside = self._is_inside.take(units)
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
    """Return the positions in spans, one span after the other: int64 (sum of sizes,)."""
    places = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    places += np.arange(len(places))
    return places


def _hashes(
    units: NDArray[np.uint16], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return a polynomial of each run's units, modulo 2⁶⁴.

    With running sums over a batch, each hash takes one subtraction, and one multiplication that
    removes the run's position in the batch.
    """
    sums = np.zeros(len(units) + 1, dtype=np.uint64)
    np.cumsum(units * _powers(_BASE)[: len(units)], out=sums[1:])
    hashes = (sums[ends] - sums[starts]) * _powers(pow(_BASE, -1, _MODULUS))[starts]
    # The low bits of a sum do not depend on the high bits of its terms.
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


_FIRST_ROWS: Final = 1024

_Item = TypeVar("_Item", bound=np.generic)


class GrowingColumn(Generic[_Item]):
    """A column that grows; its capacity doubles, so each value is copied only a few times."""

    def __init__(self, dtype: np.dtype[_Item]) -> None:
        self._room: NDArray[_Item] = np.zeros(_FIRST_ROWS, dtype=dtype)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def values(self) -> NDArray[_Item]:
        """The values, (rows,): a view, valid until the next ``extend``."""
        return self._room[: self._used]

    def extend(self, values: ArrayLike) -> None:
        more = np.asarray(values)
        end = self._used + len(more)
        if end > len(self._room):
            room = np.zeros(max(end, 2 * len(self._room)), dtype=self._room.dtype)
            room[: self._used] = self.values
            self._room = room
        self._room[self._used : end] = more
        self._used = end


RUN_MEMORY_BYTES: Final = 32 << 20  # roughly; the runs of one more batch are added

_BETWEEN: Final = " "
"""Separates runs that are cut in one call; every segmenter with separators has this one."""
# The number of runs, some tens of bytes each, for which the index has space at first.
_ROOM: Final = 1 << 16
# One call costs as much as one or two runs; a character of another script slows down only its call.
_RUNS_A_CALL: Final = 64
# A run's place in the index and in four columns; measured with tracemalloc, including free
# capacity.
_OVERHEAD_BYTES: Final = 110
_CHARACTER_BYTES: Final = 3
_TERM_BYTES: Final = 6


class TermRows(NamedTuple):
    """The terms of some texts, repeats included; the terms of a text are adjacent."""

    rows: NDArray[np.int64]  # of the lexicon, valid until the next call
    sizes: NDArray[np.int64]  # terms of each text


class SegmentationCache:
    """Segments normalised texts and caches the terms of recent runs. Not thread-safe."""

    def __init__(
        self, segmenter: Segmenter, lexicon: Lexicon, memory_bytes: int = RUN_MEMORY_BYTES
    ) -> None:
        """It caches nothing if the segmenter has no separators or ``memory_bytes`` is 0."""
        self._segmenter = segmenter
        self._lexicon = lexicon
        self._memory_bytes = memory_bytes if segmenter.separators else 0
        self._trials = CacheTrials()
        self._splitter = RunSplitter(segmenter.separators)
        # The term for _BETWEEN, with a tag if the segmenter tags.
        self._between = "".join(segmenter.cut(_BETWEEN)) if segmenter.separators else ""
        self._forget()

    def rows(self, texts: Sequence[str]) -> TermRows:
        if self._lexicon.is_full or self._used_bytes > self._memory_bytes or not self._is_whole:
            self._forget()
            self._trials.emptied()
        if not self._memory_bytes:
            return self._rows_of_whole_texts(texts)
        if not self._trials.is_on:
            if self._used_bytes:
                self._forget()
            self._trials.count(sum(map(len, texts)), saved=0)
            return self._rows_of_whole_texts(texts)
        runs = self._splitter.split(texts)
        if runs is None:
            return self._rows_of_whole_texts(texts)
        known_units = len(self._units)
        numbers = self._numbers_of(runs)
        if not self._are_equal(runs, numbers):
            # Different runs have one hash. The next call may empty a full lexicon.
            self._forget()
            return self._rows_of_whole_texts(texts)
        sizes = self._terms.values.take(numbers)
        # These are positions of terms in the cache, no longer in the batch.
        rows = self._rows.values.take(spans(self._first_terms.values.take(numbers), sizes))
        ends = np.concatenate(([0], np.cumsum(sizes)))
        new_units = len(self._units) - known_units
        self._trials.count(len(runs.units), len(runs.units) - new_units)
        return TermRows(rows.astype(np.int64), np.diff(ends[runs.until], prepend=0))

    def _numbers_of(self, runs: TextRuns) -> NDArray[np.int64]:
        """Return the number of each run; segment new runs and give them the next numbers."""
        low, high = runs.hashes, runs.sizes.view(np.uint64)
        numbers = self._index.find(low, high)
        unknown = np.flatnonzero(numbers == NO_ROW)
        if unknown.size:
            _, first, same = np.unique(low[unknown], return_index=True, return_inverse=True)
            new = unknown[first]
            new_numbers = np.arange(len(self._terms), len(self._terms) + len(new))
            numbers[unknown] = new_numbers[same]
            self._is_whole = False
            self._learn(runs, new)
            self._index.add_new(low[new], high[new], new_numbers)
            self._is_whole = True
        return numbers

    def _are_equal(self, runs: TextRuns, numbers: NDArray[np.int64]) -> bool:
        """Return whether each run equals the cached run with its number, unit by unit."""
        sizes = self._sizes.values.take(numbers)
        if not np.array_equal(sizes, runs.sizes):
            return False
        known = self._units.values.take(spans(self._starts.values.take(numbers), sizes))
        return np.array_equal(known, runs.units[runs.is_inside])

    def _learn(self, runs: TextRuns, new: NDArray[np.int64]) -> None:
        """Segment new runs and append them and their terms to the columns."""
        units = runs.joined(new, _BETWEEN)
        sizes = runs.sizes.take(new)
        ends = np.cumsum(sizes + 1)
        self._starts.extend(ends - sizes - 1 + len(self._units))
        self._sizes.extend(sizes)
        self._units.extend(units)
        limits = [0, *ends[_RUNS_A_CALL - 1 :: _RUNS_A_CALL].tolist(), len(units)]
        cut = self._segmenter.cut_all(
            [units[start:end].tobytes().decode(UTF16) for start, end in pairwise(limits)]
        )
        rows = self._lexicon.rows(encode(map(SEPARATOR.join, filter(None, cut))))
        places = np.flatnonzero(rows == self._lexicon[self._between])
        terms = np.diff(places, prepend=-1) - 1
        self._first_terms.extend(places - terms + len(self._rows))
        self._terms.extend(terms)
        self._rows.extend(rows)
        self._used_bytes += (
            len(new) * _OVERHEAD_BYTES + len(units) * _CHARACTER_BYTES + len(rows) * _TERM_BYTES
        )

    def _rows_of_whole_texts(self, texts: Sequence[str]) -> TermRows:
        joined, sizes = [], []
        for terms in self._segmenter.cut_all(texts):
            joined.append(SEPARATOR.join(terms))
            sizes.append(len(terms))
        codes = encode(filter(None, joined))
        return TermRows(self._lexicon.rows(codes), np.array(sizes, dtype=np.int64))

    def _forget(self) -> None:
        self._used_bytes = 0
        self._is_whole = True
        self._index: CodeIndex = CodeIndex(_ROOM)
        # The units and terms of each run. The first run's number is not NO_ROW.
        self._starts = GrowingColumn(np.dtype(np.int64))
        self._sizes = GrowingColumn(np.dtype(np.int64))
        self._units = GrowingColumn(np.dtype(np.uint16))
        self._first_terms = GrowingColumn(np.dtype(np.int64))
        self._terms: GrowingColumn[np.int64] = GrowingColumn(np.dtype(np.int64))
        self._rows = GrowingColumn(np.dtype(np.int32))
        for column in (self._starts, self._sizes, self._first_terms, self._terms):
            column.extend(np.zeros(1, dtype=np.int64))
