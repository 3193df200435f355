"""A budget of work: so much at once, and it fills up again over time (a token bucket)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class WorkBudget:
    """Spent in any unit, from any thread."""

    def __init__(
        self,
        limit: float,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin full, with ``limit``."""
        self._limit = limit
        self._per_second = per_second
        self._clock = clock
        self._left = limit
        self._filled = clock()
        self._lock = threading.Lock()

    def spend(self, amount: float) -> float:
        """Take ``amount`` and return 0; or take nothing, and return the seconds to wait for it.

        More than there can ever be costs all there can be.
        """
        amount = min(amount, self._limit)
        with self._lock:
            now = self._clock()
            self._left = min(self._limit, self._left + (now - self._filled) * self._per_second)
            self._filled = now
            if amount > self._left:
                return (amount - self._left) / self._per_second
            self._left -= amount
            return 0.0
