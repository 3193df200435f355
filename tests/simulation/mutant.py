"""A mutant: a simulator with one rule broken, which some seed must catch."""

from __future__ import annotations

import random
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.simulation.documents import Families, SimulatedDocument
from tests.simulation.replacements import Replacement, replaced
from tests.simulation.scenario import KEPT, Fault, IndexScenario, draw_records
from tests.simulation.simulator import Simulator

FIRST_SEEDS: Final[dict[str, int]] = tomllib.loads(
    Path(__file__).with_name("first_seeds.toml").read_text("utf-8")
)
"""The seed that each mutant tries first, by the mutant's name; the others follow it."""

Broken = Replacement | tuple[Replacement, ...] | str
"""Replacements of functions of the core, or the name of a field in ``Rules`` to break."""


class Tried(NamedTuple):
    """A broken rule, and the changes to every scenario."""

    broken: Broken
    changes: Mapping[str, Any]


Rule = Broken | Tried


@dataclass(frozen=True, slots=True)
class Mutant:
    """A simulator with one rule broken; one of ``seeds`` must catch it.

    ``changes`` make each scenario use the rule often; they are values, or functions of the scenario
    that return a value.
    """

    name: str
    simulator: Simulator
    seeds: range
    replacements: tuple[Replacement, ...]
    changes: Mapping[str, Any]

    def scenario(self, seed: int) -> Any:  # noqa: ANN401 - of either simulator
        drawn = self.simulator.draw(seed)
        changes = {n: new(drawn) if callable(new) else new for n, new in self.changes.items()}
        return replace(drawn, **changes)

    def failure(self, seed: int) -> Exception | None:
        with replaced(self.replacements):
            return self.simulator.failure(self.scenario(seed))

    def first_caught(self) -> tuple[int, Exception] | None:
        for seed in self.seeds:
            if (failure := self.failure(seed)) is not None:
                return seed, failure
        return None

    def quickest(self, seconds: float) -> int | None:
        """Return the seed that catches it in the shortest CPU time, of those tried in a time."""
        began, found = time.process_time(), list[tuple[float, int]]()
        for seed in range(self.seeds.stop):
            before = time.process_time()
            if self.failure(seed) is not None:
                found.append((time.process_time() - before, seed))
            if found and time.process_time() - began > seconds:
                break
        return min(found)[1] if found else None


def mutants(
    simulator: Simulator, rules: Mapping[str, Rule], usual: Mapping[str, Any] | None = None
) -> list[Mutant]:
    """Return mutants by name; ``usual`` are the changes for rules that have no others."""
    made = []
    for name, rule in rules.items():
        broken, changes = rule if isinstance(rule, Tried) else (rule, usual or {})
        changes = {**simulator.one_release, **changes}
        if isinstance(broken, str):
            changes["rules"] = replace(KEPT, **{broken: False})
            broken = ()
        replacements = (broken,) if isinstance(broken, Replacement) else broken
        start = FIRST_SEEDS.get(name, 0)
        seeds = range(start, start + simulator.tries)
        made.append(Mutant(name, simulator, seeds, replacements, changes))
    return made


def only(*faults: Fault) -> dict[Fault, float]:
    return {fault: float(fault in faults) for fault in Fault}


MOVES_ONLY: Final[dict[str, Any]] = {
    "workers": 2,
    "faults": only(Fault.MOVE),
    "fault_limit": 40,
    "fault_rate": 0.02,
    "steps": 2_000,
    "produced": 0.03,
    "late": 0.6,
    "arriving": 0.1,
}
"""Scenarios in which partitions move all the time."""


def many_records(
    partitions: int, count: int
) -> Callable[[IndexScenario], list[list[SimulatedDocument | None]]]:
    """Return a change to ``count`` records in ``partitions`` partitions, more than a seed draws."""

    def records(scenario: IndexScenario) -> list[list[SimulatedDocument | None]]:
        rng = random.Random(scenario.seed)
        families = Families(rng, scenario.scheme, scenario.verifier)
        return draw_records(rng, families, partitions, count)

    return records


RAW_ONLY: Final[dict[str, Any]] = {"later": [], "queries": [], "window": None}
LARGE_STEPS: Final = {"report_limit": 100, "decide_limit": 100, "ready_limit": 100}

SESSIONS_BEGIN_LATE: Final[dict[str, Any]] = {
    **MOVES_ONLY,
    **RAW_ONLY,
    "partitions": many_records(3, 80),
    "born": [True] * 3,
    "fault_rate": 0.01,
    "steps": 4_000,
    "produced": 0.05,
    "ready_limit": 1,
    "beginning": 0.2,
}
"""Scenarios in which shards are assigned long before their session begins.

Decided documents are output little by little, so many are not in the store of a new shard.
"""
