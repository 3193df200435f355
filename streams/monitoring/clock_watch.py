"""Notices that the machine's clock is set back, after which Kafka clients stand still.

librdkafka (2.16) waits until a time of the wall clock, also in calls with a time limit. If the
clock is set back, each wait that has begun takes longer by as much: nothing is read, and no
heartbeat is sent. A new process has no such waits. A clock that is set forward only ends waits
early, and one that is slowed down does no harm either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Self

LIMIT_SECONDS: Final = 10.0  # about what a restart takes: waiting for less is as good
_INTERVAL_SECONDS: Final = 1.0


def wall_clock() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)


class ClockWatch:
    """Compares the wall clock with the monotonic one, in a thread of its own.

    All other threads may stand still when it matters.
    """

    def __init__(
        self,
        on_set_back: Callable[[float], None],  # called with the seconds, in the thread
        wall: Callable[[], float] = wall_clock,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_set_back = on_set_back
        self._wall = wall
        self._now = now
        self._ahead = wall() - now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_SECONDS):
            self.check()

    def check(self) -> None:
        before, self._ahead = self._ahead, self._wall() - self._now()
        set_back = before - self._ahead
        if set_back > LIMIT_SECONDS:
            self._on_set_back(set_back)
