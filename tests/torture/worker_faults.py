"""What is done to workers and to their machines."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import Enum, auto

from tests.torture import damage
from tests.torture.faults import Act, Fault, NobodyError
from tests.torture.log_ends import LogEnds
from tests.torture.workers import Cluster, Machine

DOWN_SECONDS = (0.0, 8.0)
ADDED_SECONDS = (10.0, 40.0)
PAUSED_SECONDS = (0.5, 5.0)  # less than the session time-out: its shards stay
BACKUP_SECONDS = (5.0, 15.0)
MOVE_SECONDS = 60.0
TRIM_SECONDS = 150.0  # the leader waits a minute before it trims to a position
FREE_SECONDS = 60.0
LOOK_SECONDS = 0.5
MACHINES_MOST = 6


class Victim(Enum):
    ANY = auto()
    OWNER = auto()
    """One that owns shards, and is not alone."""
    LEADER = auto()
    """The one that decides, and is not alone."""
    FOLLOWER = auto()
    """One that owns shards, and does not decide."""
    WITH_STORES = auto()
    """One that has stores on its disk."""


class WorkerFaults:
    """``shards``: how many there are now."""

    def __init__(
        self,
        rng: random.Random,
        cluster: Cluster,
        log: LogEnds,
        shards: Callable[[], int],
        narrate: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._cluster = cluster
        self._log = log
        self._shards = shards
        self._narrate = narrate
        self._trims = 0
        self._leader_is_free = asyncio.Event()
        self._leader_is_free.set()

    @property
    def acts(self) -> Mapping[Fault, Act]:
        return {
            Fault.KILL_WORKER: self._kill_worker,
            Fault.KILL_LEADER: self._kill_leader,
            Fault.ADD_WORKER: self._add_worker,
            Fault.STOP_WORKER: self._stop_worker,
            Fault.ZOMBIE_WORKER: self._zombie_worker,
            Fault.ZOMBIE_LEADER: self._zombie_leader,
            Fault.PAUSE_WORKER: self._pause_worker,
            Fault.TRIMMED_WHILE_DOWN: self._trimmed_while_down,
            Fault.DELETE_STATE: self._delete_state,
            Fault.CORRUPT_STATE: self._corrupt_state,
            Fault.OLD_STATE: self._old_state,
        }

    async def _kill_worker(self) -> None:
        await self._kill("kill -9", Victim.ANY)

    async def _kill_leader(self) -> None:
        await self._kill("kill -9 of the leader", Victim.LEADER)

    async def _kill(self, what: str, whom: Victim) -> None:
        async with self._victim(what, whom) as machine:
            machine.kill()
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _add_worker(self) -> None:
        if len(self._cluster.machines) >= MACHINES_MOST:
            idle = [m for m in self._cluster.machines if not m.wanted and not m.busy]
            if not idle:
                raise NobodyError("there are enough machines")
            machine = self._rng.choice(idle)
            machine.start()
        else:
            machine = self._cluster.add()
        self._narrate(f"{machine.name}: added")
        await self._sleep(ADDED_SECONDS)
        async with self._in_hand(machine, "taken away again (SIGTERM)"):
            await self._cluster.stop(machine)

    async def _stop_worker(self) -> None:
        async with self._victim("SIGTERM") as machine:
            await self._cluster.stop(machine)
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _zombie_worker(self) -> None:
        await self._zombie("SIGSTOP until its shards have moved", Victim.OWNER)

    async def _zombie_leader(self) -> None:
        await self._zombie("SIGSTOP of the leader until its shards have moved", Victim.LEADER)

    async def _zombie(self, what: str, whom: Victim) -> None:
        async with self._victim(what, whom) as machine:
            machine.worker.suspend()
            moved = await self._until(lambda: self._moved_from(machine), MOVE_SECONDS)
            self._narrate(
                f"{machine.name}: SIGCONT, its shards have{'' if moved else ' not'} moved"
            )
            machine.worker.resume()
        if not moved:
            raise NobodyError("the zombie's shards never moved")

    async def _pause_worker(self) -> None:
        async with self._victim("SIGSTOP, shorter than its session") as machine:
            machine.worker.suspend()
            await self._sleep(PAUSED_SECONDS)
            machine.worker.resume()

    async def _trimmed_while_down(self) -> None:
        if self._trims:  # with two of them down, a third fault could leave nobody who trims
            raise NobodyError("another worker is down until the log is trimmed")
        what = "kill -9 until the log is trimmed"
        async with self._leader_spared(), self._victim(what, Victim.FOLLOWER) as machine:
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
        async with self._victim("kill -9, its stores deleted", Victim.WITH_STORES) as machine:
            machine.kill()
            for store in machine.stores:
                damage.delete(store)
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _corrupt_state(self) -> None:
        async with self._victim("kill -9, its stores damaged", Victim.WITH_STORES) as machine:
            machine.kill()
            done = [damage.corrupt(self._rng, store) for store in machine.stores]
            machine.damaged |= set(machine.stores)
            self._narrate(f"{machine.name}: {', '.join(done)}")
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _old_state(self) -> None:
        async with self._victim("kill -9, its stores copied", Victim.WITH_STORES) as machine:
            machine.kill()
            aside = machine.state.with_name(f"{machine.name}-aside-{machine.starts}")
            put_back = damage.set_aside(machine.stores, aside)
            machine.start()
        await self._sleep(BACKUP_SECONDS)
        async with self._in_hand(machine, "kill -9, its old stores put back"):
            machine.kill()
            put_back()
            machine.start()

    async def _moved_from(self, machine: Machine) -> bool:
        """Whether the other workers own all shards."""
        others = [m for m in self._cluster.machines if m is not machine]
        owned = await asyncio.gather(*(other.assigned_shards() for other in others))
        return sum(owned) >= self._shards()

    async def _until(self, holds: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        """Wait until something holds; False where it never does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if await holds():
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return False

    @asynccontextmanager
    async def _victim(self, what: str, whom: Victim = Victim.ANY) -> AsyncIterator[Machine]:
        if whom is Victim.LEADER:
            await self._leader_is_free.wait()
        deadline = time.monotonic() + FREE_SECONDS
        while time.monotonic() < deadline:
            up = self._cluster.up()
            self._rng.shuffle(up)
            alone = len(up) < 2 and whom in {Victim.OWNER, Victim.LEADER, Victim.FOLLOWER}
            for machine in [] if alone else up:
                if not await _is_one(machine, whom) or machine.busy or not machine.wanted:
                    continue  # perhaps only since
                if not self._leader_is_free.is_set() and await machine.leads():
                    continue
                async with self._in_hand(machine, what):
                    yield machine
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise NobodyError("no worker that could be its victim")

    @asynccontextmanager
    async def _leader_spared(self) -> AsyncIterator[None]:
        """Let no fault strike the leader meanwhile: a new one waits a minute before it trims."""
        self._trims += 1
        self._leader_is_free.clear()
        try:
            yield
        finally:
            self._trims -= 1
            if not self._trims:
                self._leader_is_free.set()

    @asynccontextmanager
    async def _in_hand(self, machine: Machine, what: str) -> AsyncIterator[Machine]:
        async with machine.hand:
            self._narrate(f"{machine.name}: {what}")
            yield machine

    async def _sleep(self, seconds: tuple[float, float]) -> None:
        await asyncio.sleep(self._rng.uniform(*seconds))


async def _is_one(machine: Machine, whom: Victim) -> bool:
    match whom:
        case Victim.OWNER:
            return await machine.assigned_shards() > 0
        case Victim.LEADER:
            return await machine.leads()
        case Victim.FOLLOWER:
            return await machine.assigned_shards() > 0 and not await machine.leads()
        case Victim.WITH_STORES:
            return bool(machine.stores)
    return True
