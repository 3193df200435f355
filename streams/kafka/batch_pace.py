"""When to begin the next batch, so that a fast stream comes in fewer and larger ones.

Each batch costs some milliseconds of work and several requests, however small it is, and each
partition in it a packet or a request of its own: batches of many partitions are gathered for
longer. A slow stream is not delayed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

GATHER_SECONDS: Final = 0.02
"""From the beginning of one batch of a fast stream to that of the next, at least."""
GATHER_SECONDS_MAX: Final = 0.08
PARTITION_SECONDS: Final = 0.01
"""The same for each partition in the batch, between these two."""

_FAST: Final = 300.0
"""Records a second from which on a stream is fast."""

_MEMORY_SECONDS: Final = 0.25
"""The rate is a mean that forgets what is older than about this."""


class BatchPace:
    """The pace of one kind of batches. Full batches follow each other at once."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, fast: float = _FAST) -> None:
        """Begin with a batch that may begin at once.

        ``now``: a clock, in seconds. ``fast``: records a second from which on batches are gathered.
        """
        self._now = now
        self._fast = fast
        self._began = -math.inf
        self._rate = 0.0
        self._gather_seconds = 0.0

    def began(self, records: int, partitions: int = 1, *, is_full: bool = False) -> None:
        """Note that a batch begins. ``partitions``: in it. ``is_full``: others wait already."""
        now = self._now()
        self._rate *= math.exp((self._began - now) / _MEMORY_SECONDS)
        self._rate += records / _MEMORY_SECONDS
        self._began = now
        self._gather_seconds = 0.0
        if self._rate > self._fast and not is_full:
            wanted = max(GATHER_SECONDS, PARTITION_SECONDS * partitions)
            self._gather_seconds = min(wanted, GATHER_SECONDS_MAX)

    def seconds(self) -> float:
        """Return how long to wait before the next batch begins."""
        if not self._gather_seconds:
            return 0.0
        return max(0.0, self._began + self._gather_seconds - self._now())
