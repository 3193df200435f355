"""Fixtures for tests of commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.rigs.brokers.broker import Broker


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test in an empty directory, on 80 columns, without variables of ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in os.environ:
        if name.startswith("FIRSTSEEN_"):
            monkeypatch.delenv(name)


@pytest.fixture
def topic(broker: Broker) -> str:
    """Create a topic of one partition on each broker, so that records keep their order."""
    return broker.new_topic("topic")
