"""When to begin the next batch, so that a fast stream comes in fewer and larger ones.

Each batch costs some milliseconds of work and several requests, however small it is. A slow stream
is not delayed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

GATHER_SECONDS: Final = 0.02
"""From the beginning of one batch of a fast stream to that of the next."""

_FAST: Final = 300.0
"""Records a second from which on a stream is fast."""

_MEMORY_SECONDS: Final = 0.25
"""The rate is a mean that forgets what is older than about this."""


class BatchPace:
    """The pace of one kind of batches. Full batches follow each other at once."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Begin with a batch that may begin at once. ``now``: a clock, in seconds."""
        self._now = now
        self._began = -math.inf
        self._rate = 0.0
        self._gathers = False

    def began(self, records: int, limit: int) -> None:
        """Note that a batch begins. ``limit``: of its records."""
        now = self._now()
        self._rate *= math.exp((self._began - now) / _MEMORY_SECONDS)
        self._rate += records / _MEMORY_SECONDS
        self._began = now
        self._gathers = self._rate > _FAST and records < limit

    def seconds(self) -> float:
        """Return how long to wait before the next batch begins."""
        if not self._gathers:
            return 0.0
        return max(0.0, self._began + GATHER_SECONDS - self._now())
