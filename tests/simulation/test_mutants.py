"""The simulator can fail: the protocol, with one rule broken, is caught."""

from __future__ import annotations

import pytest

from tests.simulation.edits import Edit, EditError, edited
from tests.simulation.mutant import Mutant, failure_of, first_caught
from tests.simulation.mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    """Given one broken rule, when seeds run, then one of the first breaks an invariant, which it
    does not break with the rule in place.
    """
    caught = first_caught(mutant, range(mutant.seeds))

    assert caught is not None
    assert failure_of(Mutant("none", changes=mutant.changes), caught[0]) is None


def test_every_mutant_can_be_made() -> None:
    """Given the code as it is, then each edit finds its line: this is known at once, not when the
    mutant's turn comes.
    """
    for mutant in MUTANTS:
        with edited(mutant.edits):
            pass


def test_mutants_have_different_names() -> None:
    """Each mutant can be replayed by its name."""
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)


def test_edit_of_changed_code_is_refused() -> None:
    """Given an edit of a line that is no longer there, then making the mutant fails by name: one
    that changes nothing would look like a simulator that sees nothing.
    """
    gone = Edit("log.packets:Heads.counts", "no such line", "pass")

    with pytest.raises(EditError, match=r"Heads\.counts"), edited([gone]):
        pass


def test_edits_are_taken_back() -> None:
    """Given a mutant that ran, then the code is as it was."""
    caught = first_caught(MUTANTS[0], range(20))

    assert caught is not None
    assert failure_of(Mutant("none"), caught[0]) is None
