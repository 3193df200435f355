"""Processes that a command starts do not run Python files of the current folder.

An installed command does not look there itself. The folder may have anyone's files, or just those
of a program with the same names.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streams.demo.worker_process import WorkerProcess
from streams.errors import ExitCode
from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.loopback_ports import free_port
from tests.unit.cli.running import SECONDS_MAX, started_as

RAN = "a file of this folder ran"


@pytest.fixture(autouse=True)
def _folder_with_python_files(empty_directory: None) -> None:
    del empty_directory
    for name in ("streams.py", "queue.py"):
        Path(name).write_text(f"raise SystemExit({RAN!r})")


def test_the_embedded_broker() -> None:
    with EmbeddedBroker() as broker:
        assert broker.is_running()


def test_a_worker_of_the_demo() -> None:
    log = Path("worker.log")
    worker = WorkerProcess(["--no-such-option"], log)
    worker.start()
    assert worker._process is not None
    assert worker._process.wait(SECONDS_MAX) == ExitCode.USAGE
    worker.stop()
    assert RAN not in log.read_text()


def test_supervised_workers() -> None:
    options = (
        "--broker",
        "127.0.0.1:1",
        "--set",
        f"web.port={free_port()}",
        "--set",
        "state_dir=s",
    )
    command = (sys.executable, "-P", "-m", "streams.cli.main", "worker", "--processes", "1")
    with started_as(*command, *options) as process:
        assert process.stderr is not None
        for line in process.stderr:
            assert RAN not in line
            if "streams.worker.process: waiting for a" in line:
                break
        process.terminate()
        process.wait(SECONDS_MAX)
