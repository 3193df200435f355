"""The size of the fullest bucket that look-ups read lately: is a bucket hot?"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

KEPT_SECONDS: Final = 300.0
_SAMPLES_LIMIT: Final = 1024


class FullestBuckets:
    """Sizes of the fullest bucket of some documents; noted and read from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with none."""
        self._clock = clock
        self._lock = threading.Lock()
        self._sizes: deque[tuple[float, int]] = deque(maxlen=_SAMPLES_LIMIT)

    def note(self, documents: int) -> None:
        """Note how many documents the fullest bucket of a document has."""
        with self._lock:
            self._sizes.append((self._clock(), documents))

    def fullest(self) -> int | None:
        """Return the largest of the last five minutes; None where nothing was noted."""
        oldest = self._clock() - KEPT_SECONDS
        with self._lock:
            return max((size for at, size in self._sizes if at >= oldest), default=None)
