"""Tools that a machine may lack: without one, tests that need it are skipped, but fail in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def give_up(reason: str) -> NoReturn:
    """Skip the test, or fail it if tools are required (``FIRSTSEEN_REQUIRE_TOOLS=1``)."""
    if os.environ.get("FIRSTSEEN_REQUIRE_TOOLS") == "1":
        pytest.fail(f"FIRSTSEEN_REQUIRE_TOOLS=1, but {reason}", pytrace=False)
    pytest.skip(reason)
