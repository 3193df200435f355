"""Mutants of standbys: copies of other workers' shards, whose reports count as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tests.simulation.mutant import (
    Mutant,
    many_records,
    moves_only,
    one_edit,
    sessions_begin_late,
)
from tests.simulation.rules import KEPT
from tests.simulation.scenario import Fault

WITH_STANDBYS: Final[dict[str, Any]] = {"standbys": True, "workers": 3}

MOVING: Final[dict[str, Any]] = {
    **WITH_STANDBYS,
    "faults": {fault: float(fault in {Fault.CRASH, Fault.REVOKE_ALL}) for fault in Fault},
    "fault_limit": 40,
    "fault_rate": 0.02,
    "steps": 2_000,
}
"""Scenarios in which shards go to their standbys all the time."""

CREATED_AGAIN: Final[dict[str, Any]] = {
    "standbys": True,
    "workers": 2,
    "later": lambda scenario: scenario.partitions,
    "queries": [],
    "faults": {fault: float(fault is Fault.ZOMBIE) for fault in Fault},
    "fault_limit": 3,
    "fault_rate": 0.002,
    "refused": 0.0,
    "lost": 0.0,
    "doubled": 0.0,
    "late": 0.0,
    "produced": 0.2,
    "steps": 20_000,
    "batch": 6,
    "report_limit": 100,
    "decide_limit": 100,
    "ready_limit": 100,
}
"""Scenarios in which the raw topic is created again while zombies live on."""

COMING: Final[dict[str, Any]] = {
    **MOVING,
    "faults": {
        fault: float(fault in {Fault.MOVE, Fault.STANDSTILL, Fault.ZOMBIE_RETURNS})
        for fault in Fault
    },
    "window": None,
}
"""Scenarios in which standbys are opened all the time."""

BEHIND: Final[dict[str, Any]] = {
    **moves_only(),
    "standbys": True,
    "partitions": many_records(1, 80),
    "born": [True],
    "later": [],
    "queries": [],
    "window": None,
    "fault_rate": 0.001,
    "steps": 4_000,
    "produced": 0.02,
    "late": 0.0,
    "batch": 1,
    "report_limit": 100,
    "decide_limit": 100,
    "ready_limit": 100,
    "reading": 0.1,
}
"""Scenarios in which a shard goes to its standby and back, and workers seldom read the log.

A worker has no other shard: from whose position it would read what the standby has missed.
"""

STANDBYS = (
    one_edit(
        "a standby does not take verdicts in",
        "log.held_shards:HeldShards.decided",
        "standby.apply(decided)",
        "pass",
        WITH_STANDBYS,
    ),
    one_edit(
        "a standby keeps what is taken out",
        "log.held_shards:HeldShards._remove",
        "standby.remove(sequences)",
        "pass",
        WITH_STANDBYS,
    ),
    one_edit(
        "a standby reports before its session begins",
        "log.held_shards:HeldShards.reported",
        "self._in_session()",
        "[*self._in_session(), *self.standbys.values()]",
        {**sessions_begin_late(), "standbys": True},
    ),
    one_edit(
        "a session does not read what its standbys need",
        "log.held_shards:HeldShards.progresses",
        "*standbys]",
        "*list(standbys)[:0]]",
        WITH_STANDBYS,
    ),
    one_edit(
        "a standby goes on where its owner is, not where it has read",
        "log.standby:Standby.catch_up",
        "while self.in_session and self._commits and self._commits[0].position <= decided_before:",
        "while self._commits:",
        WITH_STANDBYS,
    ),
    one_edit(
        "a standby takes for read what was read before its session",
        "log.standby:Standby.catch_up",
        "self.in_session and ",
        "",
        COMING,
    ),
    one_edit(
        "a standby that is behind becomes the owner's shard",
        "log.held_shards:HeldShards.promote",
        "if standby.is_outdated or not is_level:",
        "if False:",
        BEHIND,
    ),
    one_edit(
        "who does not know that the topic was created again reports on less",
        "log.shard_copy:ShardCopy.apply",
        "not (is_own or is_new)",
        "not is_own",
        CREATED_AGAIN,
    ),
    one_edit(
        "what came before a shard was opened is added to it",
        "log.shard_copy:ShardCopy.apply",
        "not (is_own or is_new)",
        "False",
        CREATED_AGAIN,
    ),
    one_edit(
        "a standby cannot do without what its owner has let go of",
        "log.standby:Standby.entry",
        "return None",
        "raise",
        WITH_STANDBYS,
    ),
    one_edit(
        "a standby that has become the shard is copied to begin with",
        "log.held_shards:HeldShards.promote",
        "return self._own(progress, standby)",
        "return self._own(progress, ShardCopy(progress, standby.slot, standby.store, self._index))",
        MOVING,
    ),
    Mutant(
        "a standby tells of commits that its store does not have",
        rules=replace(KEPT, standbys_write_before_they_tell=False),
        changes=WITH_STANDBYS,
    ),
)
