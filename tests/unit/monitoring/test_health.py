"""Liveness, lag and stalls: what makes a worker unhealthy, with its reason, and what does not."""

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
    health.stalled([Stall(RAW, 130, 7, 5), Stall(TopicPartition("raw", 1), 121, 9, 1)])
    why = health.why_dead() or ""
    for part in ("raw/0", "130 s", "offset 7", "raw/1", "121 s", "offset 9"):
        assert part in why
    health.stalled([])
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


def test_stall_is_no_progress_with_messages_until_the_limit() -> None:
    detector = StallDetector(120)
    stands = {RAW: PartitionLag(position=7, messages=5, readable=5)}
    assert detector.update(stands, now=1000) == []
    assert detector.update(stands, now=1119.9) == []
    stalls = detector.update(stands, now=1120)
    assert stalls == [Stall(RAW, 120, 7, 5)]
    for part in ("raw/0", "120 s", "offset 7", "5 records"):
        assert part in str(stalls[0])
    assert detector.update({RAW: PartitionLag(8, 4, 4)}, now=1122) == []


def test_stall_is_timed_from_the_first_message_after_a_rest() -> None:
    detector = StallDetector(120)
    assert detector.update({RAW: PartitionLag(7, 0, 0)}, now=0) == []
    assert detector.update({RAW: PartitionLag(7, 0, 0)}, now=30_000) == []
    assert detector.update({RAW: PartitionLag(7, 1, 1)}, now=30_002) == []
    assert detector.update({RAW: PartitionLag(7, 1, 1)}, now=30_121) == []
    assert len(detector.update({RAW: PartitionLag(7, 1, 1)}, now=30_122)) == 1


def test_messages_behind_an_open_transaction_are_no_stall() -> None:
    detector = StallDetector(120)
    for now in (0, 200, 400):
        assert detector.update({RAW: PartitionLag(7, messages=90, readable=0)}, now) == []


def test_pause_restarts_the_timer_of_a_stall() -> None:
    detector = StallDetector(120)
    stands = {RAW: PartitionLag(7, 5, 5)}
    detector.update(stands, now=0)
    detector.pause()
    stalls = [detector.update(stands, now) for now in (300, 419, 420)]
    assert [len(each) for each in stalls] == [0, 0, 1]


def test_only_the_stalled_partition_is_named_while_it_is_assigned() -> None:
    detector = StallDetector(60)
    stands = PartitionLag(3, 2, 2)
    for now in (0, 30):
        assert detector.update({RAW: PartitionLag(now, 9, 9), LOG: stands}, now) == []
    stalls = detector.update({RAW: PartitionLag(60, 9, 9), LOG: stands}, 60)
    assert [stall.partition for stall in stalls] == [LOG]
    assert detector.update({RAW: PartitionLag(99, 9, 9)}, 90) == []
