"""``firstseen worker --processes N``: the workers of one machine, restarted by a supervisor.

A worker uses little more than one core. Each process is a worker with its own state directory and
port; the supervisor's page, at the port of the settings, lists them. Workers watch a pipe that
closes when the supervisor ends, even by SIGKILL, so no worker outlives it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from msgspec.structs import replace

from simhash_core.errors import FirstseenError
from streams.errors import ExitCode, Problem, SettingsError
from streams.ops_page.access import Access
from streams.ops_page.server import JSON, guarded_application, listen, probed, served, url_of
from streams.ops_page.text_check import own_url, why_unhealthy
from streams.settings.settings import Settings

logger = logging.getLogger(__name__)


def available_cores(
    groups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> int:
    """Return how many cores CPU affinity and the limits of cgroups (version 2) allow."""
    has_affinity = hasattr(os, "sched_getaffinity")  # such as Linux
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return max(1, int(min([cores, *_cpu_limits(groups, membership)])))


def _cpu_limits(groups: Path, membership: Path) -> Iterator[float]:
    """Yield the cores that this process's cgroup and each of its parents allow."""
    own = groups
    with suppress(OSError):
        for line in membership.read_text("utf-8", "replace").splitlines():
            if line.startswith("0::"):
                own = groups / line.removeprefix("0::").lstrip("/")
    for directory in (own, *own.parents):
        # The root of the tree has no such file, and a group without a limit says "max".
        with suppress(OSError, ValueError):
            quota, period = (directory / "cpu.max").read_text("ascii").split()
            yield int(quota) / int(period)


_PORT_MAX: Final = 65_535


def settings_of(settings: Settings, number: int) -> Settings:
    """Return the settings of process ``number``; ``settings`` are those of the supervisor."""
    port = settings.web.port + 1 + number  # the supervisor has the first port
    url, name = settings.web.url, settings.group_instance_id
    if url is not None:
        parts = urlsplit(url)
        url = parts._replace(netloc=f"{re.sub(':[0-9]*$', '', parts.netloc)}:{port}").geturl()
    return replace(
        settings,
        state_dir=settings.state_dir / f"process-{number}",
        group_instance_id=None if name is None else f"{name}-{number}",
        web=replace(settings.web, port=port, url=url),
    )


_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 60.0
_CALM_SECONDS: Final = 60.0

_MILD: Final = (ExitCode.OK, ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.BROKER_UNAVAILABLE)
_NOT_RESTARTED: Final = (ExitCode.USAGE, ExitCode.CONFIGURATION)  # a restart does not help
_BY_SEVERITY: Final = (*_MILD, None, *_NOT_RESTARTED)  # None: all other codes


class BackOff:
    """Gives the wait before a restart; it doubles until a process has run for a minute."""

    def __init__(self) -> None:
        self._next = _FIRST_SECONDS

    def seconds(self, ran_seconds: float) -> float:
        wait = _FIRST_SECONDS if ran_seconds >= _CALM_SECONDS else self._next
        self._next = min(2 * wait, _LONGEST_SECONDS)
        return wait


def exit_code(returncode: int, *, stopping: bool) -> int:
    """Return the exit code as a shell reports it, except after a stop.

    A SIGTERM that comes before a worker can handle it interrupts no work, so the code is OK. A
    worker that had to be killed did not stop in time, so the code is TERMINATED.
    """
    if stopping and returncode == -signal.SIGTERM:
        return ExitCode.OK
    if stopping and returncode == -signal.SIGKILL:
        return ExitCode.TERMINATED
    return returncode if returncode >= 0 else 128 - returncode


def worst_of(codes: Iterable[int]) -> int:
    return max(codes, key=lambda code: _BY_SEVERITY.index(code if code in _BY_SEVERITY else None))


_STARTS: Final = "it is starting, or waiting for a broker"


