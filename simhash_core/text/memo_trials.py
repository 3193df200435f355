"""Whether a memo is worth its cost: it is tried, and rests for a while where it does not pay.

To look up and remember the runs of a text costs as much as a third of its segmentation. Where near
copies come, or texts of one style, more than that is saved; where all texts are distinct, less. No
more can be known than by trying. So trials follow each other for as long as they pay. After one
that does not the memo rests, 16 times as long as the trial took: in the worst stream it works on
every 17th text. The next trial is twice as long as the last, up to what the memo remembers, so that
copies of documents far back are noticed as well.

What is decided here changes how long a fingerprint takes, and never what it is.
"""

from __future__ import annotations

from typing import Final

SHORTEST_TRIAL: Final = 1 << 18
"""Characters of text; the first trial, and each that follows one that paid."""
LONGEST_TRIAL: Final = 1 << 22
"""About as many characters as a memo remembers."""
REST: Final = 16
"""How many times as long as the trial a memo rests that did not pay."""
# Of the characters; measured on distinct texts: at .25 a memo costs, at .39 it saves.
_WORTH_IT: Final = 1 / 3


class MemoTrials:
    """Counts what a memo saves, by characters of text."""

    def __init__(self) -> None:
        """Begin with a trial."""
        self._length = SHORTEST_TRIAL
        self._rest = 0
        self._begin_trial()

    @property
    def is_on(self) -> bool:
        """Whether the memo is in use."""
        return self._rest <= 0

    def count(self, characters: int, saved: int) -> None:
        """Count some text that was segmented, ``saved`` of its characters from the memo."""
        if not self.is_on:
            self._rest -= characters
            return
        self._done += characters
        # A memo begins empty: what counts is what it saves once it has been filled.
        if 2 * self._done > self._length:
            self._counted += characters
            self._saved += saved
        if self._done >= self._length:
            self._end_trial()

    def _begin_trial(self) -> None:
        self._done = self._counted = self._saved = 0

    def _end_trial(self) -> None:
        if self._saved < self._counted * _WORTH_IT:
            self._rest = REST * self._length
            self._length = min(2 * self._length, LONGEST_TRIAL)
        else:
            self._length = SHORTEST_TRIAL
        self._begin_trial()
