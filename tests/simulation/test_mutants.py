"""The simulator can fail: the protocol, broken on purpose, is caught, and within how many seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import (
    EQUIVALENTS,
    MUTANTS,
    Edit,
    Mutant,
    MutantError,
    edited_shard_module,
)
from tests.simulation.scenario import draw_scenario
from tests.simulation.shrinking import Failure, failure_of, shrink


def _first_caught(mutant: Mutant, seeds: int) -> Failure | None:
    protocol = mutant.protocol()
    for seed in range(seeds):
        failure = failure_of(mutant.change_scenario(draw_scenario(seed)), protocol)
        if failure is not None:
            return failure
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    """Given one broken rule, when seeds run from 0 on, then one of the first breaks an invariant,
    which it does not break with the rule in place.
    """
    failure = _first_caught(mutant, mutant.caught_within)

    assert failure is not None, f"not caught within {mutant.caught_within} seeds"
    if not mutant.in_scenario:
        assert failure_of(failure.scenario) is None


@pytest.mark.parametrize("mutant", EQUIVALENTS, ids=lambda mutant: mutant.name)
def test_equivalent_is_not_caught(mutant: Mutant) -> None:
    """Given a change that breaks no rule, when seeds run, then all of them hold."""
    assert _first_caught(mutant, 200) is None


def test_failure_shrinks_to_the_documents_that_matter() -> None:
    """Given a protocol in which nothing parks, when a failing seed with dozens of documents is
    shrunk, then two near documents on more than one shard are left, and no fault.
    """
    mutant = next(m for m in MUTANTS if m.name == "nothing parks behind a pending entry")
    failure = _first_caught(mutant, mutant.caught_within)
    assert failure is not None
    assert len(failure.scenario.documents) > 10

    small = shrink(failure, mutant.protocol()).scenario

    assert len(small.documents) == 2
    assert small.placement.partitions > 1
    assert not small.faults
    again = failure_of(small, mutant.protocol())
    assert again is not None
    assert again.violation.invariant == failure.violation.invariant


def test_mutant_of_changed_code_is_refused() -> None:
    """Given an edit of a line that no longer stands in the shard, then making the mutant fails by
    name: a mutant that changes nothing would otherwise look like a simulator that sees nothing.
    """
    with pytest.raises(MutantError, match="a gone line"):
        edited_shard_module("a gone line", (Edit("self._no_such_line()", "pass"),))


def test_mutants_have_different_names() -> None:
    """Each mutant can be replayed by its name."""
    names = [mutant.name for mutant in (*MUTANTS, *EQUIVALENTS)]

    assert len(set(names)) == len(names)
