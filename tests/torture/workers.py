"""The workers of the cluster, and the supervisor that restarts those that end."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from simhash_core.log import versions
from streams.demo.worker_process import WorkerProcessError
from streams.errors import ExitCode
from streams.settings.settings import Settings
from streams.store.row_store import StoreFullError, StoreLockedError
from tests.rigs.workers.stream_harness import Worker
from tests.torture.disks import mount_memory, without_room
from tests.torture.failing_disk import Disk, why_no_failing_disk
from tests.torture.faults import NobodyError
from tests.torture.network import Network, Node

CHECK_SECONDS = 0.2
RESTART_SECONDS = 1.0
TAIL_LINES = 25
SEND_SECONDS = Settings().send_timeout_seconds
AWAY_SECONDS = 60.0
# While the broker is away a stop waits for the current batch, for at most half a minute.
STOP_SECONDS = 60.0
STATE_BYTES = 512 * 1024 * 1024
NO_ROOM = StoreFullError.fix
# How long after a full or failing disk, or a lack of a topic, an exit with its error is expected.
SOON_SECONDS = 5.0
DISK_FAILS = os.strerror(errno.EIO)
NO_TOPIC = re.compile(r"\.reports (no longer exists|is missing)")
TOO_OLD = f"has format version {versions.NEWEST}"
_OLDER = "was of a release that does not read the log any more"
IN_USE = StoreLockedError.fix
ASSIGNED = re.compile(r"^firstseen_assigned_shards (\S+)$", re.MULTILINE)
LEADER = re.compile(r"^firstseen_leader (\S+)$", re.MULTILINE)


class TorturedWorker(Worker):
    """A worker that can be suspended; ``slept_seconds`` is the longest time for which it was."""

    slept_seconds = 0.0

    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        since = time.monotonic()
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)
            self.slept_seconds = max(self.slept_seconds, time.monotonic() - since)

    def terminate(self) -> int:
        """Send SIGTERM; return the exit code, that of SIGKILL if it had to be killed."""
        process = self._process
        assert process is not None, "it does not run"
        process.terminate()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            self.kill()  # this also releases what is left of the worker

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, number)


class Away(NamedTuple):
    """When brokers went away, and when they were back; infinity while they are away."""

    since: float
    until: float

    def seconds(self, now: float) -> float:
        return min(now, self.until) - self.since


NEVER = Away(-math.inf, -math.inf)


def _soon_after(away: Away) -> bool:
    return time.monotonic() - away.until < SOON_SECONDS


@dataclass(eq=False)
class Machine:
    """A machine of the cluster: a worker and the directory of its state, which outlives it.

    ``hand``: held by the one fault that may strike it. ``wanted``: the supervisor keeps the worker
    up if no fault holds it, or a fault that does not concern its process (``attended``).
    ``damaged``: its stores that were damaged. ``brokers_away``: when it could not reach them.
    ``shared``: how often a second worker got its state directory. ``clock``: the file with the
    seconds by which its wall clock is off. ``disk``: of its state, if it is one that can fail.
    ``disk_full``, ``disk_failed``: when its state had no room, and when its disk failed.
    ``is_older``: its release reads only the format versions of the previous one.
    """

    name: str
    worker: TorturedWorker
    state: Path
    clock: Path
    node: Node | None = None
    disk: Disk | None = None
    hand: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: bool = False
    attended: bool = False
    damaged: set[Path] = field(default_factory=set)
    brokers_away: Away = NEVER
    disk_full: Away = NEVER
    disk_failed: Away = NEVER
    shared: int = 0
    is_older: bool = False
    starts: int = 0
    log_starts: int = 0
    _free_since: float = 0.0

    @property
    def busy(self) -> bool:
        return self.hand.locked()

    @property
    def unhurt_since(self) -> float:
        """Since when its worker has been up without a fault; infinity if it is not."""
        runs = self.wanted and not self.busy and self.worker.exit_code() is None
        return self._free_since if runs else math.inf

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        async with self.hand:
            try:
                yield
            finally:
                self._free_since = time.monotonic()

    @property
    def stores(self) -> list[Path]:
        """The stores of shards that the machine has or had."""
        return sorted(self.state.glob("*/shard-*"))

    def start(self) -> None:
        self.log_starts = self.worker.log.stat().st_size if self.worker.log.exists() else 0
        self.worker.slept_seconds = 0.0
        self.worker.start(f"wall_clock={self.clock}" + (";older" if self.is_older else ""))
        self._free_since = time.monotonic()
        self.starts += 1
        self.wanted = True

    def set_clock(self, seconds: float) -> None:
        new = self.clock.with_suffix(".new")
        new.write_text(str(seconds), "ascii")
        new.replace(self.clock)

    @contextmanager
    def without_room(self) -> Iterator[None]:
        """Fill the file system of its state, which must be its own."""
        since = time.monotonic()
        self.disk_full = Away(since, math.inf)
        try:
            with without_room(self.state if self.disk is None else self.disk.directory):
                yield
        finally:
            self.disk_full = Away(since, time.monotonic())

    @property
    def own_disk(self) -> Disk:
        """Its disk that can fail; raises ``NobodyError`` if it has none."""
        if self.disk is None:
            raise NobodyError(f"no disk that can fail: {why_no_failing_disk()}")
        return self.disk

    @contextmanager
    def failing_disk(self) -> Iterator[None]:
        since = time.monotonic()
        with self.own_disk.failing():
            self.disk_failed = Away(since, math.inf)
            try:
                yield
            finally:
                self.disk_failed = Away(since, time.monotonic())

    def kill(self) -> None:
        """Send SIGKILL; the worker stays down until ``start``."""
        self.wanted = False
        if self.worker.runs:
            self.worker.kill()

    def last_words(self) -> str:
        """The end of the worker's log since its last start."""
        text = self.worker.log.read_bytes()[self.log_starts :].decode(errors="replace")
        return " | ".join(text.splitlines()[-3:])

    async def assigned_shards(self) -> int:
        return int(await self._metric(ASSIGNED))

    async def leads(self) -> bool:
        return bool(await self._metric(LEADER))

    async def _metric(self, line: re.Pattern[str]) -> float:
        """Return a value of the worker's metrics page; 0 if the page cannot be read."""
        if not self.worker.runs:
            return 0
        try:
            found = line.search(await asyncio.to_thread(self.worker.metrics))
        except WorkerProcessError:
            return 0
        return float(found[1]) if found else 0


