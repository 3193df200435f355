"""The faults of the cluster, and their schedule, which is drawn from the seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

FIRST_AT, LAST_AT = 0.08, 0.92  # shares of the time that the feed takes
LAST_TRIM_AT = 0.6  # after the feed nothing is trimmed any more
ALONE_SECONDS = 110.0
"""How long the first wait for a trimmed log is alone: only a leader that led for a minute trims."""
ALONE_SHARE = 0.25
"""The limit of that time as a share of the feed's time; a shorter run does not reserve it."""
CYCLE_SECONDS = (60.0, 110.0)
STORM_SHARE = 0.5
"""Share of each cycle in which faults begin; the last ones end later, and then it is quiet."""


class Fault(StrEnum):
    KILL_WORKER = "kill_worker"
    KILL_LEADER = "kill_leader"
    ADD_WORKER = "add_worker"
    STOP_WORKER = "stop_worker"
    ZOMBIE_WORKER = "zombie_worker"
    ZOMBIE_LEADER = "zombie_leader"
    PAUSE_WORKER = "pause_worker"
    TRIMMED_WHILE_DOWN = "trimmed_while_down"
    DELETE_STATE = "delete_state"
    CORRUPT_STATE = "corrupt_state"
    OLD_STATE = "old_state"
    KILL_BROKER = "kill_broker"
    KILL_BROKER_IN_APPEND = "kill_broker_in_append"
    ADD_PARTITION = "add_partition"
    RECREATE_REPORTS = "recreate_reports"
    # Only with three brokers:
    STOP_BROKER = "stop_broker"
    PAUSE_BROKER = "pause_broker"
    RESTART_BROKERS = "restart_brokers"
    KILL_LOG_LEADER = "kill_log_leader"
    PAUSE_LOG_LEADER = "pause_log_leader"
    KILL_GROUP_COORDINATOR = "kill_group_coordinator"
    KILL_TRANSACTION_COORDINATOR = "kill_transaction_coordinator"
    KILL_CONTROLLER = "kill_controller"
    KILL_TWO_BROKERS = "kill_two_brokers"
    POWER_LOSS_BROKER = "power_loss_broker"
    TORN_WRITE_BROKER = "torn_write_broker"
    DISK_FULL_BROKER = "disk_full_broker"
    LOST_DISK_BROKER = "lost_disk_broker"
    CLOCK_BROKER = "clock_broker"
    MOVE_LOG_LEADER = "move_log_leader"
    ELECT_PREFERRED = "elect_preferred"
    REASSIGN = "reassign"
    SHARED_STATE = "shared_state"
    UPGRADE_WORKER = "upgrade_worker"
    DISK_FULL_WORKER = "disk_full_worker"
    FAILING_DISK_WORKER = "failing_disk_worker"
    POWER_LOSS_WORKER = "power_loss_worker"
    CLOCK_WORKER = "clock_worker"
    CUT_WORKER_FROM_BROKER = "cut_worker_from_broker"
    CUT_WORKER = "cut_worker"
    CUT_LEADER_FROM_LOG = "cut_leader_from_log"
    CUT_LEADER_FROM_REPORTS = "cut_leader_from_reports"
    ONE_WAY_WORKER = "one_way_worker"
    FLAPPING_WORKER = "flapping_worker"
    LOSSY_WORKER = "lossy_worker"
    SLOW_WORKER = "slow_worker"
    FROZEN_WORKER = "frozen_worker"
    SMALL_PACKETS_WORKER = "small_packets_worker"
    LATE_REQUESTS_WORKER = "late_requests_worker"
    CUT_BROKER_FROM_BROKERS = "cut_broker_from_brokers"
    CUT_BROKER = "cut_broker"
    ONE_WAY_BROKER = "one_way_broker"
    FLAPPING_BROKER = "flapping_broker"
    LOSSY_BROKER = "lossy_broker"
    SLOW_BROKER = "slow_broker"
    FROZEN_BROKER = "frozen_broker"
    SMALL_PACKETS_BROKER = "small_packets_broker"


