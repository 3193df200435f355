"""What may happen with every record is logged ever less often."""

from __future__ import annotations

import logging

import pytest

from streams.worker.worker_log import RateLimitedLog


def test_lines_are_those_at_which_the_count_has_doubled(caplog: pytest.LogCaptureFixture) -> None:
    """Given something that happens a hundred times, then the first is logged, and then each time
    that the count has doubled, with the last case.
    """
    lines = RateLimitedLog(logging.getLogger("rare"), "%d skipped; the last: %s")

    with caplog.at_level(logging.WARNING):
        for number in range(1, 101):
            lines.note(f"record {number}")

    counts = [1, 2, 4, 8, 16, 32, 64]
    assert caplog.messages == [f"{n} skipped; the last: record {n}" for n in counts]


def test_nothing_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """Given batches of which most skip nothing, then only those that do are logged."""
    lines = RateLimitedLog(logging.getLogger("rare"), "%d skipped; the last: %s")

    with caplog.at_level(logging.WARNING):
        for count in (0, 0, 5, 0, 4, 1):
            lines.note("batch", count)

    assert caplog.messages == ["5 skipped; the last: batch", "10 skipped; the last: batch"]
