"""Faults of workers and of their machines."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from tests.torture.faults import Act, Fault, NobodyError
from tests.torture.feed import Feed
from tests.torture.inspection import LogEnds
from tests.torture.victims import LOOK_SECONDS, Victim, Victims
from tests.torture.workers import Cluster, Machine

DOWN_SECONDS = (0.0, 8.0)
ADDED_SECONDS = (10.0, 40.0)
PAUSED_SECONDS = (0.5, 5.0)  # less than the session time-out, so its shards stay
BACKUP_SECONDS = (5.0, 15.0)
MOVE_SECONDS = 60.0
TRIM_SECONDS = 150.0  # the leader waits a minute before it trims to a position
SHARED_SECONDS = (8.0, 20.0)
KILLED_SHARE = 0.3
DISK_SECONDS = (3.0, 20.0)
CLOCK_MINUTES = (-30.0, 30.0)
CLOCK_SECONDS = (3.0, 20.0)
MACHINES_MAX = 6
FLIPPED_BYTES = 64
DATA_SHARE = 0.5
DATA_SUFFIXES = {".sst", ".log"}


class WorkerActs:
    def __init__(
        self,
        rng: random.Random,
        cluster: Cluster,
        victims: Victims,
        feed: Feed,
        log: LogEnds,
        narrate: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._cluster = cluster
        self._victims = victims
        self._feed = feed
        self._log = log
        self._narrate = narrate

    @property
    def with_own_disks(self) -> Mapping[Fault, Act]:
        """The faults of machines whose state has a file system of its own."""
        return {
            Fault.DISK_FULL_WORKER: partial(self._hurt_disk, "is full", Machine.without_room),
            Fault.FAILING_DISK_WORKER: partial(self._hurt_disk, "fails", Machine.failing_disk),
            Fault.POWER_LOSS_WORKER: self._lose_power,
        }

    @property
    def by_fault(self) -> Mapping[Fault, Act]:
        return {
            Fault.KILL_WORKER: partial(self._kill, "kill -9", Victim.ANY),
            Fault.KILL_LEADER: partial(self._kill, "kill -9 of the leader", Victim.LEADER),
            Fault.ADD_WORKER: self._add_worker,
            Fault.STOP_WORKER: self._stop_worker,
            Fault.ZOMBIE_WORKER: partial(self._zombie, "SIGSTOP", Victim.OWNER),
            Fault.ZOMBIE_LEADER: partial(self._zombie, "SIGSTOP of the leader", Victim.LEADER),
            Fault.PAUSE_WORKER: self._pause_worker,
            Fault.TRIMMED_WHILE_DOWN: self._trimmed_while_down,
            Fault.DELETE_STATE: self._delete_state,
            Fault.CORRUPT_STATE: self._corrupt_state,
            Fault.OLD_STATE: self._old_state,
            Fault.SHARED_STATE: self._share_state,
            Fault.CLOCK_WORKER: self._move_clock,
            Fault.UPGRADE_WORKER: self._upgrade,
        }

    async def _kill(self, what: str, whom: Victim) -> None:
        async with self._killed(what, whom):
            pass

    async def _add_worker(self) -> None:
        if len(self._cluster.machines) >= MACHINES_MAX:
            idle = [m for m in self._cluster.machines if not m.wanted and not m.busy]
            if not idle:
                raise NobodyError("there are enough machines")
            machine = self._rng.choice(idle)
            machine.start()
        else:
            machine = self._cluster.add()
        self._narrate(f"{machine.name}: added")
        await self._sleep(ADDED_SECONDS)
        async with self._victims.again(machine, "taken away again (SIGTERM)"):
            await self._cluster.stop(machine)

    async def _stop_worker(self) -> None:
        async with self._victims.victim("SIGTERM") as machine:
            await self._cluster.stop(machine)
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _zombie(self, what: str, whom: Victim) -> None:
        async with self._victims.victim(f"{what} until its shards have moved", whom) as machine:
            with machine.worker.suspended():
                moved = await self._until(lambda: self._moved_from(machine), MOVE_SECONDS)
                self._narrate(
                    f"{machine.name}: SIGCONT, its shards have{'' if moved else ' not'} moved"
                )
        if not moved:
            raise NobodyError("the zombie's shards never moved")

    async def _pause_worker(self) -> None:
        async with self._victims.victim("SIGSTOP, shorter than its session") as machine:
            with machine.worker.suspended():
                await self._sleep(PAUSED_SECONDS)

    async def _trimmed_while_down(self) -> None:
        # With two workers down, a third fault could leave no worker that trims.
        if self._victims.trims:
            raise NobodyError("another worker is down until the log is trimmed")
        what = "kill -9 until the log is trimmed"
        async with (
            self._victims.leader_spared(),
            self._victims.victim(what, Victim.FOLLOWER) as machine,
        ):
            machine.kill()
            end = await asyncio.to_thread(self._log.end)

            async def is_trimmed() -> bool:
                return await asyncio.to_thread(self._log.start) > end

            trimmed = await self._until(is_trimmed, TRIM_SECONDS)
            self._narrate(f"{machine.name}: started, the log is {'' if trimmed else 'not '}trimmed")
            machine.start()
        if not trimmed:
            raise NobodyError("nobody trimmed the log")

    async def _delete_state(self) -> None:
        async with self._killed("kill -9, its stores deleted", Victim.WITH_STORES) as machine:
            for store in machine.stores:
                shutil.rmtree(store)

    async def _corrupt_state(self) -> None:
        async with self._killed("kill -9, its stores damaged", Victim.WITH_STORES) as machine:
            done = [corrupt(self._rng, store) for store in machine.stores]
            machine.damaged |= set(machine.stores)
            self._narrate(f"{machine.name}: {', '.join(done)}")

    async def _old_state(self) -> None:
        async with self._victims.victim(
            "kill -9, its stores copied", Victim.WITH_STORES
        ) as machine:
            machine.kill()
            aside = machine.state.with_name(f"{machine.name}-aside-{machine.starts}")
            aside.mkdir()
            stores = machine.stores
            for store in stores:
                shutil.copytree(store, aside / store.name)
            machine.start()
        await self._sleep(BACKUP_SECONDS)
        async with self._victims.again(machine, "kill -9, its old stores put back"):
            machine.kill()
            for store in stores:
                shutil.rmtree(store, ignore_errors=True)
                shutil.move(aside / store.name, store)
            aside.rmdir()
            machine.start()

    async def _share_state(self) -> None:
        """Start a second worker with the state directory of another one, for some time."""
        up = self._cluster.up()
        if not up:
            raise NobodyError("no worker with which another one could share")
        owner = self._rng.choice(up)
        self._narrate(f"{owner.name}: a second worker has its state directory")
        with self._cluster.intruder(owner) as worker:
            await self._sleep(SHARED_SECONDS)
            if worker.exit_code() is None:
                await asyncio.to_thread(worker.terminate)
            words = worker.log_text().splitlines()[-1:]
            self._narrate(f"{owner.name}: the second worker has ended: {''.join(words)}")

    async def _move_clock(self) -> None:
        """Let a worker's wall clock jump, forward or back, and later jump to the right time."""
        minutes = self._rng.uniform(*CLOCK_MINUTES)
        async with self._victims.victim(f"its clock jumps by {minutes:+.1f} minutes") as machine:
            machine.attended = True
            machine.set_clock(60 * minutes)
            try:
                await self._sleep(CLOCK_SECONDS)
            finally:
                machine.set_clock(0.0)
                machine.attended = False

    async def _hurt_disk(
        self, what: str, hurt: Callable[[Machine], AbstractContextManager[None]]
    ) -> None:
        """Hurt a worker's disk for some time; until it works again, each new start ends soon."""
        async with self._victims.victim(f"its disk {what}", Victim.WITH_STORES) as machine:
            machine.attended = True
            try:
                with hurt(machine):
                    await self._sleep(DISK_SECONDS)
            finally:
                machine.attended = False
                self._narrate(f"{machine.name}: its disk works again")

    async def _lose_power(self) -> None:
        async with self._killed("its machine loses power", Victim.WITH_STORES) as machine:
            await asyncio.to_thread(machine.own_disk.lose_power, self._rng)

    async def _upgrade(self) -> None:
        """Replace a worker of the previous release; some are killed for it."""
        if not any(machine.is_older for machine in self._cluster.machines):
            raise NobodyError("all workers are upgraded")
        async with self._victims.victim("is upgraded", Victim.OLDER) as machine:
            if self._rng.random() < KILLED_SHARE:
                machine.kill()
            else:
                await self._cluster.stop(machine)
            await self._sleep(DOWN_SECONDS)
            machine.is_older = False
            machine.start()

    async def _moved_from(self, machine: Machine) -> bool:
        others = [m for m in self._cluster.machines if m is not machine]
        owned = await asyncio.gather(*(other.assigned_shards() for other in others))
        return sum(owned) >= self._feed.partitions

    async def _until(self, holds: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        """Wait until a condition holds; return False if it never does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if await holds():
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return False

    @asynccontextmanager
    async def _killed(self, what: str, whom: Victim) -> AsyncIterator[Machine]:
        """Kill a machine's worker, and start it again some seconds later."""
        async with self._victims.victim(what, whom) as machine:
            machine.kill()
            yield machine
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _sleep(self, seconds: tuple[float, float]) -> None:
        await asyncio.sleep(self._rng.uniform(*seconds))


def corrupt(rng: random.Random, store: Path) -> str:
    """Damage one file of a store as a failing disk would; return a description."""
    files = [f for f in store.iterdir() if f.is_file() and f.stat().st_size and f.name != "LOCK"]
    if not files:
        return "nothing to damage"
    data = [file for file in files if file.suffix in DATA_SUFFIXES]
    # There are many small files, all of which matter, but most of the bytes are in data files.
    file = rng.choice(sorted(data if data and rng.random() < DATA_SHARE else files))
    change = rng.choice(("flip", "cut", "remove"))
    if change == "remove":
        file.unlink()
    else:
        content = file.read_bytes()
        start = rng.randrange(len(content))
        flipped = bytes(byte ^ 0xFF for byte in content[start : start + FLIPPED_BYTES])
        rest = flipped + content[start + FLIPPED_BYTES :] if change == "flip" else b""
        file.write_bytes(content[:start] + rest)
    return f"{change} {store.name}/{file.name}"
