"""From texts to lexicon rows, and no run of characters is segmented twice while it is remembered.

A dictionary segmenter cuts a text into blocks first, at every character that can be part of no
word, and looks at each block by itself. So the text can be divided at such characters before, and
what a run gave once it always gives: an edited copy shares most of its runs with the original, and
an English text is made of runs that were met before. The separators themselves are no features,
and are left out.

A full memo is forgotten whole, as the lexicon is, whose rows it holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhash_core.text.growing_column import GrowingColumn
from simhash_core.text.lexicon import Lexicon
from simhash_core.text.segmentation import Segmenter
from simhash_core.text.term_codes import SEPARATOR, encode

RUN_MEMORY_BYTES: Final = 32 << 20
"""What the memo may hold, roughly; the runs of one more batch come on top."""

_UTF16: Final = "utf-16-le"
_UNITS: Final = 0x10000
_BETWEEN: Final = " "
"""Stands between runs that are cut in one call; a separator of every segmenter that has any."""
# A call costs as much as a run or two; a character of another script slows down its call alone.
_RUNS_A_CALL: Final = 64
# A string, its number and its places in a dict and two columns; measured with tracemalloc.
_OVERHEAD_BYTES: Final = 230
_CHARACTER_BYTES: Final = 2
_TERM_BYTES: Final = 4


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
        """Begin empty; a segmenter without separators makes it a plain way to the lexicon."""
        self._segmenter = segmenter
        self._lexicon = lexicon
        self._memory_bytes = memory_bytes
        self._line_at_separators = np.arange(_UNITS, dtype="<u2")
        for separator in segmenter.separators:
            self._line_at_separators[ord(separator)] = ord(SEPARATOR)
        # The term that stands for _BETWEEN, tagged where the segmenter tags.
        self._between = "".join(segmenter.cut(_BETWEEN)) if segmenter.separators else ""
        self._forget()

    def rows(self, texts: Sequence[str]) -> TermRows:
        """Return the lexicon rows of the terms of each normalised text."""
        if not self._segmenter.separators:
            return self._rows_of_whole_texts(texts)
        if self._must_forget:
            self._forget()
        runs, runs_of_text = self._split(texts)
        known = len(self._numbers)
        numbers = np.fromiter(map(self._numbers.__getitem__, runs), np.int64, len(runs))
        if len(self._numbers) > known:
            self._learn([*islice(reversed(self._numbers), len(self._numbers) - known)][::-1])
        sizes = self._sizes.values.take(numbers)
        ends = np.cumsum(sizes)
        # Where each term is in the arena: the run's place there, instead of its place here.
        shifts = self._starts.values.take(numbers) - ends + sizes
        places = np.arange(ends[-1] if len(ends) else 0)
        places += np.repeat(shifts, sizes)
        until = np.concatenate(([0], ends))[np.cumsum(runs_of_text)]
        return TermRows(self._rows.values.take(places).astype(np.int64), np.diff(until, prepend=0))

    @property
    def _must_forget(self) -> bool:
        # Numbers without rows: a call was interrupted.
        return (
            self._lexicon.is_full
            or self._used_bytes > self._memory_bytes
            or len(self._numbers) != len(self._starts)
        )

    def _split(self, texts: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
        """Return the runs of all texts, and how many each text has; a run may be empty."""
        units = np.frombuffer(SEPARATOR.join([*texts, ""]).encode(_UTF16), dtype="<u2")
        ends = np.flatnonzero(units == ord(SEPARATOR))
        split = self._line_at_separators.take(units)
        is_limit = split == ord(SEPARATOR)
        # Of several limits side by side one is enough.
        repeated = np.flatnonzero(is_limit[1:] & is_limit[:-1]) + 1
        if repeated.size:
            split, is_limit = np.delete(split, repeated), np.delete(is_limit, repeated)
            ends -= np.searchsorted(repeated, ends, side="right")
        runs = split.tobytes().decode(_UTF16).split(SEPARATOR)
        runs.pop()  # after the last end
        limits = np.flatnonzero(is_limit)
        return runs, np.diff(np.searchsorted(limits, ends, side="right"), prepend=0)

    def _learn(self, runs: list[str]) -> None:
        """Segment the runs that have got their numbers last, in this order."""
        cut = self._segmenter.cut_all(
            [
                _BETWEEN.join([*runs[start : start + _RUNS_A_CALL], ""])
                for start in range(0, len(runs), _RUNS_A_CALL)
            ]
        )
        rows = self._lexicon.rows(encode(map(SEPARATOR.join, cut)))
        is_between = rows == self._lexicon[self._between]
        starts = len(self._rows) + np.flatnonzero(is_between)
        terms = np.diff(np.flatnonzero(is_between), prepend=-1) - 1
        self._starts.extend(starts - terms)
        self._sizes.extend(terms)
        self._rows.extend(rows)
        self._used_bytes += (
            len(runs) * _OVERHEAD_BYTES
            + sum(map(len, runs)) * _CHARACTER_BYTES
            + len(rows) * _TERM_BYTES
        )

    def _rows_of_whole_texts(self, texts: Sequence[str]) -> TermRows:
        cut = self._segmenter.cut_all(texts)
        sizes = np.array([len(terms) for terms in cut], dtype=np.int64)
        joined = [SEPARATOR.join(terms) for terms in cut if terms]
        return TermRows(self._lexicon.rows(encode(joined)), sizes)

    def _forget(self) -> None:
        self._used_bytes = 0
        # An empty run has no terms.
        # A new run gets the next number by being asked for, which is all done in C.
        self._numbers = defaultdict(count(1).__next__, {"": 0})
        self._starts = GrowingColumn(np.dtype(np.int64))
        self._sizes = GrowingColumn(np.dtype(np.int64))
        self._rows = GrowingColumn(np.dtype(np.int32))
        self._starts.extend(np.zeros(1, dtype=np.int64))
        self._sizes.extend(np.zeros(1, dtype=np.int64))
