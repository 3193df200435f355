"""Tests of the pace of batches."""

from __future__ import annotations

import pytest

from streams.kafka.batch_pace import GATHER_SECONDS, BatchPace


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def paced(records: int, every_seconds: float, *, limit: int = 1_000) -> float:
    """Return how long the next batch waits after a second of batches of so many records."""
    clock = Clock()
    pace = BatchPace(clock)
    for _ in range(round(1.0 / every_seconds)):
        clock.now += every_seconds
        pace.began(records, limit)
    return pace.seconds()


def test_nothing_waits_before_the_first_batch() -> None:
    """Given no batch yet, then the first may begin at once."""
    assert BatchPace().seconds() == 0.0


@pytest.mark.parametrize(("records", "every_seconds"), [(1, 0.01), (2, 0.01), (10, 0.05)])
def test_a_slow_stream_is_not_delayed(records: int, every_seconds: float) -> None:
    """Given 100 to 200 records a second, then a batch begins at once."""
    assert paced(records, every_seconds) == 0.0


@pytest.mark.parametrize(("records", "every_seconds"), [(1, 0.001), (5, 0.005), (50, 0.02)])
def test_a_fast_stream_is_gathered(records: int, every_seconds: float) -> None:
    """Given a thousand records a second or more, then the next batch waits."""
    assert paced(records, every_seconds) == pytest.approx(GATHER_SECONDS)


def test_full_batches_follow_each_other() -> None:
    """Given a backlog, which fills each batch, then none waits."""
    assert paced(250, 0.05, limit=250) == 0.0


def test_the_wait_ends() -> None:
    """Given a fast stream, when the time to gather has passed, then the next batch may begin."""
    clock = Clock()
    pace = BatchPace(clock)
    pace.began(500, 1_000)
    clock.now += GATHER_SECONDS / 2
    assert pace.seconds() == pytest.approx(GATHER_SECONDS / 2)
    clock.now += GATHER_SECONDS
    assert pace.seconds() == 0.0
