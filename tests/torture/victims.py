"""Chooses the machine that a fault strikes; one machine without a fault always remains."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import Enum, auto

from tests.torture.faults import NobodyError
from tests.torture.workers import Cluster, Machine

FREE_SECONDS = 60.0
LOOK_SECONDS = 0.5
STEADY_SECONDS = 8.0
"""How long the remaining worker must have been up, so that it has shards or gets them at once."""


class Victim(Enum):
    ANY = auto()
    OWNER = auto()
    """A worker that owns shards."""
    LEADER = auto()
    """The worker that decides."""
    FOLLOWER = auto()
    """A worker that owns shards and does not decide."""
    WITH_STORES = auto()
    """A worker that has stores on its disk."""
    OLDER = auto()
    """A worker of the previous release."""


class Victims:
    """Gives a fault a machine while another one without a fault has been up for long enough."""

    def __init__(
        self, rng: random.Random, cluster: Cluster, narrate: Callable[[str], None]
    ) -> None:
        self.trims = 0
        self._rng = rng
        self._cluster = cluster
        self._narrate = narrate
        self._leader_is_free = asyncio.Event()
        self._leader_is_free.set()

    @asynccontextmanager
    async def victim(self, what: str, whom: Victim = Victim.ANY) -> AsyncIterator[Machine]:
        """Hold a machine; raises ``NobodyError`` if none is available for a minute."""
        if whom is Victim.LEADER:
            await self._leader_is_free.wait()
        deadline = time.monotonic() + FREE_SECONDS
        while time.monotonic() < deadline:
            up = self._cluster.up()
            self._rng.shuffle(up)
            for machine in up:
                if not self._spares(machine) or not await _is_one(machine, whom):
                    continue
                if not self._leader_is_free.is_set() and await machine.leads():
                    continue
                if machine.busy or not machine.wanted or not self._spares(machine):
                    continue  # this changed during the awaits above
                async with machine.held():
                    self._narrate(f"{machine.name}: {what}")
                    yield machine
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise NobodyError("no worker that could be its victim")

    @asynccontextmanager
    async def again(self, machine: Machine, what: str) -> AsyncIterator[Machine]:
        """Hold a certain machine; raises ``NobodyError`` too."""
        deadline = time.monotonic() + FREE_SECONDS
        while machine.busy or not self._spares(machine):
            if time.monotonic() > deadline:
                raise NobodyError("its victim could not be spared a second time")
            await asyncio.sleep(LOOK_SECONDS)
        async with machine.held():
            self._narrate(f"{machine.name}: {what}")
            yield machine

    @asynccontextmanager
    async def leader_spared(self) -> AsyncIterator[None]:
        """Keep faults away from the leader, because a new one waits a minute before it trims."""
        self.trims += 1
        self._leader_is_free.clear()
        try:
            yield
        finally:
            self.trims -= 1
            if not self.trims:
                self._leader_is_free.set()

    def _spares(self, machine: Machine) -> bool:
        """Return whether another machine remains that has been up for long enough."""
        steady = time.monotonic() - STEADY_SECONDS
        others = (each for each in self._cluster.machines if each is not machine)
        return any(each.unhurt_since <= steady for each in others)


async def _is_one(machine: Machine, whom: Victim) -> bool:
    if whom is Victim.ANY:
        return True
    if whom is Victim.WITH_STORES:
        return bool(machine.stores)
    if whom is Victim.OLDER:
        return machine.is_older
    if whom is Victim.LEADER:
        return await machine.leads()
    owns = await machine.assigned_shards() > 0
    return owns and (whom is Victim.OWNER or not await machine.leads())
