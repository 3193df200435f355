"""A stall: records to process, and no progress for too long. Nothing else is one."""

from __future__ import annotations

from simhash_core.documents import TopicPartition
from streams.monitoring.health import PartitionLag, Stall, StallDetector

RAW = TopicPartition("raw", 0)
LOG = TopicPartition("log", 0)


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


def test_progress_with_growing_lag_is_no_stall() -> None:
    detector = StallDetector(120)
    for minute in range(60):
        lags = {RAW: PartitionLag(minute, 1000 * minute + 1, 1000 * minute + 1)}
        assert detector.update(lags, now=60.0 * minute) == []


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
    assert detector.update(stands, now=300) == []
    assert detector.update(stands, now=419) == []
    assert len(detector.update(stands, now=420)) == 1


def test_only_the_stalled_partition_is_named_while_it_is_assigned() -> None:
    detector = StallDetector(60)
    for now in (0, 30):
        assert (
            detector.update({RAW: PartitionLag(now, 9, 9), LOG: PartitionLag(3, 2, 2)}, now) == []
        )
    stalls = detector.update({RAW: PartitionLag(60, 9, 9), LOG: PartitionLag(3, 2, 2)}, 60)
    assert [stall.partition for stall in stalls] == [LOG]
    assert detector.update({RAW: PartitionLag(99, 9, 9)}, 90) == []
