"""A mutant: whole workers with one rule broken, to be caught by some seed.

A mutant replaces methods or values by name; one whose name is gone is an error, not a mutant that
nobody caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.worker_simulation.scenario import WorkerScenario, draw_worker_scenario
from tests.worker_simulation.world import simulate


class MutantError(Exception):
    """What a mutant replaces is not there any more."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """``broken`` returns what stands in the place of an attribute, given what was there."""

    owner: Any
    attribute: str
    broken: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class WorkerMutant:
    """One broken rule. One of ``seeds`` seeds from ``start`` on catches it.

    ``changes``: of every scenario, so that what the rule is for comes about often; values, or
    functions of the scenario that return one.
    """

    name: str
    replacements: tuple[Replacement, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0
    seeds: int = 40

    def scenario(self, seed: int) -> WorkerScenario:
        """Return what a seed stands for."""
        drawn = draw_worker_scenario(seed)
        changes = {
            name: value(drawn) if callable(value) else value for name, value in self.changes.items()
        }
        return replace(drawn, **changes)


@contextmanager
def applied(mutant: WorkerMutant) -> Iterator[None]:
    """Break the rule; raises ``MutantError``."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for owner, attribute, broken in (
            (each.owner, each.attribute, each.broken) for each in mutant.replacements
        ):
            if attribute not in vars(owner):
                raise MutantError(f"{mutant.name}: {owner.__name__} has no {attribute}")
            original = vars(owner)[attribute]
            before.append((owner, attribute, original))
            setattr(owner, attribute, broken(original))
        yield
    finally:
        for owner, attribute, original in reversed(before):
            setattr(owner, attribute, original)


def failure_of(mutant: WorkerMutant, seed: int, story: list[str] | None = None) -> Exception | None:
    """Run a mutant; return what fails: something that must hold, or any error of the code."""
    with applied(mutant):
        try:
            simulate(mutant.scenario(seed), story)
        except Exception as error:  # noqa: BLE001 - broken code fails in any way
            return error
    return None


def first_caught(mutant: WorkerMutant) -> tuple[int, Exception] | None:
    """Return the first seed that catches a mutant, and what fails there."""
    for seed in range(mutant.start, mutant.start + mutant.seeds):
        failure = failure_of(mutant, seed)
        if failure is not None:
            return seed, failure
    return None
