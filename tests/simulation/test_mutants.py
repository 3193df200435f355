"""The simulator can fail: the protocol, with one rule broken, is caught."""

from __future__ import annotations

import pytest

from simhash_core.log.records import Heads
from simhash_core.log.shards import ShardCopy, Standby
from tests.simulation.mutant import Mutant, failure_of, first_caught
from tests.simulation.mutants import MUTANTS
from tests.simulation.replacements import ReplacementError, by, replaced, without


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    """Given one broken rule, when seeds run, then one of the first breaks an invariant, which it
    does not break with the rule in place.
    """
    caught = first_caught(mutant, mutant.tried)

    assert caught is not None
    assert failure_of(Mutant("none", changes=mutant.changes), caught[0]) is None


def test_every_mutant_can_be_made() -> None:
    """Given the code as it is, then each mutant finds its rules: this is known at once, not when
    the mutant's turn comes.
    """
    for mutant in MUTANTS:
        with replaced(mutant.replacements):
            pass


def test_mutants_have_different_names() -> None:
    """Each mutant can be replayed by its name."""
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)


def test_replacement_of_what_is_gone_is_refused() -> None:
    """Given a rule that has another name by now, or other parameters, then making the mutant fails
    and names it: a mutant that changes nothing looks like a simulator that sees nothing.
    """
    gone = without(Heads, "no_such_rule")
    with pytest.raises(ReplacementError, match=r"Heads\.no_such_rule"), replaced([gone]):
        pass

    otherwise = by(Heads, "counts", lambda _heads: True)
    wrong = pytest.raises(ReplacementError, match="2 parameters, and the mutant 1")
    with wrong, replaced([otherwise]):
        pass


def test_inherited_methods_are_replaced_where_they_are_inherited() -> None:
    """Given a method of a class that inherits it, then the class that has it keeps its own."""
    with replaced([without(Standby, "apply")]):
        assert "apply" in vars(Standby)
        assert ShardCopy.apply is not Standby.apply

    assert "apply" not in vars(Standby)


def test_replacements_are_taken_back() -> None:
    """Given a mutant that ran, then the code is as it was."""
    caught = first_caught(MUTANTS[0], range(20))

    assert caught is not None
    assert failure_of(Mutant("none"), caught[0]) is None
