"""What is done to the cluster, and when: a schedule that follows from the seed."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

FIRST_AT, LAST_AT = 0.08, 0.92  # of the time that the feed takes
LAST_TRIM_AT = 0.6  # after the feed nothing is trimmed any more
ALONE_SECONDS = 110.0
"""How long the first wait for a trimmed log is alone: only a leader that led for a minute trims."""
ALONE_SHARE = 0.25
"""The most of the time of the feed that this may take; in a shorter run it is not alone."""


class Fault(StrEnum):
    KILL_WORKER = "kill_worker"
    KILL_LEADER = "kill_leader"
    ADD_WORKER = "add_worker"
    STOP_WORKER = "stop_worker"
    ZOMBIE_WORKER = "zombie_worker"
    ZOMBIE_LEADER = "zombie_leader"
    PAUSE_WORKER = "pause_worker"
    KILL_BROKER = "kill_broker"
    KILL_BROKER_IN_APPEND = "kill_broker_in_append"
    ADD_PARTITION = "add_partition"
    TRIMMED_WHILE_DOWN = "trimmed_while_down"
    DELETE_STATE = "delete_state"
    CORRUPT_STATE = "corrupt_state"
    OLD_STATE = "old_state"


Act = Callable[[], Awaitable[None]]
"""Lets one fault strike, until it is over; raises ``NobodyError``."""


class NobodyError(Exception):
    """The fault finds nobody to strike."""


class Event(NamedTuple):
    """A fault, and when it strikes, in seconds from the start of the feed."""

    at: float
    fault: Fault


def schedule(rng: random.Random, faults: int, seconds: float) -> list[Event]:
    """Return so many events in order of time; no kind comes a second time before all have come."""
    kinds: list[Fault] = []
    while len(kinds) < faults:
        kinds += rng.sample(list(Fault), len(Fault))
    first = FIRST_AT * seconds
    trim = Fault.TRIMMED_WHILE_DOWN
    events = []
    if trim in kinds[:faults] and ALONE_SHARE * seconds >= ALONE_SECONDS:
        kinds.remove(trim)
        events, faults = [Event(first, trim)], faults - 1
        first += ALONE_SECONDS
    last = {trim: LAST_TRIM_AT}
    times = (rng.uniform(first, last.get(kind, LAST_AT) * seconds) for kind in kinds[:faults])
    return sorted([*events, *map(Event, times, kinds)])


class Tormentor:
    """Carries out faults; they may overlap, save two on one machine and two on the broker."""

    def __init__(self, acts: Mapping[Fault, Act]) -> None:
        self.done: Counter[Fault] = Counter()
        self.skipped: Counter[str] = Counter()
        self._acts = acts

    async def run(self, events: list[Event]) -> None:
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for event in events:
                await asyncio.sleep(max(0.0, event.at - (time.monotonic() - started)))
                group.create_task(self._strike(event.fault))

    async def _strike(self, fault: Fault) -> None:
        try:
            await self._acts[fault]()
        except NobodyError as reason:
            self.skipped[f"{fault}: {reason}"] += 1
        else:
            self.done[fault] += 1
