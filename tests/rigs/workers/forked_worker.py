"""Workers forked from a process that has imported all their code, which saves most of their start.

Each runs ``streams.cli.worker_launcher`` to its end, as in its own process; only the imports are
done before. Tests of the command line start the real command.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tests.rigs.network_namespaces import enter_network
from tests.rigs.workers import faulty_worker

LAUNCHER = "streams.cli.worker_launcher"

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["streams.cli.worker_command", "streams.worker.process", "tests.rigs.workers.faulty_worker"]
)
_exit_codes = threading.Lock()
"""Held while an exit code is read, which succeeds once; each start reads those of ended workers."""


class ForkedWorker:
    """A worker with the methods of ``Popen`` that tests use; it ends when this process ends."""

    def __init__(
        self,
        options: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        namespace: str | None = None,
        fault: str = "",
    ) -> None:
        """``fault`` is one of ``faulty_worker``, or ""."""
        log.touch()
        reading, self.stdin = _FORKS.Pipe(duplex=False)
        arguments = (list(options), dict(environment), log, namespace, fault, reading)
        self._process = _FORKS.Process(None, _become, LAUNCHER, arguments, daemon=True)
        with reading, _exit_codes:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises ``TimeoutExpired`` after ``timeout`` seconds."""
        wait([self._process.sentinel], timeout)
        with _exit_codes:
            code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(LAUNCHER, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@atexit.register
def _kill_what_runs() -> None:
    """Kill workers that a test has left: multiprocessing would wait for one that is suspended."""
    for child in multiprocessing.active_children():
        if child.name == LAUNCHER:
            child.kill()


def _become(
    options: list[str],
    environment: dict[str, str],
    log: Path,
    namespace: str | None,
    fault: str,
    stdin: Connection,
) -> None:
    os.setsid()
    with log.open("ab") as output:
        for source, target in ((stdin.fileno(), 0), (output.fileno(), 1), (output.fileno(), 2)):
            os.dup2(source, target)
    os.environ.clear()
    os.environ.update(environment)
    if namespace is not None:
        enter_network(namespace)
    if fault:
        faulty_worker.have(fault)
    sys.argv[1:] = options
    runpy.run_module(LAUNCHER, run_name="__main__", alter_sys=True)
