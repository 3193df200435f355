"""The most documents in one bucket that each shard has met lately: is a bucket hot?"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

KEPT_SECONDS: Final = 300.0
_SAMPLES: Final = 1024


class FullestBuckets:
    """Told the sizes of the buckets of some look-ups; any thread may tell or ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with none."""
        self._clock = clock
        self._lock = threading.Lock()
        self._met: dict[int, deque[tuple[float, int]]] = {}

    def note(self, shard: int, sizes: Iterable[int]) -> None:
        """Take in the sizes of the buckets of one look-up."""
        fullest = max(sizes, default=0)
        with self._lock:
            met = self._met.setdefault(shard, deque(maxlen=_SAMPLES))
            met.append((self._clock(), fullest))

    def by_shard(self) -> dict[int, int]:
        """Return the size of the fullest bucket that each shard met in the last five minutes."""
        oldest = self._clock() - KEPT_SECONDS
        with self._lock:
            found = {
                shard: max((size for at, size in met if at >= oldest), default=None)
                for shard, met in self._met.items()
            }
        return {shard: size for shard, size in found.items() if size is not None}
