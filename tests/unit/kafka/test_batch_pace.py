"""Tests of the pace of batches."""

from __future__ import annotations

import pytest

from streams.worker.consume import (
    GATHER_SECONDS,
    GATHER_SECONDS_MAX,
    PARTITION_SECONDS,
    BatchPace,
)
from tests.rigs.manual_clock import ManualClock


def paced(
    records: int,
    every_seconds: float,
    *,
    partitions: int = 1,
    fast: float = 300.0,
    is_full: bool = False,
) -> float:
    """Return how long the next batch waits after a second of batches of so many records."""
    clock = ManualClock()
    pace = BatchPace(clock, fast=fast)
    for _ in range(round(1.0 / every_seconds)):
        clock.now += every_seconds
        pace.began(records, partitions, is_full=is_full)
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


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (2, GATHER_SECONDS),
        (4, 4 * PARTITION_SECONDS),
        (16, GATHER_SECONDS_MAX),
        (64, GATHER_SECONDS_MAX),
    ],
)
def test_batches_of_many_partitions_are_gathered_for_longer(
    partitions: int, expected: float
) -> None:
    """Given a fast stream, then the wait grows with the partitions in a batch, to its limit."""
    assert paced(40, 0.02, partitions=partitions) == pytest.approx(expected)
    assert paced(1, 0.01, partitions=partitions) == 0.0


def test_what_is_fast_can_be_chosen() -> None:
    """Given a hundred records a second, then they are gathered where that is fast."""
    assert paced(1, 0.01, fast=50.0) == pytest.approx(GATHER_SECONDS)
    assert paced(1, 0.05, fast=50.0) == 0.0


def test_full_batches_follow_each_other() -> None:
    """Given a backlog, so that more waits than a batch takes, then none waits."""
    assert paced(250, 0.05, is_full=True) == 0.0


def test_the_wait_ends() -> None:
    """Given a fast stream, when the time to gather has passed, then the next batch may begin."""
    clock = ManualClock()
    pace = BatchPace(clock)
    pace.began(500)
    clock.now += GATHER_SECONDS / 2
    assert pace.seconds() == pytest.approx(GATHER_SECONDS / 2)
    clock.now += GATHER_SECONDS
    assert pace.seconds() == 0.0
