"""How far a demo has come, and what a view of it must do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from streams.output.received_outputs import DuplicateOutput

Change = Callable[[DuplicateOutput], str]
"""Returns what a duplicate changed of its original, "" where that is not known."""


class Progress(NamedTuple):
    """How far the demo has come. ``share`` of the stream is from 0 to 1, None where unknown."""

    sent: int
    decided: int
    share: float | None
    unique: int
    undecidable: int
    duplicates: int
    dead_letters: int
    seconds: float
    per_second: float
    latest: Sequence[DuplicateOutput]


class View(Protocol):
    """Shows a demo while it runs."""

    def starting(self, what: str) -> None:
        """Show what the demo waits for."""

    def show(self, progress: Progress, change: Change) -> None:
        """Show how far it has come; called some times a second."""

    def finish(self) -> None:
        """Make room for what comes after it."""
