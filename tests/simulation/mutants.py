"""All mutants. What only saves cost (pruning late, sending more) is no rule, and has none here."""

from __future__ import annotations

from tests.simulation.mutants_of_leading import CHAINS, DECIDING, SUCCESSION
from tests.simulation.mutants_of_look_up import LOOK_UP, SHELL
from tests.simulation.mutants_of_removals import REMOVALS
from tests.simulation.mutants_of_shards import SHARDS, STREAM
from tests.simulation.mutants_of_standbys import STANDBYS
from tests.simulation.mutants_of_windows import SCOPES, WINDOWS

MUTANTS = (
    *CHAINS,
    *SUCCESSION,
    *DECIDING,
    *STREAM,
    *SHARDS,
    *LOOK_UP,
    *SHELL,
    *WINDOWS,
    *SCOPES,
    *REMOVALS,
    *STANDBYS,
)
