"""The plugins of all tests."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

pytest_plugins = [
    "tests.rigs.async_tests",
    "tests.rigs.brokers.fixtures",
    "tests.rigs.ended_processes",
    "tests.rigs.hypothesis_profiles",
]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what it puts in the background so, and every process that
    # a test starts would inherit it: Ctrl-C could not be tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files that take long first where several run at a time, so that none is waited for last.

    ``--no-loadscope-reorder`` keeps xdist to this order.
    """
    if not config.getoption("loadscopereorder", default=True):
        long = {marker: _files_with(marker, items) for marker in ("slow", "kafka")}
        items.sort(key=lambda item: (item.path not in long["slow"], item.path not in long["kafka"]))


def _files_with(marker: str, items: list[pytest.Item]) -> set[Path]:
    return {item.path for item in items if item.get_closest_marker(marker) is not None}
