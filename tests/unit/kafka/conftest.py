from __future__ import annotations

from tests.rigs.async_tests import pytest_pyfunc_call, runner

__all__ = ["pytest_pyfunc_call", "runner"]
