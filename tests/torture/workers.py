"""The workers of the cluster, and the supervisor that starts again those that end."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from streams.demo.worker_process import WorkerProcessError
from streams.errors import ExitCode
from streams.settings.settings import Settings
from tests.rigs.workers.stream_harness import Worker

CHECK_SECONDS = 0.2
RESTART_SECONDS = 1.0
TAIL_LINES = 25
SEND_SECONDS = Settings().send_timeout_seconds
AWAY_SECONDS = 60.0
# While the broker is away the batch under way is waited for, and that is half a minute at most.
STOP_SECONDS = 60.0
ASSIGNED = re.compile(r"^firstseen_assigned_shards (\S+)$", re.MULTILINE)
LEADER = re.compile(r"^firstseen_leader (\S+)$", re.MULTILINE)


class TorturedWorker(Worker):
    """A worker that can be suspended; ``slept_seconds``: the longest time that it was."""

    slept_seconds = 0.0
    _suspended = 0.0

    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def suspend(self) -> None:
        self._suspended = time.monotonic()
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.slept_seconds = max(self.slept_seconds, time.monotonic() - self._suspended)

    def terminate(self) -> int:
        """SIGTERM; return the exit code, that of SIGKILL where it had to be killed."""
        process = self._process
        assert process is not None, "it does not run"
        process.terminate()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            self.kill()  # also lets go of what is left of it

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)


class Away(NamedTuple):
    """When the broker went away, and when it was back: infinity as long as it is not."""

    since: float
    until: float

    def seconds(self, now: float) -> float:
        return min(now, self.until) - self.since


@dataclass(eq=False)
class Machine:
    """A machine of the cluster: a worker and the directory of its state, which outlives it.

    ``hand``: held by the one fault that may touch it. ``wanted``: the supervisor keeps it up.
    ``damaged``: its stores that have been.
    """

    name: str
    worker: TorturedWorker
    state: Path
    hand: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: bool = False
    damaged: set[Path] = field(default_factory=set)
    starts: int = 0
    log_starts: int = 0

    @property
    def busy(self) -> bool:
        return self.hand.locked()

    @property
    def stores(self) -> list[Path]:
        """The stores of shards that it has, or once had."""
        return sorted(self.state.glob("*/shard-*"))

    def start(self) -> None:
        self.log_starts = self.worker.log.stat().st_size if self.worker.log.exists() else 0
        self.worker.slept_seconds = 0.0
        self.worker.start()
        self.starts += 1
        self.wanted = True

    def kill(self) -> None:
        """SIGKILL; it stays down until ``start``."""
        self.wanted = False
        if self.worker.runs:
            self.worker.kill()

    def last_words(self) -> str:
        """The end of what it has logged since it was last started."""
        text = self.worker.log.read_bytes()[self.log_starts :].decode(errors="replace")
        return " | ".join(text.splitlines()[-3:])

    async def assigned_shards(self) -> int:
        return int(await self._metric(ASSIGNED))

    async def leads(self) -> bool:
        return bool(await self._metric(LEADER))

    async def _metric(self, line: re.Pattern[str]) -> float:
        """A value of its metrics page; 0 where it does not answer."""
        if not self.worker.runs:
            return 0
        try:
            found = line.search(await asyncio.to_thread(self.worker.metrics))
        except WorkerProcessError:
            return 0
        return float(found[1]) if found else 0


class Cluster:
    """Machines and their supervisor; ``options`` are those of ``firstseen worker``."""

    def __init__(self, directory: Path, options: Sequence[str]) -> None:
        self.machines: list[Machine] = []
        self.unexpected_exits: list[str] = []
        self.expected_exits: Counter[str] = Counter()
        self.broker_away = Away(-math.inf, -math.inf)
        self._directory = directory
        self._options = options
        self._started = time.monotonic()

    def add(self) -> Machine:
        name = f"worker-{len(self.machines)}"
        state = self._directory / name
        options = [*self._options, "--set", f"state_dir={state}"]
        machine = Machine(name, TorturedWorker(options, self._directory / f"{name}.log"), state)
        self.machines.append(machine)
        machine.start()
        return machine

    def up(self) -> list[Machine]:
        """The machines whose workers are meant to run, and are not in the hands of a fault."""
        return [m for m in self.machines if m.wanted and not m.busy]

    async def supervise(self) -> None:
        """Start again whatever ends by itself, a second later, and keep the reason."""
        while True:
            for machine in self.machines:
                ours = machine.wanted and not machine.busy
                code = machine.worker.exit_code() if ours else None
                if code is not None:
                    async with machine.hand:
                        self._note_exit(machine, code)
                        machine.kill()  # lets go of what is left of it
                        await asyncio.sleep(RESTART_SECONDS)
                        machine.start()
            await asyncio.sleep(CHECK_SECONDS)

    def _note_exit(self, machine: Machine, code: int) -> None:
        """Tell exits that follow from what was done to a worker from those that must not be."""
        words = machine.last_words()
        now = time.monotonic()
        lately = now - self.broker_away.until < AWAY_SECONDS
        found = {store for store in machine.damaged if str(store) in words}
        if code in {-signal.SIGTERM, ExitCode.TERMINATED} and not words:
            self.expected_exits["was stopped before it had begun"] += 1
        elif found:
            self.expected_exits["found that its store was damaged"] += 1
            machine.damaged -= found
        elif machine.worker.slept_seconds > SEND_SECONDS and code == ExitCode.RUNTIME:
            self.expected_exits["slept for longer than a send may take"] += 1
        elif lately and code == ExitCode.RUNTIME and self.broker_away.seconds(now) > SEND_SECONDS:
            self.expected_exits["met a broker that was away for longer than a send may take"] += 1
        elif lately and code == ExitCode.BROKER_UNAVAILABLE:
            self.expected_exits["found no broker when it started"] += 1
        else:
            at = now - self._started
            self.unexpected_exits.append(f"{at:.0f} s, {machine.name}: code {code}: {words}")

    async def stop(self, machine: Machine) -> None:
        """Stop a worker gently, if it runs; it must end in good order, with code 0."""
        machine.wanted = False
        if machine.worker.runs:
            code = await asyncio.to_thread(machine.worker.terminate)
            if code != ExitCode.OK:
                self._note_exit(machine, code)

    async def stop_all(self) -> None:
        for machine in self.machines:
            await self.stop(machine)

    def kill_all(self) -> None:
        for machine in self.machines:
            machine.kill()

    def logs(self) -> str:
        tails = []
        for machine in self.machines:
            lines = machine.worker.log_text().splitlines()[-TAIL_LINES:]
            tails.append("\n  ".join([f"the end of {machine.worker.log}:", *lines]))
        return "\n".join(tails)
