"""A mutant: whole workers with one rule broken, which some seed must catch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.mutant import changed
from tests.simulation.replacements import Replacement, replaced
from tests.worker_simulation.scenario import Releases, WorkerScenario, draw_worker_scenario
from tests.worker_simulation.world import simulate


@dataclass(frozen=True, slots=True)
class WorkerMutant:
    """One broken rule; one of ``seeds`` seeds from ``start`` on must catch it.

    ``changes`` apply to every scenario, as in ``tests.simulation.mutant``. Unless they say
    otherwise, there is one release.
    """

    name: str
    replacements: tuple[Replacement, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0
    seeds: int = 40

    def scenario(self, seed: int) -> WorkerScenario:
        return changed(draw_worker_scenario(seed), {"releases": Releases.OLDER, **self.changes})


def failure_of(mutant: WorkerMutant, seed: int, story: list[str] | None = None) -> Exception | None:
    """Run a mutant; return what fails: an invariant, or any error of the code."""
    with replaced(mutant.replacements):
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
