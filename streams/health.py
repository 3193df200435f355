"""Whether a worker should be left alone: its liveness, with the reason where it has failed.

Alive is a worker that has not failed, whose event loop runs, and that does not stand still before
messages. The broker has no say in it: while it is away a restart helps nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from simhash_core.errors import FirstseenError
from streams.stall_detector import Stall


class Health:
    """Noted by the parts of a worker, read by its pages; any thread may do either."""

    def __init__(
        self,
        limit_seconds: float,
        failure: Callable[[], FirstseenError | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Give a silent event loop ``limit_seconds``; ``failure`` tells what the worker died of."""
        self._limit_seconds = limit_seconds
        self._failure = failure
        self._clock = clock
        self._beat: float | None = None
        self._stalls: tuple[Stall, ...] = ()

    def beat(self) -> None:
        """Note that the event loop runs."""
        self._beat = self._clock()

    def stalled(self, stalls: Sequence[Stall]) -> None:
        """Note which partitions stand still now."""
        self._stalls = tuple(stalls)

    @property
    def loop_silence_seconds(self) -> float:
        """How long the event loop has not run; 0 before it ran at all."""
        beat = self._beat
        return 0.0 if beat is None else self._clock() - beat

    def why_dead(self) -> str | None:
        """Return why the worker should be started again; None where it should not."""
        failure = self._failure()
        if failure is not None:
            return str(failure)
        silence = self.loop_silence_seconds
        if silence >= self._limit_seconds:
            return f"the event loop has not run for {silence:.0f} s"
        if self._stalls:
            return "stalled: " + "; ".join(map(str, self._stalls))
        return None
