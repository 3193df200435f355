"""Contenders as processes; a small parent process kills each of them if the contest is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.request import urlopen

from confluent_kafka import KafkaException

from benchmarks.command import ROOT, MeasurementError, output_of, own_environment
from benchmarks.contest.broker import ContestBroker
from benchmarks.contest.processor_time import cpu_seconds
from benchmarks.contest.shapes import FIRSTSEEN, Shape
from benchmarks.peers.environment import peers_python
from benchmarks.peers.stream import Stream
from streams.kafka.errors import becomes_true
from streams.topics.consumer_group import assigned_partitions, listed_group
from tests.rigs.brokers import run_until_orphaned
from tests.rigs.brokers.loopback_ports import free_port

SESSION_SECONDS: Final = 10.0
"""The time after which Kafka removes a killed worker of Firstseen from its group."""

_WITHOUT_PEERS: Final = frozenset({FIRSTSEEN, "ceiling"})
"""Contenders that run in the environment of Firstseen."""
_HOST: Final = "127.0.0.1"
_READY_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 20.0
_ASK_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1
_TAIL_LINES: Final = 12


class Contender:
    def __init__(self, command: list[str], log: Path, health_port: int | None = None) -> None:
        """``health_port`` is that of a worker whose pages say when it is ready."""
        self._command = [sys.executable, run_until_orphaned.__file__, *command]
        self._log = log
        self._health_port = health_port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=own_environment(),
                start_new_session=True,
            )

    def await_ready(self, seconds: float = _READY_SECONDS) -> None:
        """Wait until the contender is ready, or raise ``MeasurementError``."""
        if not becomes_true(self._is_ready, seconds, _POLL_SECONDS):
            raise MeasurementError(f"not ready within {seconds:g} s; {self._tail()}")

    def check(self) -> None:
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise MeasurementError(f"it has ended with code {code}; {self._tail()}")

    def cpu_seconds(self) -> float:
        return 0.0 if self._process is None else cpu_seconds(self._process.pid)

    def end(self, number: signal.Signals) -> None:
        """End the process by a signal, and by SIGKILL if that takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(_STOP_SECONDS)
        process.stdin.close()

    def _is_ready(self) -> bool:
        self.check()
        if self._health_port is None:
            return True
        try:
            with urlopen(f"http://{_HOST}:{self._health_port}/readyz", timeout=_ASK_SECONDS):
                return True
        except (OSError, HTTPException):
            return False

    def _tail(self) -> str:
        lines = self._log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        return "\n  ".join(["the end of its log:", *(lines or ["(nothing)"])])


def needs_peers(shape: Shape) -> bool:
    return shape.contender not in _WITHOUT_PEERS


@contextmanager
def running(shape: Shape, stream: Stream, broker: ContestBroker) -> Iterator[list[Contender]]:
    """Create the topics of a stream, and run a contender on it; raises ``MeasurementError``."""
    create_topics(shape, stream, broker)
    contenders = [_contender(shape, stream, number) for number in range(shape.workers)]
    with ExitStack() as stack:
        for each in contenders:
            stack.callback(each.end, signal.SIGTERM)
            each.start()
        await_shared(contenders, stream, broker)
        yield contenders


def await_shared(contenders: list[Contender], stream: Stream, broker: ContestBroker) -> None:
    """Wait until each process has partitions; raises ``MeasurementError``."""
    for each in contenders:
        each.await_ready()

    def is_shared() -> bool:
        for each in contenders:
            each.check()
        shares = partitions_of_members(stream, broker).values()
        return len(shares) == len(contenders) and all(shares)

    if not becomes_true(is_shared, _READY_SECONDS, _POLL_SECONDS):
        raise MeasurementError(f"{stream.name}: the partitions are not shared by the processes")


def partitions_of_members(stream: Stream, broker: ContestBroker) -> dict[str, frozenset[int]]:
    """Return the partitions of each member of the group; empty while the group is not stable."""
    try:
        listed = listed_group(broker.admin, stream.name, _ASK_SECONDS)
    except KafkaException:
        return {}
    if not listed.is_stable:
        return {}
    return {each.id: assigned_partitions(each.assignment, stream.raw) for each in listed.members}


def create_topics(shape: Shape, stream: Stream, broker: ContestBroker) -> None:
    stream.directory.mkdir(parents=True)
    if shape.contender == FIRSTSEEN:
        command = ["-m", "streams.cli.main", "topics", "create", *_options(shape, stream)]
        output_of([sys.executable, *command, "--partitions", str(shape.partitions)])
    else:
        topics = (stream.raw, stream.unique, stream.duplicates)
        broker.create_topics(dict.fromkeys(topics, shape.partitions))


def _contender(shape: Shape, stream: Stream, number: int) -> Contender:
    if shape.contender == FIRSTSEEN:
        return worker(shape, stream, SESSION_SECONDS, number)
    python = str(peers_python()) if needs_peers(shape) else sys.executable
    program, *variant = shape.contender.split()
    command = [python, "-m", f"benchmarks.peers.{program}", *stream.arguments, *variant]
    return Contender(command, stream.directory / f"process-{number}.log")


def worker(
    shape: Shape,
    stream: Stream,
    session_seconds: float,
    number: int = 0,
    others: Mapping[str, str] = MappingProxyType({}),
) -> Contender:
    """Return a worker of Firstseen, whose state is in the directory ``state-NUMBER``.

    ``others`` are further settings.
    """
    port = free_port()
    settings = {
        "delivery": shape.delivery,
        "session_timeout_seconds": f"{session_seconds:g}",
        "state_dir": str(stream.directory / f"state-{number}"),
        "web.host": _HOST,
        "web.port": str(port),
        **others,
    }
    firstseen = str(Path(sys.executable).with_name("firstseen"))
    command = [firstseen, "worker", *_options(shape, stream), *_assignments(settings)]
    return Contender(command, stream.directory / f"process-{number}.log", port)


def _options(shape: Shape, stream: Stream) -> list[str]:
    topics = {
        "topics.raw": stream.raw,
        "topics.unique": stream.unique,
        "topics.duplicates": stream.duplicates,
        "topics.dead_letters": stream.dead_letters,
    }
    named = ["--broker", stream.brokers, "--application-id", stream.name]
    return [*named, "--profile", shape.profile, *_assignments(topics)]


def _assignments(settings: Mapping[str, str]) -> list[str]:
    return [part for item in settings.items() for part in ("--set", "=".join(item))]
