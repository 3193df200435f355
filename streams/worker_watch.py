"""Looks at a worker from beside it, every two seconds: lag, stalls, the broker, the disk.

It has a thread of its own, for what it watches may stand still: the consumer, the agents, the event
loop. What it finds goes to the metrics and to the health of the worker; each change of state is one
line of the log.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streams.broker_watermarks import BrokerWatermarks
from streams.consumer_lag import Lag, lag_of
from streams.errors import BrokerUnavailableError
from streams.health import Health
from streams.metrics import Metrics
from streams.read_order import Place
from streams.stall_detector import Stall, StallDetector

logger = logging.getLogger(__name__)

_EVERY_SECONDS: Final = 2.0
_STOP_SECONDS: Final = 5.0
_FAILURES: Final = 10
"""Failures of the watch itself that are told apart; more would be one with a number in it."""


class WorkerWatch:
    """Watches while it is entered."""

    def __init__(
        self,
        positions: Callable[[], Mapping[Place, int | None]],
        opening: Callable[[], bool],
        broker: BrokerWatermarks,
        health: Health,
        metrics: Metrics,
        state_path: Path,
        stall_seconds: float,
    ) -> None:
        """Begin with ``__enter__``.

        ``positions`` tells up to where each assigned partition is done, None where that is not
        known; ``opening``, whether shards have yet to catch up. ``state_path`` is on the disk whose
        room is measured.
        """
        self._positions = positions
        self._opening = opening
        self._broker = broker
        self._health = health
        self._metrics = metrics
        self._state_path = state_path
        self._detector = StallDetector(stall_seconds)
        self._broker_up: bool | None = None
        self._stalls: Sequence[Stall] = ()
        self._failures: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, at the latest when a question under way has timed out."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            for look in (self.look_at_disk, self.look_at_lag):
                try:
                    look()
                except Exception as error:  # noqa: BLE001 - nothing may end the watch
                    self._note_failure(error)
            self._stop.wait(_EVERY_SECONDS)

    def look_at_disk(self) -> None:
        """Measure the room on the disk of the state."""
        disk = shutil.disk_usage(self._state_path)
        self._metrics.state_disk(disk.free, disk.total)

    def look_at_lag(self) -> None:
        """Ask the broker for lag, and say what stands still."""
        try:
            with self._metrics.stage("watch"):
                lags = self._lags()
        except BrokerUnavailableError as error:
            self._note_broker(up=False, why=str(error))
            self._detector.pause()
            self._note_stalls([])
            return
        self._note_broker(up=True)
        self._metrics.lag({place: lag.messages for place, lag in lags.items()})
        if self._opening():
            self._detector.pause()
            self._note_stalls([])
        else:
            self._note_stalls(self._detector.look(lags, time.monotonic()))

    def _lags(self) -> dict[Place, Lag]:
        positions = self._positions()
        unknown = [place for place, position in positions.items() if position is None]
        known = {**positions, **self._broker.committed(unknown)}
        watermarks = self._broker.of(known)
        return {place: lag_of(known[place], marks) for place, marks in watermarks.items()}

    def _note_failure(self, error: Exception) -> None:
        """Log what the watch itself fails of, once and not every two seconds."""
        if repr(error) not in self._failures and len(self._failures) < _FAILURES:
            self._failures.add(repr(error))
            logger.error("the watch of this worker fails, and goes on", exc_info=error)

    def _note_broker(self, *, up: bool, why: str = "") -> None:
        if up and self._broker_up is False:
            logger.warning("the broker answers again")
        elif not up and self._broker_up is not False:
            logger.warning(
                "the broker does not answer (%s): lag stays as it was last heard; this worker "
                "waits for it, and stays alive",
                why,
            )
        self._broker_up = up
        self._metrics.broker_up(up=up)

    def _note_stalls(self, stalls: Sequence[Stall]) -> None:
        if stalls and not self._stalls:
            logger.error(
                "stalled, /healthz fails from now on: %s (stall_seconds=%g)",
                "; ".join(map(str, stalls)),
                self._detector.limit_seconds,
            )
        elif self._stalls and not stalls:
            logger.warning("no longer stalled")
        self._stalls = stalls
        self._health.stalled(stalls)
        self._metrics.stalled_partitions(len(stalls))
