"""What is done to workers, to their machines, to the broker, and to the raw topic."""

from __future__ import annotations

import asyncio
import math
import random
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import Enum, auto
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewPartitions

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.torture.faults import Act, Fault, NobodyError
from tests.torture.feed import Feed
from tests.torture.inspection import LogEnds
from tests.torture.workers import Away, Cluster, Machine

DOWN_SECONDS = (0.0, 8.0)
ADDED_SECONDS = (10.0, 40.0)
PAUSED_SECONDS = (0.5, 5.0)  # less than the session time-out: its shards stay
BACKUP_SECONDS = (5.0, 15.0)
MOVE_SECONDS = 60.0
TRIM_SECONDS = 150.0  # the leader waits a minute before it trims to a position
FREE_SECONDS = 60.0
LOOK_SECONDS = 0.5
MACHINES_MOST = 6
FLIPPED_BYTES = 64
DATA_SHARE = 0.5
DATA_SUFFIXES = {".sst", ".log"}
BROKER_DOWN_SECONDS = (0.0, 3.0)
BROKER_BETWEEN_SECONDS = 10.0
APPEND_SECONDS = 20.0
ANSWER_SECONDS = 30.0
PARTITIONS_MOST = 12


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


class Acts:
    """Lets each fault strike; of those of the broker, one at a time."""

    def __init__(
        self,
        rng: random.Random,
        cluster: Cluster,
        broker: KafkaBroker,
        feed: Feed,
        log: LogEnds,
        narrate: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._cluster = cluster
        self._broker = broker
        self._feed = feed
        self._log = log
        self._narrate = narrate
        self._trims = 0
        self._leader_is_free = asyncio.Event()
        self._leader_is_free.set()
        self._broker_in_hand = asyncio.Lock()

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
            Fault.KILL_BROKER: self._kill_broker,
            Fault.KILL_BROKER_IN_APPEND: self._kill_broker_in_append,
            Fault.ADD_PARTITION: self._add_partition,
        }

    async def _kill(self, what: str, whom: Victim) -> None:
        async with self._killed(what, whom):
            pass

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

    async def _zombie(self, what: str, whom: Victim) -> None:
        async with self._victim(f"{what} until its shards have moved", whom) as machine:
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
        async with self._killed("kill -9, its stores deleted", Victim.WITH_STORES) as machine:
            for store in machine.stores:
                shutil.rmtree(store)

    async def _corrupt_state(self) -> None:
        async with self._killed("kill -9, its stores damaged", Victim.WITH_STORES) as machine:
            done = [corrupt(self._rng, store) for store in machine.stores]
            machine.damaged |= set(machine.stores)
            self._narrate(f"{machine.name}: {', '.join(done)}")

    async def _old_state(self) -> None:
        async with self._victim("kill -9, its stores copied", Victim.WITH_STORES) as machine:
            machine.kill()
            aside = machine.state.with_name(f"{machine.name}-aside-{machine.starts}")
            aside.mkdir()
            stores = machine.stores
            for store in stores:
                shutil.copytree(store, aside / store.name)
            machine.start()
        await self._sleep(BACKUP_SECONDS)
        async with self._in_hand(machine, "kill -9, its old stores put back"):
            machine.kill()
            for store in stores:
                shutil.rmtree(store, ignore_errors=True)
                (aside / store.name).rename(store)
            aside.rmdir()
            machine.start()

    async def _moved_from(self, machine: Machine) -> bool:
        others = [m for m in self._cluster.machines if m is not machine]
        owned = await asyncio.gather(*(other.assigned_shards() for other in others))
        return sum(owned) >= self._feed.partitions

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
    async def _killed(self, what: str, whom: Victim) -> AsyncIterator[Machine]:
        """Kill a machine's worker, and start it again some seconds later."""
        async with self._victim(what, whom) as machine:
            machine.kill()
            yield machine
            await self._sleep(DOWN_SECONDS)
            machine.start()

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

    async def _kill_broker(self) -> None:
        async with self._broker_in_hand:
            await self._kill_the_broker("kill -9")

    async def _kill_broker_in_append(self) -> None:
        """Kill it right after an append to the log: its answers are lost as often as not."""
        async with self._broker_in_hand:
            appended = await asyncio.to_thread(self._kill_at_an_append)
            if not appended:
                raise NobodyError("nothing was appended")
            await self._kill_the_broker("kill -9 at an append to the log")

    def _kill_at_an_append(self) -> bool:
        end, deadline = self._log.end(), time.monotonic() + APPEND_SECONDS
        while time.monotonic() < deadline:
            if self._log.end() > end:
                self._broker.kill()
                return True
        return False

    async def _kill_the_broker(self, what: str) -> None:
        self._narrate(f"broker: {what}")
        away = time.monotonic()
        self._cluster.broker_away = Away(away, math.inf)
        await asyncio.to_thread(self._broker.kill)
        await self._sleep(BROKER_DOWN_SECONDS)
        await asyncio.to_thread(self._broker.start)
        back = time.monotonic()
        self._cluster.broker_away = Away(away, back)
        self._narrate(f"broker: answers again, after {back - away:.1f} s")
        await asyncio.sleep(BROKER_BETWEEN_SECONDS)

    async def _add_partition(self) -> None:
        async with self._broker_in_hand:
            partitions = self._feed.partitions + 1
            if partitions > PARTITIONS_MOST:
                raise NobodyError("the raw topic has enough partitions")
            self._narrate(f"raw topic: {partitions} partitions")
            try:
                await asyncio.to_thread(self._grow, partitions)
            except KafkaException as error:
                raise NobodyError(f"the broker refuses: {error}") from error
            self._feed.partitions = partitions

    def _grow(self, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers})
        wanted = [NewPartitions(self._feed.topic, partitions)]
        for made in admin.create_partitions(wanted, operation_timeout=ANSWER_SECONDS).values():
            made.result(ANSWER_SECONDS)


async def _is_one(machine: Machine, whom: Victim) -> bool:
    if whom is Victim.ANY:
        return True
    if whom is Victim.WITH_STORES:
        return bool(machine.stores)
    if whom is Victim.LEADER:
        return await machine.leads()
    owns = await machine.assigned_shards() > 0
    return owns and (whom is Victim.OWNER or not await machine.leads())


def corrupt(rng: random.Random, store: Path) -> str:
    """Damage one file of a store, as a failing disk would; say what was done."""
    files = [f for f in store.iterdir() if f.is_file() and f.stat().st_size and f.name != "LOCK"]
    if not files:
        return "nothing to damage"
    data = [file for file in files if file.suffix in DATA_SUFFIXES]
    # There are many small files, all of which matter; yet most of the bytes are in these.
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
