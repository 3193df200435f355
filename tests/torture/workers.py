"""The workers of the cluster, and the supervisor that starts again those that end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from streams.demo.worker_process import WorkerProcessError
from tests.integration.stream_harness import Worker

CHECK_SECONDS = 0.2
RESTART_SECONDS = 1.0
TAIL_LINES = 25
ASSIGNED = re.compile(r"^firstseen_assigned_shards (\S+)$", re.MULTILINE)


class TorturedWorker(Worker):
    """A worker process that can also be suspended."""

    def exit_code(self) -> int | None:
        """The code that it has ended with by itself; None while it runs, or was made to end."""
        return None if self._process is None else self._process.poll()

    def suspend(self) -> None:
        """SIGSTOP: it does nothing, and does not know it."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on in the middle of what it was doing."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)


@dataclass(eq=False)
class Machine:
    """A machine of the cluster: a worker and the directory of its state, which outlives it.

    ``hand``: held by the one fault that may touch it. ``wanted``: the supervisor keeps it up.
    """

    name: str
    worker: TorturedWorker
    state: Path
    hand: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: bool = False
    starts: int = 0
    log_starts: int = 0

    @property
    def busy(self) -> bool:
        """Whether somebody has it in hand."""
        return self.hand.locked()

    @property
    def stores(self) -> list[Path]:
        """The stores of shards that it has, or once had."""
        return sorted(self.state.glob("*/shard-*"))

    def start(self) -> None:
        """Start the worker; the supervisor keeps it up from now on."""
        self.log_starts = self.worker.log.stat().st_size if self.worker.log.exists() else 0
        self.worker.start()
        self.starts += 1
        self.wanted = True

    def kill(self) -> None:
        """SIGKILL; it stays down until ``start``."""
        self.wanted = False
        if self.worker.runs:
            self.worker.kill()

    async def stop(self) -> str:
        """SIGTERM; return what was wrong with the way it ended, "" for nothing."""
        self.wanted = False
        return await asyncio.to_thread(self.worker.stop)

    def last_words(self, lines: int = 3) -> str:
        """The end of what it has logged since it was last started."""
        text = self.worker.log.read_bytes()[self.log_starts :].decode(errors="replace")
        return " | ".join(text.splitlines()[-lines:])

    async def assigned_shards(self) -> int:
        """How many shards it says are its own; 0 where it does not answer."""
        if not self.worker.runs:
            return 0
        try:
            found = ASSIGNED.search(await asyncio.to_thread(self.worker.metrics))
        except WorkerProcessError:
            return 0
        return int(float(found[1])) if found else 0


class Cluster:
    """Machines and their supervisor.

    Args:
        directory: Holds the logs, and the state of each machine.
        options: Of ``firstseen worker``, for all of them.
    """

    def __init__(self, directory: Path, options: Sequence[str]) -> None:
        self.machines: list[Machine] = []
        self.unexpected_exits: list[str] = []
        self._directory = directory
        self._options = options
        self._started = time.monotonic()

    def add(self) -> Machine:
        """Add a machine without a state, and start its worker."""
        name = f"worker-{len(self.machines)}"
        state = self._directory / name
        worker = TorturedWorker(
            [*self._options, "--set", f"state_dir={state}"], self._directory / f"{name}.log"
        )
        self.machines.append(Machine(name, worker, state))
        self.machines[-1].start()
        return self.machines[-1]

    def up(self, but: Machine | None = None) -> list[Machine]:
        """The machines whose workers are meant to run, and are not in the hands of a fault."""
        return [m for m in self.machines if m.wanted and not m.busy and m is not but]

    async def supervise(self) -> None:
        """Start again whatever ends by itself, a second later, and keep the reason."""
        while True:
            for machine in self.machines:
                ours = machine.wanted and not machine.busy
                code = machine.worker.exit_code() if ours else None
                if code is not None:
                    async with machine.hand:
                        self.report(machine, f"code {code}: {machine.last_words()}")
                        machine.kill()  # lets go of what is left of it
                        await asyncio.sleep(RESTART_SECONDS)
                        machine.start()
            await asyncio.sleep(CHECK_SECONDS)

    def report(self, machine: Machine, what: str) -> None:
        """Keep the reason of an exit that nobody asked for."""
        at = time.monotonic() - self._started
        self.unexpected_exits.append(f"{at:.0f} s, {machine.name}: {what}")

    async def stop_all(self) -> None:
        """Stop all workers gently, one after the other."""
        for machine in self.machines:
            if machine.worker.runs:
                trouble = await machine.stop()
                if trouble:
                    self.report(machine, trouble)

    def kill_all(self) -> None:
        """Leave nothing running."""
        for machine in self.machines:
            machine.kill()

    def logs(self) -> str:
        """The ends of all logs."""
        tails = []
        for machine in self.machines:
            lines = machine.worker.log_text().splitlines()[-TAIL_LINES:]
            tails.append("\n  ".join([f"the end of {machine.worker.log}:", *lines]))
        return "\n".join(tails)
