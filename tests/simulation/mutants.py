"""All mutants. A rule that only saves cost (pruning late, sending more) has no mutant."""

from __future__ import annotations

from tests.simulation.mutant import mutants
from tests.simulation.mutants_of_leading import CHAINS, DECIDING, SUCCESSION
from tests.simulation.mutants_of_look_up import LOOK_UP, SHELL
from tests.simulation.mutants_of_removals import APPLIED, DECIDED, SEEN
from tests.simulation.mutants_of_shards import SHARDS, STREAM
from tests.simulation.mutants_of_standbys import STANDBYS, WITH_STANDBYS
from tests.simulation.mutants_of_versions import TWO_RELEASES, VERSIONS
from tests.simulation.mutants_of_windows import SCOPES, SHORT, WINDOWS
from tests.simulation.world import PROTOCOL

_USUAL = (CHAINS, SUCCESSION, DECIDING, STREAM, SHARDS, LOOK_UP, SHELL, SCOPES)
MUTANTS = [
    *(mutant for rules in (*_USUAL, SEEN, DECIDED, APPLIED) for mutant in mutants(PROTOCOL, rules)),
    *mutants(PROTOCOL, WINDOWS, usual=SHORT),
    *mutants(PROTOCOL, STANDBYS, usual=WITH_STANDBYS),
    *mutants(PROTOCOL, VERSIONS, usual=TWO_RELEASES),
]
