"""Liveness, lag and stalls: what makes a worker unhealthy, with the reason, and what does not."""

from __future__ import annotations

import pytest

from simhash_core.documents import TopicPartition
from streams.monitoring.health import Health, PartitionLag, Stall, StallDetector, lag_of
from streams.topics.watermarks import Watermarks
from tests.rigs.manual_clock import ManualClock

RAW = TopicPartition("raw", 0)
LOG = TopicPartition("log", 0)


def test_silent_event_loop_is_dead_until_it_runs_again() -> None:
    clock = ManualClock()
    health = Health(120, lambda: None, clock)
    clock.now += 100_000
    assert health.why_dead() is None, "it has not begun"
    health.beat()
    clock.now += 119
    assert health.why_dead() is None
    clock.now += 1
    assert "120 s" in (health.why_dead() or "")
    health.beat()
    assert health.why_dead() is None


def test_reason_names_every_stall() -> None:
    health = Health(120, lambda: None)
    health.stalls = [Stall(RAW, 130, 7, 5), Stall(TopicPartition("raw", 1), 121, 9, 1)]
    why = health.why_dead() or ""
    for part in ("raw/0", "130 s", "offset 7", "5 records", "raw/1", "121 s", "offset 9"):
        assert part in why
    health.stalls = []
    assert health.why_dead() is None


@pytest.mark.parametrize(
    ("position", "watermarks", "lag"),
    [
        (4, Watermarks(0, 10, 10), PartitionLag(4, 6, 6)),
        (10, Watermarks(0, 10, 10), PartitionLag(10, 0, 0)),
        (4, Watermarks(7, 10, 10), PartitionLag(7, 3, 3)),
        (None, Watermarks(7, 10, 10), PartitionLag(7, 3, 3)),
        (0, Watermarks(0, 0, 0), PartitionLag(0, 0, 0)),
        (4, Watermarks(0, 6, 10), PartitionLag(4, 6, 2)),
        (50, Watermarks(0, 10, 10), PartitionLag(50, 0, 0)),
    ],
    ids=["behind", "at end", "deleted", "uncommitted", "empty", "transaction", "re-created"],
)
def test_lag_counts_from_the_later_of_position_and_start(
    position: int | None, watermarks: Watermarks, lag: PartitionLag
) -> None:
    assert lag_of(position, watermarks) == lag


RESTS, BEGINS, STANDS = (PartitionLag(7, number, number) for number in (0, 1, 5))
HIDDEN = PartitionLag(7, messages=90, readable=0)


@pytest.mark.parametrize(
    "history",
    [
        [(1000, STANDS, 0), (1119.9, STANDS, 0), (1120, STANDS, 120), (1122, (8, 4, 4), 0)],
        [(0, RESTS, 0), (30_000, RESTS, 0), (30_002, BEGINS, 0), (30_121, BEGINS, 0)],
        [(0, RESTS, 0), (30_002, BEGINS, 0), (30_122, BEGINS, 120)],
        [(0, HIDDEN, 0), (200, HIDDEN, 0), (400, HIDDEN, 0)],
        [(0, STANDS, 0), (200, None, 0), (300, STANDS, 0), (419, STANDS, 0), (420, STANDS, 120)],
    ],
    ids=["stands", "just begun", "begun long ago", "open transaction", "pause"],
)
def test_stall_is_no_progress_with_readable_records_for_the_limit(
    history: list[tuple[float, tuple[int, int, int] | None, float]],
) -> None:
    """Each step has a time, the lag or None for a pause, and the expected seconds of the stall."""
    detector = StallDetector(120)
    for now, lag, seconds in history:
        if lag is None:
            detector.pause()
            continue
        stalls = detector.update({RAW: PartitionLag(*lag)}, now)
        assert stalls == ([Stall(RAW, seconds, lag[0], lag[2])] if seconds else []), now


def test_only_the_stalled_partition_is_named_while_it_is_assigned() -> None:
    detector = StallDetector(60)
    for now in (0, 30):
        assert detector.update({RAW: PartitionLag(now, 9, 9), LOG: STANDS}, now) == []
    stalls = detector.update({RAW: PartitionLag(60, 9, 9), LOG: STANDS}, 60)
    assert [stall.partition for stall in stalls] == [LOG]
    assert detector.update({RAW: PartitionLag(99, 9, 9)}, 90) == []
