"""From texts to lexicon rows, and no run of characters is segmented twice while it is remembered.

A dictionary segmenter cuts a text into blocks first, at every character that can be part of no
word, and looks at each block by itself. So the text can be divided at such characters before, and
what a run gave once it always gives: an edited copy shares most of its runs with the original, and
an English text is made of runs that were seen before. The separators themselves are no features,
and are left out.

Nothing is done for a run by itself: runs are found, looked up and compared a batch at a time
(``simhash_core.text.text_runs``). Where the runs of a stream do not come again, the memo rests
(``simhash_core.text.memo_trials``). A full memo is forgotten whole, as the lexicon is, whose rows
it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simhash_core.text.code_index import NO_ROW, CodeIndex
from simhash_core.text.lexicon import Lexicon
from simhash_core.text.memo_trials import MemoTrials
from simhash_core.text.segmentation import Segmenter
from simhash_core.text.term_codes import SEPARATOR, encode
from simhash_core.text.text_runs import UTF16, RunSplitter, TextRuns, spans

_FIRST_ROWS: Final = 1024

_Item = TypeVar("_Item", bound=np.generic)


class GrowingColumn(Generic[_Item]):
    """Values one after the other; room doubles, so that each value is moved a few times only."""

    def __init__(self, dtype: np.dtype[_Item]) -> None:
        """Begin without values."""
        self._room: NDArray[_Item] = np.zeros(_FIRST_ROWS, dtype=dtype)
        self._used = 0

    def __len__(self) -> int:
        """Return the number of values."""
        return self._used

    @property
    def values(self) -> NDArray[_Item]:
        """The values, (rows,): a view, good until the next ``extend``."""
        return self._room[: self._used]

    def extend(self, values: ArrayLike) -> None:
        """Append values; they are converted to the column's type."""
        more = np.asarray(values)
        end = self._used + len(more)
        if end > len(self._room):
            room = np.zeros(max(end, 2 * len(self._room)), dtype=self._room.dtype)
            room[: self._used] = self.values
            self._room = room
        self._room[self._used : end] = more
        self._used = end


RUN_MEMORY_BYTES: Final = 32 << 20
"""What the memo may hold, roughly; the runs of one more batch come on top."""

_BETWEEN: Final = " "
"""Stands between runs that are cut in one call; a separator of every segmenter that has any."""
# Runs, of some tens of bytes each, for which the index has room from the beginning.
_ROOM: Final = 1 << 16
# A call costs as much as a run or two; a character of another script slows down its call alone.
_RUNS_A_CALL: Final = 64
# A run's place in the index and in four columns; measured with tracemalloc, room to grow included.
_OVERHEAD_BYTES: Final = 110
_CHARACTER_BYTES: Final = 3
_TERM_BYTES: Final = 6


class TermRows(NamedTuple):
    """The terms of some texts, repeats included, those of a text side by side.

    ``rows``: lexicon rows, int64 (terms,), good until the next call. ``sizes``: how many there are
    of each text, int64 (texts,).
    """

    rows: NDArray[np.int64]
    sizes: NDArray[np.int64]


class RunMemo:
    """Segments normalised texts; holds what the runs of late ones gave. Serves one thread."""

    def __init__(
        self, segmenter: Segmenter, lexicon: Lexicon, memory_bytes: int = RUN_MEMORY_BYTES
    ) -> None:
        """Begin empty.

        A segmenter without separators, or 0 for ``memory_bytes``, makes it a plain way to the
        lexicon.
        """
        self._segmenter = segmenter
        self._lexicon = lexicon
        self._memory_bytes = memory_bytes if segmenter.separators else 0
        self._trials = MemoTrials()
        self._splitter = RunSplitter(segmenter.separators)
        # The term that stands for _BETWEEN, tagged where the segmenter tags.
        self._between = "".join(segmenter.cut(_BETWEEN)) if segmenter.separators else ""
        self._forget()

    def rows(self, texts: Sequence[str]) -> TermRows:
        """Return the lexicon rows of the terms of each normalised text."""
        if self._lexicon.is_full or self._used_bytes > self._memory_bytes or not self._is_whole:
            self._forget()
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
            # Runs made to have one hash. The lexicon may be full, and void with the next call.
            self._forget()
            return self._rows_of_whole_texts(texts)
        sizes = self._terms.values.take(numbers)
        # Where each term is in the memo: the run's place there, instead of its place here.
        rows = self._rows.values.take(spans(self._first_terms.values.take(numbers), sizes))
        ends = np.concatenate(([0], np.cumsum(sizes)))
        new_units = len(self._units) - known_units
        self._trials.count(len(runs.units), len(runs.units) - new_units)
        return TermRows(rows.astype(np.int64), np.diff(ends[runs.until], prepend=0))

    def _numbers_of(self, runs: TextRuns) -> NDArray[np.int64]:
        """Return the number of each run; runs that are new are segmented and get the next ones."""
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
        """Whether each run is, unit by unit, the one that has its number."""
        sizes = self._sizes.values.take(numbers)
        if not np.array_equal(sizes, runs.sizes):
            return False
        known = self._units.values.take(spans(self._starts.values.take(numbers), sizes))
        return np.array_equal(known, runs.units[runs.is_inside])

    def _learn(self, runs: TextRuns, new: NDArray[np.int64]) -> None:
        """Segment these runs, and put what they are and what they gave at the ends of columns."""
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
        # Of each run: its units and its terms. The number of the first one is not NO_ROW.
        self._starts = GrowingColumn(np.dtype(np.int64))
        self._sizes = GrowingColumn(np.dtype(np.int64))
        self._units = GrowingColumn(np.dtype(np.uint16))
        self._first_terms = GrowingColumn(np.dtype(np.int64))
        self._terms: GrowingColumn[np.int64] = GrowingColumn(np.dtype(np.int64))
        self._rows = GrowingColumn(np.dtype(np.int32))
        for column in (self._starts, self._sizes, self._first_terms, self._terms):
            column.extend(np.zeros(1, dtype=np.int64))
