"""Workers forked from a process that has imported all their code, which saves most of their start.

Each runs ``streams.cli.worker_launcher`` to its end, as in its own process; only the imports are
done before. Tests of the command line start the real command.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import BinaryIO, NamedTuple

from tests.rigs.network_namespaces import enter_network

LAUNCHER = "streams.cli.worker_launcher"
REQUEST_BYTES = 1 << 17
ANSWER_BYTES = 64
START_SECONDS = 60.0


class ForkedWorker:
    """A worker that ``_server`` has forked, with the methods of ``Popen`` that tests use."""

    def __init__(
        self,
        options: Sequence[str],
        environment: Mapping[str, str],
        log: BinaryIO,
        namespace: str | None = None,
        fault: str = "",
    ) -> None:
        """``fault`` is one of ``faulty_worker``, or ""."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reading, writing = os.pipe()
        self.stdin = os.fdopen(writing, "wb")
        self.returncode: int | None = None
        request = json.dumps([list(options), dict(environment), namespace, fault]).encode()
        with theirs:
            socket.send_fds(_server(), [request], [theirs.fileno(), reading, log.fileno()])
        os.close(reading)
        ours.settimeout(START_SECONDS)
        self._answers = ours
        self.pid = int(ours.recv(ANSWER_BYTES))

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises ``TimeoutExpired`` after ``timeout`` seconds."""
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                self.returncode = int(self._answers.recv(ANSWER_BYTES))
            except (TimeoutError, BlockingIOError) as error:
                raise subprocess.TimeoutExpired(LAUNCHER, timeout or 0.0) from error
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _server() -> socket.socket:
    """Start the process that forks; it ends when this process ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.rigs.workers.forked_worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait(START_SECONDS)

    atexit.register(end)
    return ours


# ---- In the process that forks.


class _Request(NamedTuple):
    options: list[str]
    environment: dict[str, str]
    namespace: str | None
    fault: str
    answers: socket.socket
    stdin: int
    log: int


def _serve(requests: socket.socket) -> _Request | None:
    """Fork for each request; return it in the child, and None at the end in the parent."""
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(requests, selectors.EVENT_READ)
        ready.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is woken:
                    woken.recv(ANSWER_BYTES)
                    _answer_ended(running)
                    continue
                request = _received(requests)
                if request is None:
                    return None
                pid = os.fork()
                if not pid:
                    for each in (requests, woken, wake, *running.values()):
                        each.close()
                    return request
                os.close(request.stdin)
                os.close(request.log)
                running[pid] = request.answers
                request.answers.send(str(pid).encode())


def _received(requests: socket.socket) -> _Request | None:
    message, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 3)
    if not message:
        return None
    answers, stdin, log = descriptors
    options, environment, namespace, fault = json.loads(message)
    connection = socket.socket(fileno=answers)
    return _Request(options, environment, namespace, fault, connection, stdin, log)


def _answer_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as answers, suppress(OSError):  # the test has ended
            answers.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: _Request) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request.answers.close()
    os.setsid()
    for source, target in ((request.stdin, 0), (request.log, 1), (request.log, 2)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(request.environment)
    if request.namespace is not None:
        enter_network(request.namespace)
    if request.fault:
        faulty_worker.have(request.fault)
    sys.argv[1:] = request.options
    runpy.run_module(LAUNCHER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    import streams.cli.worker_command
    import streams.worker.process  # noqa: F401 - children need not import it
    from tests.rigs.workers import faulty_worker

    gc.collect()
    gc.freeze()
    if (asked := _serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _become(asked)
