"""A mutant: the protocol with one rule broken, to be caught by some seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.simulation.edits import Edit, EditError, edited
from tests.simulation.rules import KEPT, Rules
from tests.simulation.scenario import Fault, Scenario, draw_scenario
from tests.simulation.world import simulate


@dataclass(frozen=True, slots=True)
class Mutant:
    """One broken rule. ``seeds``: one of the first so many catches it.

    ``focus``: a few faults, all others left out, that bring what the rule is for about often.
    """

    name: str
    edits: tuple[Edit, ...] = ()
    rules: Rules = KEPT
    seeds: int = 1_000
    focus: tuple[Fault, ...] = ()

    def scenario(self, seed: int) -> Scenario:
        """Return what a seed stands for."""
        scenario = draw_scenario(seed)
        if not self.focus:
            return scenario
        return replace(
            scenario,
            workers=max(2, scenario.workers),
            faults={fault: float(fault in self.focus) for fault in Fault},
            fault_limit=40,
            fault_rate=0.06,
            steps=1_000,
        )


def failure_of(mutant: Mutant, seed: int, story: list[str] | None = None) -> Exception | None:
    """Run a mutant; return what fails: an invariant, or any error of the code itself."""
    with edited(mutant.edits):
        try:
            simulate(mutant.scenario(seed), mutant.rules, story)
        except EditError:
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


def one_edit(
    name: str, target: str, old: str, new: str, seeds: int = 1_000, focus: tuple[Fault, ...] = ()
) -> Mutant:
    """Return a mutant of one edit."""
    return Mutant(name, (Edit(target, old, new),), seeds=seeds, focus=focus)