class Cluster:
    """Machines and their supervisor; ``options`` are those of ``firstseen worker``.

    ``network`` gives each machine a node, if there are networks. ``brokers_since``: since when
    there are enough brokers for a worker; infinity while there are not. ``begins_older``: new
    machines have the previous release, until a fault upgrades them.
    """

    def __init__(
        self, directory: Path, options: Sequence[str], network: Network | None = None
    ) -> None:
        self.machines: list[Machine] = []
        self.unexpected_exits: list[str] = []
        self.expected_exits: Counter[str] = Counter()
        self.brokers_since = time.monotonic()
        self.brokers_away = NEVER
        self.reports_away = NEVER
        self.begins_older = False
        self._network = network
        self._directory = directory
        self._options = options
        self._started = time.monotonic()

    def add(self) -> Machine:
        name = f"worker-{len(self.machines)}"
        state = self._directory / name
        node = None if self._network is None else self._network.add(name)
        disk = None if self._network is None else self._disk(state)
        clock = self._directory / f"{name}.clock"
        machine = Machine(name, self._worker(name, state, node), state, clock, node, disk)
        machine.is_older = self.begins_older
        machine.set_clock(0.0)
        self.machines.append(machine)
        machine.start()
        return machine

    def _disk(self, state: Path) -> Disk | None:
        """Give a state a file system of its own; the run has mounts of its own."""
        can_fail = why_no_failing_disk() is None
        memory = state.with_suffix(".disk") if can_fail else state
        mount_memory(memory, STATE_BYTES)
        return Disk(memory, state) if can_fail else None

    @contextmanager
    def intruder(self, machine: Machine) -> Iterator[TorturedWorker]:
        """Start a second worker on a machine, with the state of the first."""
        machine.shared += 1
        worker = self._worker(f"{machine.name}-second", machine.state, machine.node)
        worker.start()
        try:
            yield worker
        finally:
            if worker.runs:
                worker.kill()

    def _worker(self, name: str, state: Path, node: Node | None) -> TorturedWorker:
        options = [*self._options, "--set", f"state_dir={state}"]
        log = self._directory / f"{name}.log"
        if node is None:
            return TorturedWorker(options, log)
        # Outside the loopback, pages with documents would need a token.
        options += ["--set", "web.open_monitoring=true"]
        worker = TorturedWorker(options, log, host=node.address)
        worker.namespace = node.name
        return worker

    def up(self) -> list[Machine]:
        """The machines whose workers should run, and which no fault holds."""
        return [m for m in self.machines if m.wanted and not m.busy]

    def able_since(self) -> float:
        """Since when brokers and one and the same worker are up, without a fault of that worker."""
        workers = min((machine.unhurt_since for machine in self.machines), default=math.inf)
        return max(workers, self.brokers_since, self.reports_away.until)

    @contextmanager
    def without_brokers(self, machine: Machine | None = None) -> Iterator[None]:
        """Note that one machine, or all of them, have no brokers for some time."""
        victim = self if machine is None else machine
        since = time.monotonic()
        victim.brokers_away = Away(since, math.inf)
        if machine is None:
            self.brokers_since = math.inf
        try:
            yield
        finally:
            back = time.monotonic()
            victim.brokers_away = Away(since, back)
            if machine is None:
                self.brokers_since = back

    @contextmanager
    def without_reports(self) -> Iterator[None]:
        """Note that the reports topic does not exist for some time, so nothing is decided."""
        since = time.monotonic()
        self.reports_away = Away(since, math.inf)
        try:
            yield
        finally:
            self.reports_away = Away(since, time.monotonic())

    async def supervise(self) -> None:
        """Restart each worker that ends by itself after a second, and keep the reason."""
        while True:
            for machine in self.machines:
                ours = machine.wanted and (machine.attended or not machine.busy)
                code = machine.worker.exit_code() if ours else None
                if code is None:
                    continue
                self._note_exit(machine, code)
                if machine.busy:
                    await self._restart(machine)
                else:
                    async with machine.held():
                        await self._restart(machine)
            await asyncio.sleep(CHECK_SECONDS)

    async def _restart(self, machine: Machine) -> None:
        machine.worker.kill()  # this releases what is left of the worker
        await asyncio.sleep(RESTART_SECONDS)
        if machine.wanted and not machine.worker.runs:
            machine.start()

    def _note_exit(self, machine: Machine, code: int) -> None:
        """Distinguish exits that a fault has caused from exits that must not happen."""
        words = machine.last_words()
        reason = self._reason(machine, code, words)
        if reason is None:
            at = time.monotonic() - self._started
            self.unexpected_exits.append(f"{at:.0f} s, {machine.name}: code {code}: {words}")
            return
        self.expected_exits[reason] += 1
        machine.damaged -= {store for store in machine.damaged if str(store) in words}
        if reason == _OLDER:
            machine.is_older = False  # as its operator would do

    def _reason(self, machine: Machine, code: int, words: str) -> str | None:
        """Return why a fault has ended a worker, or None."""
        now = time.monotonic()
        aways = [self.brokers_away, machine.brokers_away]
        lately = [away for away in aways if now - away.until < AWAY_SECONDS]
        away_seconds = max((away.seconds(now) for away in lately), default=0.0)
        was_stopped = code in {-signal.SIGTERM, ExitCode.TERMINATED}
        has_failed = code == ExitCode.RUNTIME
        reasons = {
            "was stopped before it had begun": was_stopped and not words,
            "found that its store was damaged": any(str(each) in words for each in machine.damaged),
            "had no room for its state": _soon_after(machine.disk_full) and NO_ROOM in words,
            "had a disk that fails": _soon_after(machine.disk_failed) and DISK_FAILS in words,
            "found no reports topic": _soon_after(self.reports_away)
            and bool(NO_TOPIC.search(words)),
            _OLDER: machine.is_older and TOO_OLD in words,
            "found that another worker used its store": bool(machine.shared) and IN_USE in words,
            "slept for longer than a send may take": has_failed
            and machine.worker.slept_seconds > SEND_SECONDS,
            "met a broker that was away for longer than a send may take": has_failed
            and away_seconds > SEND_SECONDS,
            "found no broker when it started": bool(lately) and code == ExitCode.BROKER_UNAVAILABLE,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    async def stop(self, machine: Machine) -> None:
        """Stop a worker gently, if it runs; it must end with code 0."""
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