class SupervisedWorker:
    """A worker across its restarts, with the last answers of its pages."""

    def __init__(self, settings: Settings, number: int) -> None:
        self.number = number
        self.settings = settings_of(settings, number)
        self.back_off = BackOff()
        self.process: asyncio.subprocess.Process | None = None
        self.restarts = 0
        self.exit_code: int | None = None
        self.why_not_ready: str | None = _STARTS
        self._why_dead: str | None = None
        self._answered: float | None = None

    def __str__(self) -> str:
        pid = "" if self.process is None else f" (pid {self.process.pid})"
        return f"process {self.number}{pid}"

    def began(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.why_not_ready = process, _STARTS

    def ended(self, code: int) -> None:
        self.process, self.exit_code = None, code
        self.why_not_ready = f"it ended with exit code {code}"
        self._why_dead = self._answered = None

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):  # it has just ended
                self.process.send_signal(number)

    async def look(self) -> None:
        """Query the worker's pages; before their first answer, it starts or waits for a broker."""
        process, pages = self.process, self.settings.web
        ask = partial(why_unhealthy, own_url(pages), pages)
        try:
            why_dead = await asyncio.to_thread(ask, ready=False)
            why_not_ready = await asyncio.to_thread(ask, ready=True)
        except FirstseenError as error:
            if self.process is process is not None and self._answered is not None:
                self.why_not_ready = str(error)
            return
        if self.process is process is not None:
            self._why_dead, self.why_not_ready = why_dead, why_not_ready
            self._answered = time.monotonic()

    def why_dead(self) -> str | None:
        """Return why the worker needs a restart, or None."""
        silence = 0.0 if self._answered is None else time.monotonic() - self._answered
        if silence >= self.settings.stall_seconds:
            return f"its pages have not answered for {silence:.0f} s"
        return self._why_dead

    def status(self) -> dict[str, object]:
        return {
            "process": self.number,
            "pid": None if self.process is None else self.process.pid,
            "port": self.settings.web.port,
            "page": self.settings.web.page_url,
            "state_dir": str(self.settings.state_dir),
            "why_dead": self.why_dead(),
            "why_not_ready": self.why_not_ready,
            "restarts": self.restarts,
            "last_exit_code": self.exit_code,
        }


_BODY_BYTES: Final = 1024


def create_application(workers: Sequence[SupervisedWorker], access: Access) -> web.Application:
    """Return the page of all processes; its access rules are those of a worker's pages."""

    def joined(reasons: Iterable[str | None]) -> str | None:
        named = zip(workers, reasons, strict=True)
        return "; ".join(f"{worker}: {why}" for worker, why in named if why is not None) or None

    async def healthz(_request: web.Request) -> web.Response:
        return probed(joined(each.why_dead() for each in workers), "ok")

    async def readyz(_request: web.Request) -> web.Response:
        return probed(joined(each.why_not_ready for each in workers), "ready")

    async def processes(_request: web.Request) -> web.Response:
        statuses = [each.status() for each in workers]
        return _json({"schema": "firstseen.processes/1", "processes": statuses})

    async def targets(request: web.Request) -> web.Response:
        """List processes for Prometheus (``http_sd_configs``), with the host of the request."""
        host = re.sub(":[0-9]*$", "", request.host)
        return _json([{"targets": [f"{host}:{each.settings.web.port}" for each in workers]}])

    application = guarded_application(access, {}, _BODY_BYTES)
    application.router.add_get("/", processes)
    application.router.add_get("/targets", targets)
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    return application


def _json(content: object) -> web.Response:
    body = msgspec.json.format(msgspec.json.encode(content))
    return web.Response(body=body + b"\n", content_type=JSON)


_LOOK_SECONDS: Final = 2.0
KILL_SECONDS: Final = 5.0  # added to the time that a worker takes to end by itself


