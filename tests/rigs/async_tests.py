"""Runs tests that are coroutines, each on the event loop of its ``runner``.

A pytest plugin module: tests/conftest.py lists it in `pytest_plugins`.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator

import pytest

WAIT_SECONDS = 60.0


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "this did not come to be in time"
        await asyncio.sleep(0.001)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    runner: asyncio.Runner = pyfuncitem._request.getfixturevalue("runner")
    names = pyfuncitem._fixtureinfo.argnames
    runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
