"""A mutant: the protocol with one rule broken, to be caught by some seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.documents import Families, SimulatedDocument
from tests.simulation.replacements import Replacement, ReplacementError, replaced
from tests.simulation.rules import KEPT, Rules
from tests.simulation.scenario import Fault, Scenario, draw_records, draw_scenario
from tests.simulation.world import simulate


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken rule. One of ``seeds`` seeds from ``start`` on catches it.

    ``changes``: of every scenario, so that what the rule is for comes about often; values, or
    functions of the scenario that return one.
    """

    name: str
    replacements: tuple[Replacement, ...] = ()
    rules: Rules = KEPT
    seeds: int = 1_000
    start: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tried(self) -> range:
        """The seeds that are tried."""
        return range(self.start, self.start + self.seeds)

    def scenario(self, seed: int) -> Scenario:
        """Return what a seed stands for."""
        drawn = draw_scenario(seed)
        changes = {
            name: value(drawn) if callable(value) else value for name, value in self.changes.items()
        }
        return replace(drawn, **changes)


def moves_only() -> dict[str, Any]:
    """Return the changes for scenarios in which partitions move all the time."""
    faults = {fault: float(fault is Fault.MOVE) for fault in Fault}
    return {
        "workers": 2,
        "faults": faults,
        "fault_limit": 40,
        "fault_rate": 0.02,
        "steps": 2_000,
        "produced": 0.03,
        "late": 0.6,
        "arriving": 0.1,
    }


def many_records(
    partitions: int, count: int
) -> Callable[[Scenario], list[list[SimulatedDocument | None]]]:
    """Return a change: so many records, more than a seed draws, in so many partitions."""

    def records(scenario: Scenario) -> list[list[SimulatedDocument | None]]:
        rng = random.Random(scenario.seed)
        families = Families(rng, scenario.scheme, scenario.verifier)
        return draw_records(rng, families, partitions, count)

    return records


def sessions_begin_late() -> dict[str, Any]:
    """Return the changes for scenarios in which shards come long before their session begins.

    What is decided is put out bit by bit: much of it is not in the store of a shard that comes.
    """
    return {
        **moves_only(),
        "partitions": many_records(3, 80),
        "born": [True] * 3,
        "later": [],
        "queries": [],
        "window": None,
        "fault_rate": 0.01,
        "steps": 4_000,
        "produced": 0.05,
        "ready_limit": 1,
        "beginning": 0.2,
    }


def failure_of(mutant: Mutant, seed: int, story: list[str] | None = None) -> Exception | None:
    """Run a mutant; return what fails: an invariant, or any error of the code itself."""
    with replaced(mutant.replacements):
        try:
            simulate(mutant.scenario(seed), mutant.rules, story)
        except ReplacementError:
            raise
        except Exception as error:  # noqa: BLE001 - broken code fails in any way
            return error
    return None


def first_caught(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, Exception] | None:
    """Return the first seed that catches a mutant, and what fails there."""
    for seed in seeds:
        failure = failure_of(mutant, seed)
        if failure is not None:
            return seed, failure
    return None


def broken(
    name: str, *replacements: Replacement, changes: Mapping[str, Any] | None = None, start: int = 0
) -> Mutant:
    """Return a mutant with other functions instead of some of the core's."""
    return Mutant(name, replacements, changes=changes or {}, start=start)
