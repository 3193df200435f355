"""What is done to the cluster, and when: a schedule that follows from the seed."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import NamedTuple

from tests.brokers.kafka_broker import KafkaBroker
from tests.torture import damage
from tests.torture.workers import Away, Cluster, Machine

SHARDS = 4
FIRST_AT, LAST_AT = 0.08, 0.92  # of the time that the feed takes
DOWN_SECONDS = (0.0, 8.0)
BROKER_DOWN_SECONDS = (0.0, 3.0)
BROKER_BETWEEN_SECONDS = 10.0
ADDED_SECONDS = (10.0, 40.0)
PAUSED_SECONDS = (0.5, 5.0)  # less than the session time-out: its shards stay
BACKUP_SECONDS = (5.0, 15.0)
MOVE_SECONDS = 60.0
FREE_SECONDS = 60.0
LOOK_SECONDS = 0.5
MACHINES_MOST = 6


class Fault(StrEnum):
    """One kind of thing that goes wrong, or that an operator does."""

    KILL_WORKER = "kill_worker"
    ADD_WORKER = "add_worker"
    STOP_WORKER = "stop_worker"
    ZOMBIE_WORKER = "zombie_worker"
    PAUSE_WORKER = "pause_worker"
    KILL_BROKER = "kill_broker"
    DELETE_STATE = "delete_state"
    CORRUPT_STATE = "corrupt_state"
    OLD_STATE = "old_state"


class Event(NamedTuple):
    """A fault, and when it strikes, in seconds from the start of the feed."""

    at: float
    fault: Fault


def schedule(rng: random.Random, faults: int, seconds: float) -> list[Event]:
    """Return so many events in order of time; no kind comes a second time before all have come."""
    kinds: list[Fault] = []
    while len(kinds) < faults:
        kinds += rng.sample(list(Fault), len(Fault))
    times = (rng.uniform(FIRST_AT * seconds, LAST_AT * seconds) for _ in range(faults))
    return sorted(map(Event, times, kinds))


class Tormentor:
    """Carries out faults; they may overlap, save two on one machine and two on the broker."""

    def __init__(
        self,
        rng: random.Random,
        cluster: Cluster,
        broker: KafkaBroker,
        narrate: Callable[[str], None],
    ) -> None:
        self.done: Counter[Fault] = Counter()
        self.skipped: Counter[str] = Counter()
        self._rng = rng
        self._cluster = cluster
        self._broker = broker
        self._narrate = narrate
        self._broker_in_hand = asyncio.Lock()
        self._acts: dict[Fault, Callable[[], Awaitable[None]]] = {
            Fault.KILL_WORKER: self._kill_worker,
            Fault.ADD_WORKER: self._add_worker,
            Fault.STOP_WORKER: self._stop_worker,
            Fault.ZOMBIE_WORKER: self._zombie_worker,
            Fault.PAUSE_WORKER: self._pause_worker,
            Fault.KILL_BROKER: self._kill_broker,
            Fault.DELETE_STATE: self._delete_state,
            Fault.CORRUPT_STATE: self._corrupt_state,
            Fault.OLD_STATE: self._old_state,
        }

    async def run(self, events: list[Event]) -> None:
        """Let every event happen at its time; returns when the last is over."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for event in events:
                await asyncio.sleep(max(0.0, event.at - (time.monotonic() - started)))
                group.create_task(self._strike(event.fault))

    async def _strike(self, fault: Fault) -> None:
        try:
            await self._acts[fault]()
        except _NobodyError as reason:
            self.skipped[f"{fault}: {reason}"] += 1
        else:
            self.done[fault] += 1

    async def _kill_worker(self) -> None:
        async with self._victim("kill -9") as machine:
            machine.kill()
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _add_worker(self) -> None:
        if len(self._cluster.machines) >= MACHINES_MOST:
            idle = [m for m in self._cluster.machines if not m.wanted and not m.busy]
            if not idle:
                raise _NobodyError("there are enough machines")
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
        async with self._victim("SIGSTOP until its shards have moved", owner=True) as machine:
            machine.worker.suspend()
            moved = await self._moved_from(machine)
            self._narrate(f"{machine.name}: SIGCONT, its shards {moved}")
            machine.worker.resume()

    async def _pause_worker(self) -> None:
        async with self._victim("SIGSTOP, shorter than its session") as machine:
            machine.worker.suspend()
            await self._sleep(PAUSED_SECONDS)
            machine.worker.resume()

    async def _kill_broker(self) -> None:
        async with self._broker_in_hand:
            self._narrate("broker: kill -9")
            away = time.monotonic()
            self._cluster.broker_away = Away(away, math.inf)
            await asyncio.to_thread(self._broker.kill)
            await self._sleep(BROKER_DOWN_SECONDS)
            await asyncio.to_thread(self._broker.start)
            back = time.monotonic()
            self._cluster.broker_away = Away(away, back)
            self._narrate(f"broker: answers again, after {back - away:.1f} s")
            await asyncio.sleep(BROKER_BETWEEN_SECONDS)

    async def _delete_state(self) -> None:
        async with self._victim("kill -9, its stores deleted", stores=True) as machine:
            machine.kill()
            for store in machine.stores:
                damage.delete(store)
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _corrupt_state(self) -> None:
        async with self._victim("kill -9, its stores damaged", stores=True) as machine:
            machine.kill()
            done = [damage.corrupt(self._rng, store) for store in machine.stores]
            machine.damaged |= set(machine.stores)
            self._narrate(f"{machine.name}: {', '.join(done)}")
            await self._sleep(DOWN_SECONDS)
            machine.start()

    async def _old_state(self) -> None:
        async with self._victim("kill -9, its stores copied", stores=True) as machine:
            machine.kill()
            aside = machine.state.with_name(f"{machine.name}-aside-{machine.starts}")
            put_back = damage.set_aside(machine.stores, aside)
            machine.start()
        await self._sleep(BACKUP_SECONDS)
        async with self._in_hand(machine, "kill -9, its old stores put back"):
            machine.kill()
            put_back()
            machine.start()

    async def _moved_from(self, machine: Machine) -> str:
        """Wait until the other workers own all shards; say how that ended."""
        deadline = time.monotonic() + MOVE_SECONDS
        while time.monotonic() < deadline:
            others = [m for m in self._cluster.machines if m is not machine]
            owned = await asyncio.gather(*(other.assigned_shards() for other in others))
            if sum(owned) >= SHARDS:
                return "have moved"
            await asyncio.sleep(LOOK_SECONDS)
        self.skipped["zombie's shards never moved"] += 1
        return "never moved"

    @asynccontextmanager
    async def _victim(
        self, what: str, *, owner: bool = False, stores: bool = False
    ) -> AsyncIterator[Machine]:
        """Take a running machine in hand.

        ``owner``: one that owns shards, and is not alone; ``stores``: one that has some on disk.
        """
        deadline = time.monotonic() + FREE_SECONDS
        while time.monotonic() < deadline:
            up = self._cluster.up()
            self._rng.shuffle(up)
            for machine in up if not owner or len(up) > 1 else []:
                if stores and not machine.stores:
                    continue
                if owner and not await machine.assigned_shards():
                    continue
                if machine.busy or not machine.wanted:
                    continue  # meanwhile
                async with self._in_hand(machine, what):
                    yield machine
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise _NobodyError("no worker that could be its victim")

    @asynccontextmanager
    async def _in_hand(self, machine: Machine, what: str) -> AsyncIterator[Machine]:
        """Hold one machine, as soon as no other fault holds it."""
        async with machine.hand:
            self._narrate(f"{machine.name}: {what}")
            yield machine

    async def _sleep(self, seconds: tuple[float, float]) -> None:
        await asyncio.sleep(self._rng.uniform(*seconds))


class _NobodyError(Exception):
    """The fault finds nobody to strike."""
