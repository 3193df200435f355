"""Starts a worker in its own process, waits for it, queries it and stops it."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from simhash_core.errors import FirstseenError
from streams.errors import ExitCode
from streams.kafka.errors import becomes_true

HOST: Final = "127.0.0.1"

_START_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 45.0
_KILL_SECONDS: Final = 5.0
_ASK_SECONDS: Final = 15.0
_BETWEEN_SECONDS: Final = 0.1
_TAIL_LINES: Final = 12
_TAIL_BYTES: Final = 16 * 1024
OUR_VARIABLES: Final = "FIRSTSEEN_"


class WorkerProcessError(FirstseenError):
    """The worker did not start, or died; the message has the end of its log."""


class WorkerProcess:
    """A worker as a context manager; it ends when this process ends, even by SIGKILL.

    It gets its settings only from ``options`` (of ``firstseen worker``), not from the environment.
    It serves its pages at ``host``.
    """

    def __init__(self, options: Sequence[str], log: Path, *, host: str = HOST) -> None:
        self.log = log
        self.port = _free_port()
        self._host = host
        self._options = [*options, "--set", f"web.host={host}", "--set", f"web.port={self.port}"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}/"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(OUR_VARIABLES)}
        command = [sys.executable, "-P", "-m", "streams.cli.worker_launcher", *self._options]
        with self.log.open("ab") as log:
            # In its own session: Ctrl-C reaches only the demo, which stops everything in order.
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Wait until the worker has its shards; raise ``WorkerProcessError`` after two minutes."""
        if not becomes_true(self._is_ready, _START_SECONDS, _BETWEEN_SECONDS):
            raise WorkerProcessError(
                f"the worker was not ready within {_START_SECONDS:g} s; {self._tail()}"
            )

    def check(self) -> None:
        """Raise ``WorkerProcessError`` if the worker has ended."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise WorkerProcessError(f"the worker ended with code {code}; {self._tail()}")

    def metrics(self) -> str:
        """Return the worker's metrics in the text format, or raise ``WorkerProcessError``."""
        try:
            status, text = self._get("/metrics")
        except OSError as error:
            status, text = None, str(error)
        if status != http.client.OK:
            raise WorkerProcessError(
                f"the worker does not return its metrics: {text}; {self._tail()}"
            )
        return text

    def stop(self) -> str:
        """Stop the worker; return why it did not end cleanly, or ""."""
        process, self._process = self._process, None
        if process is None:
            return ""
        assert process.stdin is not None
        process.terminate()
        try:
            code = process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_KILL_SECONDS)
            return (
                f"the worker did not end within {_STOP_SECONDS:g} s after SIGTERM and was killed; "
                f"{self._tail()}"
            )
        finally:
            process.stdin.close()
        if code != ExitCode.OK:
            return f"the worker ended with code {code} after SIGTERM; {self._tail()}"
        return ""

    def _is_ready(self) -> bool:
        self.check()
        try:
            return self._get("/readyz")[0] == http.client.OK
        except OSError:
            return False

    def _get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._host, self.port, timeout=_ASK_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def _tail(self) -> str:
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return "last lines of its log:\n  " + "\n  ".join(lines or ["(nothing)"])


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        return int(listening.getsockname()[1])
