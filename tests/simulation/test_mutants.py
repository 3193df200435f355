"""The simulator catches each mutant, which is the protocol with one rule broken."""

from __future__ import annotations

import pytest

from simhash_core.log.records import Heads
from simhash_core.log.shards import ShardCopy, Standby
from tests.simulation.mutant import Mutant, failure_of, first_caught
from tests.simulation.mutants import MUTANTS
from tests.simulation.replacements import ReplacementError, by, replaced, without


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    caught = first_caught(mutant, mutant.tried)

    assert caught is not None
    assert failure_of(Mutant("none", changes=mutant.changes), caught[0]) is None


def test_mutants_have_different_names() -> None:
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)


def test_replacement_of_what_is_gone_is_refused() -> None:
    gone = without(Heads, "no_such_rule")
    with pytest.raises(ReplacementError, match=r"Heads\.no_such_rule"), replaced([gone]):
        pass

    otherwise = by(Heads, "counts", lambda _heads: True)
    wrong = pytest.raises(ReplacementError, match="2 parameters, and the mutant 1")
    with wrong, replaced([otherwise]):
        pass


def test_inherited_methods_are_replaced_where_they_are_inherited() -> None:
    with replaced([without(Standby, "apply")]):
        assert "apply" in vars(Standby)
        assert ShardCopy.apply is not Standby.apply

    assert "apply" not in vars(Standby)
