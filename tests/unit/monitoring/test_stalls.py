"""A stall: records to process, and no progress for too long. Nothing else is one."""

from __future__ import annotations

from simhash_core.documents import TopicPartition
from streams.monitoring.health import PartitionLag, Stall, StallDetector

RAW = TopicPartition("raw", 0)
LOG = TopicPartition("log", 0)


def test_no_progress_before_messages_is_a_stall() -> None:
    """Given a limit of 120 s, when a partition with records makes no progress for just that long,
    then it is a stall, with all an operator needs in one line; it ends when the position moves.
    """
    detector = StallDetector(120)
    stands = {RAW: PartitionLag(position=7, messages=5, readable=5)}

    assert detector.update(stands, now=1000) == []
    assert detector.update(stands, now=1119.9) == []
    stalls = detector.update(stands, now=1120)

    assert stalls == [Stall(RAW, 120, 7, 5)]
    for part in ("raw/0", "120 s", "offset 7", "5 records"):
        assert part in str(stalls[0])
    assert detector.update({RAW: PartitionLag(8, 4, 4)}, now=1122) == []


def test_progress_is_no_stall_however_large_the_lag() -> None:
    """Given a lag that grows while the position moves, however slowly, then there is no stall."""
    detector = StallDetector(120)
    for minute in range(60):
        lags = {RAW: PartitionLag(minute, 1000 * minute + 1, 1000 * minute + 1)}
        assert detector.update(lags, now=60.0 * minute) == []


def test_rest_is_no_stall() -> None:
    """Given a quiet night, when a record comes, then the timer starts with it."""
    detector = StallDetector(120)
    assert detector.update({RAW: PartitionLag(7, 0, 0)}, now=0) == []
    assert detector.update({RAW: PartitionLag(7, 0, 0)}, now=30_000) == []
    assert detector.update({RAW: PartitionLag(7, 1, 1)}, now=30_002) == []
    assert detector.update({RAW: PartitionLag(7, 1, 1)}, now=30_121) == []
    assert len(detector.update({RAW: PartitionLag(7, 1, 1)}, now=30_122)) == 1


def test_what_cannot_be_read_yet_is_no_stall() -> None:
    """Given records after the start of an open transaction, then no stall: a restart of the worker
    would not end that transaction.
    """
    detector = StallDetector(120)
    for now in (0, 200, 400):
        assert detector.update({RAW: PartitionLag(7, messages=90, readable=0)}, now) == []


def test_a_pause_restarts_the_timer() -> None:
    """Given a partition without progress while the broker is down, when it is back, then the worker
    has the whole time again.
    """
    detector = StallDetector(120)
    stands = {RAW: PartitionLag(7, 5, 5)}
    detector.update(stands, now=0)
    detector.pause()

    assert detector.update(stands, now=300) == []
    assert detector.update(stands, now=419) == []
    assert len(detector.update(stands, now=420)) == 1


def test_one_of_several_partitions() -> None:
    """Given one partition that is stuck and one that moves, then only the first is named; when it
    has moved to another worker, then none is.
    """
    detector = StallDetector(60)
    for now in (0, 30):
        assert (
            detector.update({RAW: PartitionLag(now, 9, 9), LOG: PartitionLag(3, 2, 2)}, now) == []
        )

    stalls = detector.update({RAW: PartitionLag(60, 9, 9), LOG: PartitionLag(3, 2, 2)}, 60)

    assert [stall.partition for stall in stalls] == [LOG]
    assert detector.update({RAW: PartitionLag(99, 9, 9)}, 90) == []
