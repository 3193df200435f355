"""Waits for another thread, process or broker."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 90.0
LOOK_SECONDS = 0.05


def await_that(
    holds: Callable[[], object], seconds: float = SECONDS, *, shows: Callable[[], object] = str
) -> None:
    """Wait until a condition holds; fail after ``seconds`` with the text that ``shows`` returns."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, shows()
        time.sleep(LOOK_SECONDS)
