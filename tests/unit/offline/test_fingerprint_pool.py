"""The pool of fingerprint processes while it starts: signals, and what it imports.

A terminal sends Ctrl-C to all processes of a command, as ``timeout`` sends SIGTERM.
"""

from __future__ import annotations

import os
import signal
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from streams.offline.fingerprint_pool import started_pool
from streams.settings.settings import Settings
from tests.rigs.waiting import await_that

SECONDS_MAX = 120.0

SERVER: Any = forkserver._forkserver


@pytest.fixture(autouse=True)
def _no_server_of_another_test() -> None:
    SERVER._stop()


def signal_server(number: signal.Signals) -> int:
    """Send a signal to the server as soon as it runs; return its process id."""
    await_that(lambda: SERVER._forkserver_pid is not None)
    pid: int = SERVER._forkserver_pid
    os.kill(pid, number)
    return pid


def test_ctrl_c_does_not_end_the_server_that_still_loads() -> None:
    with started_pool(Settings(), 2) as pool:
        assert pool is not None
        server = signal_server(signal.SIGINT)
        assert pool.submit(os.getppid).result(SECONDS_MAX) == server


def test_a_server_that_ends_while_it_loads_is_no_error_of_a_thread() -> None:
    with started_pool(Settings(), 2):
        signal_server(signal.SIGTERM)


def test_files_of_the_current_folder_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("streams.py", "queue.py"):
        (tmp_path / name).write_text("from pathlib import Path; Path('ran').touch()")
    monkeypatch.chdir(tmp_path)
    with started_pool(Settings(), 2) as pool:
        assert pool is not None
        assert pool.submit(os.path.exists, "ran").result(SECONDS_MAX) is False
    assert "PYTHONSAFEPATH" not in os.environ
