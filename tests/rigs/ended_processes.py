"""Makes a test that hangs in C, or ends its own process, fail by its name while all others run.

A pytest plugin module: tests/conftest.py lists it in `pytest_plugins`.

pytest-timeout fails a test by a signal, which Python does not see while a call in C does not
return. Then a thread of `faulthandler` ends the process a little later, and prints the stack of
each thread. With pytest-xdist the test fails by its name; without it, the run ends there.

Under `--dist loadfile`, pytest-xdist (3.8) runs the test that ended its process again in the next
process, and may give that process too few tests to begin. `FilesOfEndedProcesses` reassigns only
tests that have not begun, and two or more of them.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator
from contextlib import suppress
from typing import Final

import pytest
from pytest_timeout import Settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.scheduler.protocol import Scheduling
from xdist.workermanage import WorkerController

GRACE_SECONDS: Final = 30.0
"""How many seconds after its limit a test may still end by itself."""
_TO_BEGIN: Final = 2
GRACE_VARIABLE: Final = "FIRSTSEEN_TEST_GRACE_SECONDS"
"""For the test of this module."""


class ProcessLimit:
    """Ends the process of a test that the signal of pytest-timeout does not end."""

    def __init__(self) -> None:
        """Keep a copy of standard error now, because it is captured while a test runs."""
        self._standard_error = os.dup(2)
        self._grace_seconds = float(os.environ.get(GRACE_VARIABLE) or GRACE_SECONDS)
        self._settings: Settings | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            self._settings = None

    @pytest.hookimpl(wrapper=True)
    def pytest_timeout_set_timer(self, settings: Settings) -> Generator[None, object, object]:
        self._settings = settings
        faulthandler.dump_traceback_later(
            settings.timeout + self._grace_seconds, file=self._standard_error, exit=True
        )
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        """Start both limits again for the teardown of a failed test.

        pytest and pytest-timeout have stopped their own, in case somebody debugs the failure.
        """
        if self._settings is not None and not node.config.getoption("usepdb"):
            node.config.hook.pytest_timeout_set_timer(item=node, settings=self._settings)


class FilesOfEndedProcesses(LoadFileScheduling):  # type: ignore[misc] # it has no types
    """Gives the tests of an ended process to another one, except the test that ended it."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test that ran when a process ended, or None."""
        files: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        left = [
            (file, test)
            for file, tests in files.items()
            for test, has_ended in tests.items()
            if not has_ended
        ]
        if not left:
            return None
        ended_in_file, ended_in = left[0]
        files[ended_in_file][ended_in] = True
        self.workqueue.update(
            {file: tests for file, tests in files.items() if not all(tests.values())}
        )
        for other in self.assigned_work:
            self._reschedule(other)
        return ended_in

    def _assign_work_unit(self, node: WorkerController) -> None:
        # A process that has just ended gets no message: ``remove_node`` gives its tests to others.
        with suppress(OSError):
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return  # it has not reported its tests yet, and gets some when it has
        super()._reschedule(node)
        # A process begins a test only when it knows the next test, or that there is none.
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < _TO_BEGIN:
            if self.workqueue:
                self._assign_work_unit(node)
            else:
                node.shutdown()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ProcessLimit(), "limits-of-processes")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    if config.getvalue("dist") == "loadfile":
        return FilesOfEndedProcesses(config, log)
    return None
