"""A stall: something to read, and no progress for too long. Nothing else is one."""

from __future__ import annotations

from streams.consumer_lag import Lag
from streams.stall_detector import Stall, StallDetector

RAW = ("raw", 0)
PROBES = ("probes", 2)


def test_no_progress_before_messages_is_a_stall() -> None:
    """Given a limit of 120 s, when a partition with messages stands for just that long, then it is
    a stall, with what an operator needs in one line; and it is over when the position moves.
    """
    detector = StallDetector(120)
    stands = {RAW: Lag(position=7, messages=5, readable=5)}

    assert detector.look(stands, now=1000) == []
    assert detector.look(stands, now=1119.9) == []
    stalls = detector.look(stands, now=1120)

    assert stalls == [Stall(RAW, 120, 7, 5)]
    assert str(stalls[0]) == "raw/0 stands at offset 7 for 120 s, with 5 messages to read"
    assert detector.look({RAW: Lag(8, 4, 4)}, now=1122) == []


def test_progress_is_no_stall_however_large_the_lag() -> None:
    """Given a lag that grows while the position moves, however slowly, then there is no stall."""
    detector = StallDetector(120)
    for minute in range(60):
        lags = {RAW: Lag(minute, 1000 * minute + 1, 1000 * minute + 1)}
        assert detector.look(lags, now=60.0 * minute) == []


def test_rest_is_no_stall() -> None:
    """Given a quiet night, when a message comes, then its clock begins with it."""
    detector = StallDetector(120)
    assert detector.look({RAW: Lag(7, 0, 0)}, now=0) == []
    assert detector.look({RAW: Lag(7, 0, 0)}, now=30_000) == []
    assert detector.look({RAW: Lag(7, 1, 1)}, now=30_002) == []
    assert detector.look({RAW: Lag(7, 1, 1)}, now=30_121) == []
    assert len(detector.look({RAW: Lag(7, 1, 1)}, now=30_122)) == 1


def test_what_cannot_be_read_yet_is_no_stall() -> None:
    """Given messages behind a transaction that somebody left open, then no stall: to start the
    worker again would not end that transaction.
    """
    detector = StallDetector(120)
    for now in (0, 200, 400):
        assert detector.look({RAW: Lag(7, messages=90, readable=0)}, now) == []


def test_a_pause_begins_anew() -> None:
    """Given a partition that stands while the broker is away, when it is back, then the worker has
    the whole time again.
    """
    detector = StallDetector(120)
    stands = {RAW: Lag(7, 5, 5)}
    detector.look(stands, now=0)
    detector.pause()

    assert detector.look(stands, now=300) == []
    assert detector.look(stands, now=419) == []
    assert len(detector.look(stands, now=420)) == 1


def test_one_of_several_partitions() -> None:
    """Given one partition that stands and one that moves, then the first alone is named; when it
    has moved to another worker, then none is.
    """
    detector = StallDetector(60)
    for now in (0, 30):
        assert detector.look({RAW: Lag(now, 9, 9), PROBES: Lag(3, 2, 2)}, now) == []

    stalls = detector.look({RAW: Lag(60, 9, 9), PROBES: Lag(3, 2, 2)}, 60)

    assert [stall.place for stall in stalls] == [PROBES]
    assert detector.look({RAW: Lag(99, 9, 9)}, 90) == []
