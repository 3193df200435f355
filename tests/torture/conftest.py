"""Fixtures of the torture's tests."""

from __future__ import annotations

import pytest

from tests.rigs.required_tools import give_up
from tests.torture.enclosure import missing_tool, why_no_enclosure


@pytest.fixture(scope="session")
def enclosure_required() -> None:
    """Skips the test where no network namespaces can be made.

    It fails only where a tool is missing that is required: rights cannot be installed.
    """
    reason = why_no_enclosure()
    if reason is None:
        return
    if reason == missing_tool():
        give_up(reason)
    pytest.skip(reason)
