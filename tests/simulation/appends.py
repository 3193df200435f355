"""Appends in flight: they and their responses may arrive late, out of order, twice or never."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from simhash_core.log import versions
from simhash_core.log.records import Control, LogRecord, Report
from tests.simulation.life import Life, Stream
from tests.simulation.narration import line_of

if TYPE_CHECKING:
    from tests.simulation.world import World


class _OnTheWay(NamedTuple):
    """An append that has not reached its broker yet."""

    life: Life
    streams: list[Stream | None]
    record: LogRecord | Report
    version: int


class Appends:
    """All appends of all lives. In calm times nothing goes wrong."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._on_the_way: list[_OnTheWay] = []

    @property
    def are_under_way(self) -> bool:
        return bool(self._on_the_way)

    def send(self, life: Life, record: LogRecord | Report) -> None:
        version = life.participant.version
        self._on_the_way.append(_OnTheWay(life, life.streams_of(record), record, version))
        if not self._world.is_calm and self._world.rng.random() > self._world.scenario.late:
            self.arrive()

    def arrive(self) -> None:
        """Let an append arrive or get lost, and send its response."""
        if not self._on_the_way:
            return
        rng, scenario, is_calm = self._world.rng, self._world.scenario, self._world.is_calm
        overtakes = not is_calm and rng.random() < scenario.reordered
        at = rng.randrange(len(self._on_the_way)) if overtakes else 0
        life, streams, record, version = self._on_the_way.pop(at)
        chance = 1.0 if is_calm else rng.random()
        if chance < scenario.refused:
            self._world.tell(f"refused: {life.name}'s {line_of(record)}")
            life.answers.append(partial(life.append_failed, record, streams))
            return
        if isinstance(record, Report) and not is_calm and self._vanishes():
            self._world.tell(f"acknowledged and lost: {life.name}'s {line_of(record)}")
            return
        offset = self.append(life.name, record, version)
        chance -= scenario.refused
        if chance < scenario.lost:
            self._world.tell("    its answer is lost")
            life.answers.append(partial(life.append_failed, record, streams))
            return
        if chance - scenario.lost < scenario.doubled:
            again = self.append(life.name, record, version)
            offset = rng.choice((offset, again))  # the broker returns one of the two offsets
        if isinstance(record, Control):
            answer = partial(life.participant.control_appended, offset, record.leader)
            life.answers.append(answer)

    def _vanishes(self) -> bool:
        vanishing = self._world.scenario.vanishing
        return vanishing > 0 and self._world.rng.random() < vanishing

    def append(self, who: str, record: LogRecord | Report, version: int = versions.OLDEST) -> int:
        broker = self._world.broker
        if isinstance(record, Report):
            broker.reports.append(record)
            self._world.tell(f"report of {who}: {line_of(record)}")
            return len(broker.reports) - 1
        offset = broker.log_end
        broker.log.append(record)
        broker.versions.append(version)
        self._world.tell(f"log {offset} by {who}: {line_of(record)}")
        self._world.judge.appended(offset, record, broker.appended_ms(offset), version)
        return offset
