from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from streams.worker import assignment, clients, commit, look_up
from tests.unit.worker.hand_driven import HandDriven


@pytest.fixture
def worker(runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandDriven]:
    """Run a worker without shards, whose waits of seconds take milliseconds."""
    for module, name in (
        (assignment, "_RETRY_SECONDS"),
        (assignment, "_UNSTABLE_SECONDS"),
        (assignment, "_TOGETHER_SECONDS"),
        (assignment, "_LOOK_SECONDS"),
        (commit, "_ABORTED_WAIT_SECONDS"),
        (commit, "_STALE_WAIT_SECONDS"),
        (commit, "_MARKERS_SECONDS"),
        (clients, "_AGAIN_SECONDS"),
        (clients, "_LOWER_END_SECONDS"),
        (look_up, "_SILENT_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.002)
    monkeypatch.setattr(look_up, "_NEWS_SECONDS", 3600.0)  # a slow test has no more reports
    worker = HandDriven()
    runner.run(worker.start())
    yield worker
    runner.run(worker.stop())
