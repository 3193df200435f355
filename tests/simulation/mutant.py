"""A mutant: the protocol with one rule broken, which some seed must catch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tests.simulation.documents import Families, SimulatedDocument
from tests.simulation.replacements import Replacement, replaced
from tests.simulation.scenario import KEPT, Fault, Rules, Scenario, draw_records, draw_scenario
from tests.simulation.world import simulate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")


Broken = Replacement | tuple[Replacement, ...] | str
"""Replacements of functions of the core, or the name of a field in ``Rules`` to break."""


class Tried(NamedTuple):
    """A broken rule, the changes to every scenario, and the first seed to try."""

    broken: Broken
    changes: Mapping[str, Any] | None = None
    start: int = 0


Rule = Broken | Tried


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken rule; one of ``seeds`` seeds from ``start`` on must catch it.

    ``changes`` make each scenario use the rule often; they are values, or functions of the scenario
    that return a value.
    """

    name: str
    replacements: tuple[Replacement, ...] = ()
    rules: Rules = KEPT
    changes: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0
    seeds: int = 1_000

    @property
    def tried(self) -> range:
        return range(self.start, self.start + self.seeds)

    def scenario(self, seed: int) -> Scenario:
        return changed(draw_scenario(seed), self.changes)


def changed(drawn: S, changes: Mapping[str, Any]) -> S:
    """Return a scenario with changes, which are values or functions of the scenario."""
    return replace(
        drawn, **{name: new(drawn) if callable(new) else new for name, new in changes.items()}
    )


def mutants(rules: Mapping[str, Rule], usual: Mapping[str, Any] | None = None) -> list[Mutant]:
    """Return mutants by name; ``usual`` are the changes for rules that have no others.

    Unless the changes say otherwise, there is one release.
    """
    made = []
    for name, rule in rules.items():
        broken, changes, start = rule if isinstance(rule, Tried) else Tried(rule)
        mutant = Mutant(name, changes={"older": 1.0, **(changes or usual or {})}, start=start)
        if isinstance(broken, str):
            mutant = replace(mutant, rules=replace(KEPT, **{broken: False}))
        else:
            replacements = (broken,) if isinstance(broken, Replacement) else broken
            mutant = replace(mutant, replacements=replacements)
        made.append(mutant)
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
) -> Callable[[Any], list[list[SimulatedDocument | None]]]:
    """Return a change to ``count`` records in ``partitions`` partitions, more than a seed draws."""

    def records(scenario: Any) -> list[list[SimulatedDocument | None]]:  # noqa: ANN401 - of either simulator
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


def failure_of(mutant: Mutant, seed: int, story: list[str] | None = None) -> Exception | None:
    """Run a mutant; return what fails: an invariant, or any error of the code itself."""
    with replaced(mutant.replacements):
        try:
            simulate(mutant.scenario(seed), mutant.rules, story)
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
