"""Events that may happen with every record are logged less and less often."""

from __future__ import annotations

import logging

import pytest

from streams.worker.worker_log import RateLimitedLog


def test_log_has_a_line_each_time_the_count_has_doubled(caplog: pytest.LogCaptureFixture) -> None:
    lines = RateLimitedLog(logging.getLogger("rare"), "%d skipped; the last: %s")
    with caplog.at_level(logging.WARNING):
        for number in range(1, 101):
            lines.note(f"record {number}")
            lines.note("none", 0)
        lines.note("batch", 50)
    counts = [1, 2, 4, 8, 16, 32, 64]
    assert caplog.messages[:-1] == [f"{n} skipped; the last: record {n}" for n in counts]
    assert caplog.messages[-1] == "150 skipped; the last: batch"
