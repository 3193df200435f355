"""Fixtures of the torture's tests."""

from __future__ import annotations

import pytest

from tests.rigs.required_tools import give_up
from tests.torture.enclosure import missing_tool, why_no_enclosure


@pytest.fixture(scope="session")
def enclosure_required() -> None:
    """Skip the test if no network namespaces can be created.

    It fails only if a required tool is missing, because rights cannot be installed.
    """
    reason = why_no_enclosure()
    if reason is None:
        return
    if reason == missing_tool():
        give_up(reason)
    pytest.skip(reason)
