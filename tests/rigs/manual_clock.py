"""A clock that a test moves by hand."""

from __future__ import annotations


class ManualClock:
    """Replaces ``time.monotonic``; ``now`` is in seconds."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
