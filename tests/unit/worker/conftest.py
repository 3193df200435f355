from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.unit.worker.hand_driven import HandDriven, quick

__all__ = ["quick"]


@pytest.fixture
def worker(runner: asyncio.Runner, quick: None) -> Iterator[HandDriven]:  # noqa: ARG001 - patches
    """Run a worker without shards; it must not have failed in the end."""
    worker = HandDriven()
    running = worker.running()
    runner.run(running.__aenter__())
    yield worker
    runner.run(running.__aexit__(None, None, None))