Act = Callable[[], Awaitable[None]]
"""Carries out one fault until it is over and calls ``struck``; raises ``NobodyError``."""


class NobodyError(Exception):
    """There is no worker or broker for the fault."""


class Event(NamedTuple):
    """A fault and its start, in seconds after the start of the feed."""

    at: float
    fault: Fault


@dataclass(eq=False)
class Strike:
    """The times of one fault; before it strikes it may wait for a victim."""

    fault: Fault
    began: float | None = None
    ended: float = 0.0


_current: ContextVar[Strike | None] = ContextVar("strike", default=None)


def struck() -> None:
    """Note that this task's fault strikes now."""
    strike = _current.get()
    if strike is not None and strike.began is None:
        strike.began = time.monotonic()


def schedule(
    rng: random.Random, faults: int, seconds: float, kinds: Sequence[Fault]
) -> list[Event]:
    """Return ``faults`` events in order of time; each kind comes once before any comes again."""
    chosen: list[Fault] = []
    while len(chosen) < faults:
        chosen += rng.sample(list(kinds), len(kinds))
    first = FIRST_AT * seconds
    trim = Fault.TRIMMED_WHILE_DOWN
    events = []
    if trim in chosen[:faults] and ALONE_SHARE * seconds >= ALONE_SECONDS:
        chosen.remove(trim)
        events, faults = [Event(first, trim)], faults - 1
        first += ALONE_SECONDS
    storms = list(_storms(rng, first, LAST_AT * seconds))
    early = list(_storms_until(storms, LAST_TRIM_AT * seconds)) or storms[:1]
    times = (_time_in(rng, early if kind is trim else storms) for kind in chosen[:faults])
    return sorted([*events, *map(Event, times, chosen)])


_Storm = tuple[float, float]


def _storms(rng: random.Random, first: float, last: float) -> Iterator[_Storm]:
    """Yield the times in which faults begin; between them it is quiet."""
    while first < last:
        cycle = rng.uniform(*CYCLE_SECONDS)
        yield first, min(first + STORM_SHARE * cycle, last)
        first += cycle


def _storms_until(storms: Sequence[_Storm], last: float) -> Iterator[_Storm]:
    return ((first, min(end, last)) for first, end in storms if first < last)


def _time_in(rng: random.Random, storms: Sequence[_Storm]) -> float:
    lengths = [end - first for first, end in storms]
    first, end = rng.choices(storms, lengths)[0]
    return rng.uniform(first, end)


class Tormentor:
    """Carries out faults; they may overlap, except two on one machine and two on brokers."""

    def __init__(self, acts: Mapping[Fault, Act]) -> None:
        self.done: Counter[Fault] = Counter()
        self.skipped: Counter[str] = Counter()
        self.strikes: list[Strike] = []
        self._acts = acts

    async def run_apart(
        self, faults: Sequence[Fault], ends: float, recovered: Callable[[], Awaitable[None]]
    ) -> None:
        """Carry out faults one by one until ``ends``, each after the stream has recovered."""
        for fault in faults:
            await recovered()
            if time.monotonic() > ends:
                return
            await asyncio.create_task(self._strike(fault))

    async def run(self, events: list[Event]) -> None:
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for event in events:
                await asyncio.sleep(max(0.0, event.at - (time.monotonic() - started)))
                group.create_task(self._strike(event.fault))

    async def _strike(self, fault: Fault) -> None:
        strike = Strike(fault)
        _current.set(strike)  # each task has its own context
        try:
            await self._acts[fault]()
        except NobodyError as reason:
            self.skipped[f"{fault}: {reason}"] += 1
        else:
            self.done[fault] += 1
        finally:
            strike.ended = time.monotonic()
            if strike.began is not None:
                self.strikes.append(strike)
