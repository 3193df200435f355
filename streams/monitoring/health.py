"""The liveness of a worker, with the reason where it should be restarted.

A worker is alive while it has not failed, its event loop runs, and it makes progress where there
are records to process. The broker has no part in it: while it is down, a restart does not help.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from simhash_core.errors import FirstseenError
from streams.monitoring.lag import Stall


class Health:
    """Updated by the parts of a worker, read by its pages; both from any thread."""

    def __init__(
        self,
        limit_seconds: float,
        failure: Callable[[], FirstseenError | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow the event loop ``limit_seconds`` between turns; ``failure``: of the worker."""
        self._limit_seconds = limit_seconds
        self._failure = failure
        self._clock = clock
        self._beat: float | None = None
        self._stalls: tuple[Stall, ...] = ()

    def beat(self) -> None:
        """Note that the event loop runs."""
        self._beat = self._clock()

    def stalled(self, stalls: Sequence[Stall]) -> None:
        """Note the partitions that make no progress now."""
        self._stalls = tuple(stalls)

    @property
    def loop_silence_seconds(self) -> float:
        """How long the event loop has not run; 0 before its first turn."""
        beat = self._beat
        return 0.0 if beat is None else self._clock() - beat

    def why_dead(self) -> str | None:
        """Return why the worker should be restarted; None where it should not."""
        failure = self._failure()
        if failure is not None:
            return str(failure)
        silence = self.loop_silence_seconds
        if silence >= self._limit_seconds:
            return f"the event loop has not run for {silence:.0f} s"
        if self._stalls:
            return "stalled: " + "; ".join(map(str, self._stalls))
        return None
