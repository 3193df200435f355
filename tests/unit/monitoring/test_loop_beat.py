"""The beat of the event loop: how late it was, and what it calls every second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry

from streams.monitoring.metrics import Metrics
from streams.monitoring.worker_watch import EVERY_SECONDS, LoopBeat


class ManualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock a test sets, and whose timers it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def turn(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()


class Beaten:
    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.lags: list[Sequence[float]] = []
        self.seconds: list[float] = []
        LoopBeat(self.loop, self.lags.append, [lambda: self.seconds.append(self.loop.now)])
        self.loop.turn()

    def after(self, seconds: float) -> Sequence[float]:
        """The lags of the beat that comes after so long."""
        before = len(self.lags)
        self.loop.now += seconds
        self.loop.turn()
        (lags,) = self.lags[before:]
        return lags


def test_late_beat_counts_the_beats_it_missed() -> None:
    beaten = Beaten()
    assert beaten.lags == [[0.0]]
    assert beaten.after(EVERY_SECONDS) == pytest.approx([0.0], abs=1e-6)
    assert beaten.after(EVERY_SECONDS + 0.7) == pytest.approx([0.7, 0.5, 0.3, 0.1])
    assert beaten.after(EVERY_SECONDS) == pytest.approx([0.0], abs=1e-6)
    beaten.loop.close()


def test_beats_missed_in_a_day_are_bounded() -> None:
    beaten = Beaten()
    assert len(beaten.after(24 * 3600)) == 5_001
    beaten.loop.close()


def test_beat_calls_what_is_due_each_second() -> None:
    beaten = Beaten()
    assert beaten.seconds == [1000.0]
    for _ in range(12):
        beaten.after(EVERY_SECONDS)
    assert beaten.seconds == pytest.approx([1000, 1001, 1002])
    beaten.after(5)
    assert beaten.seconds[3:] == [beaten.loop.now]
    beaten.loop.close()


def test_blocked_loop_is_in_the_metric() -> None:
    metrics = Metrics(CollectorRegistry())
    loop = asyncio.new_event_loop()
    LoopBeat(loop, metrics.event_loop_lag)
    loop.call_later(0.05, time.sleep, 0.6)
    loop.run_until_complete(asyncio.sleep(0.8))
    loop.close()

    def at_most(seconds: str) -> float:
        name = "firstseen_event_loop_lag_seconds_bucket"
        return metrics.registry.get_sample_value(name, {"le": seconds}) or 0.0

    assert at_most("+Inf") - at_most("0.1") >= 2, "about 0.45 s and 0.25 s late"
