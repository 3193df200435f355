"""The simulator catches each mutant, which is the protocol with one rule broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simhash_core.log.records import Heads
from simhash_core.log.shards import ShardCopy
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS
from tests.simulation.replacements import ReplacementError, by, replaced, without
from tests.simulation.scenario import KEPT
from tests.simulation.world import PROTOCOL


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant) -> None:
    caught = mutant.first_caught()

    assert caught is not None
    kept = replace(mutant.scenario(caught[0]), rules=KEPT)
    assert PROTOCOL.failure(kept) is None


def test_replacement_of_what_is_gone_is_refused() -> None:
    gone = without(Heads, "no_such_rule")
    with pytest.raises(ReplacementError, match=r"Heads\.no_such_rule"), replaced([gone]):
        pass

    otherwise = by(Heads, "counts", lambda _heads: True)
    wrong = pytest.raises(ReplacementError, match="2 parameters, and the mutant 1")
    with wrong, replaced([otherwise]):
        pass


def test_inherited_methods_are_replaced_where_they_are_inherited() -> None:
    class Inheriting(ShardCopy):
        pass

    with replaced([without(Inheriting, "apply")]):
        assert "apply" in vars(Inheriting)
        assert ShardCopy.apply is not Inheriting.apply

    assert "apply" not in vars(Inheriting)
