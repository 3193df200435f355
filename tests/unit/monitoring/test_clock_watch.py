"""A clock that is set back is noticed, and no other change of it is."""

from __future__ import annotations

import time

from streams.monitoring.clock_watch import ClockWatch, wall_clock


class Clocks:
    def __init__(self) -> None:
        self.wall, self.now = 1_700_000_000.0, 5.0
        self.set_back: list[float] = []
        self.watch = ClockWatch(self.set_back.append, lambda: self.wall, lambda: self.now)

    def after(self, seconds: float, *, shift: float = 0.0) -> list[float]:
        """Return by how much the clock was set back in these seconds, as far as it is noticed."""
        self.set_back.clear()
        self.now += seconds
        self.wall += seconds + shift
        self.watch.check()
        return list(self.set_back)


def test_a_clock_that_is_set_back_is_noticed_once() -> None:
    clocks = Clocks()
    assert clocks.after(1.0) == []
    assert clocks.after(1.0, shift=-300.0) == [300.0]
    assert clocks.after(1.0) == []
    assert clocks.after(1.0, shift=-86_400.0) == [86_400.0]


def test_a_clock_that_goes_forward_stands_still_or_is_adjusted_does_no_harm() -> None:
    clocks = Clocks()
    for shift in (86_400.0, -5.0, -0.5, 300.0):
        assert clocks.after(1.0, shift=shift) == []
    assert clocks.after(600.0) == [], "the process was stopped"


def test_the_wall_clock_is_that_of_native_code() -> None:
    assert abs(wall_clock() - time.time()) < 60