def supervise(settings: Settings, processes: int, arguments: Sequence[str]) -> int:
    """Run ``processes`` workers until all have ended; return the worst exit code.

    They end after a signal, or after an exit code that a restart does not correct. ``arguments``
    are those of this ``firstseen``. Raises ``SettingsError`` if there are too few ports, and
    ``PortInUseError``.
    """
    highest = _PORT_MAX - processes
    if settings.web.enabled and settings.web.port > highest:
        message = f"the {processes} processes use the ports after it: it must be {highest} or less"
        value = str(settings.web.port)
        raise SettingsError([Problem("web.port", value, "the settings, with --processes", message)])
    workers = [SupervisedWorker(settings, number) for number in range(processes)]
    return asyncio.run(_Supervisor(settings, workers, arguments).run())


class _Supervisor:
    def __init__(
        self, settings: Settings, workers: Sequence[SupervisedWorker], arguments: Sequence[str]
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._command = [
            sys.executable,
            "-P",
            "-m",
            "streams.cli.main",
            *arguments,
            "--process-number",
        ]
        self._stopping = asyncio.Event()
        self._stop_signal = signal.SIGTERM

    async def run(self) -> int:
        loop, pages = asyncio.get_running_loop(), self._settings.web
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number, number.name)
        async with AsyncExitStack() as stack:
            if pages.enabled:
                listening = listen(pages)
                application = create_application(self._workers, Access(pages))
                await stack.enter_async_context(served(application, listening))
                logger.info("page of all processes: %s", url_of(listening))
            async with asyncio.TaskGroup() as tasks:
                for worker in self._workers:
                    tasks.create_task(self._keep(worker))
                    if pages.enabled:
                        tasks.create_task(self._watch(worker))
        code = worst_of(worker.exit_code or ExitCode.OK for worker in self._workers)
        logger.info("stopped: all processes have ended, exit code %d", code)
        return code

    def _stop(self, number: signal.Signals, why: str) -> None:
        """Pass a signal on, and kill each worker that still runs after the time allowed for a stop.

        Later signals change nothing: some senders, such as ``timeout``, send each one twice.
        """
        if self._stopping.is_set():
            return
        logger.info("stopping all processes: %s", why)
        self._stop_signal = number
        self._stopping.set()
        for worker in self._workers:
            worker.send(number)
        limit = self._settings.stop_seconds + KILL_SECONDS
        asyncio.get_running_loop().call_later(limit, self._kill)

    def _kill(self) -> None:
        for worker in self._workers:
            if worker.process is not None:
                logger.warning("%s did not end in time, so it is killed; nothing is lost", worker)
                worker.send(signal.SIGKILL)

    async def _keep(self, worker: SupervisedWorker) -> None:
        """Run a worker, and restart it until all workers stop."""
        while True:
            started = time.monotonic()
            try:
                name, code = await self._run(worker)
            except OSError as error:  # too many processes, or no memory
                name, code = f"{worker}: {error.strerror}, so it", ExitCode.RUNTIME
            worker.ended(code)
            if self._stopping.is_set():
                return
            if code in _NOT_RESTARTED:
                self._stop(
                    signal.SIGTERM,
                    f"{name} ended with exit code {code}: correct the error in its log first",
                )
                return
            wait = worker.back_off.seconds(time.monotonic() - started)
            logger.warning("%s ended with exit code %d; restarting it in %g s", name, code, wait)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)
                return
            worker.restarts += 1

    async def _run(self, worker: SupervisedWorker) -> tuple[str, int]:
        """Run a worker until it ends; return its name for the log, and its exit code."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            str(worker.number),
            stdin=asyncio.subprocess.PIPE,  # it closes when this process ends
            start_new_session=True,  # Ctrl-C reaches a worker only through this process, once
        )
        worker.began(process)
        name = str(worker)
        logger.info("%s has started, with its state in %s", name, worker.settings.state_dir)
        if self._stopping.is_set():  # it was set while the process started
            worker.send(self._stop_signal)
        returncode = await process.wait()
        return name, exit_code(returncode, stopping=self._stopping.is_set())

    async def _watch(self, worker: SupervisedWorker) -> None:
        while not self._stopping.is_set():
            await worker.look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _LOOK_SECONDS)
