"""Mutants of standbys: copies of other workers' shards, whose reports also count."""

from __future__ import annotations

from typing import Any, Final

from simhash_core.log.records import Progress
from simhash_core.log.shards import HeldShards, ShardCopy, Standby
from simhash_core.log.unique_documents import UniqueDocuments
from tests.simulation.mutant import (
    LARGE_STEPS,
    MOVES_ONLY,
    RAW_ONLY,
    SESSIONS_BEGIN_LATE,
    Rule,
    Tried,
    many_records,
    only,
)
from tests.simulation.replacements import Function, always, by, without, wrapped
from tests.simulation.scenario import Fault

WITH_STANDBYS: Final[dict[str, Any]] = {"standbys": True, "workers": 3}

MOVING: Final[dict[str, Any]] = {
    **WITH_STANDBYS,
    "faults": only(Fault.CRASH, Fault.REVOKE_ALL),
    "fault_limit": 40,
    "fault_rate": 0.02,
    "steps": 2_000,
}
"""Scenarios in which shards move to their standbys all the time."""

CREATED_AGAIN: Final[dict[str, Any]] = {
    "standbys": True,
    "workers": 2,
    "later": lambda scenario: scenario.partitions,
    "queries": [],
    "faults": only(Fault.ZOMBIE),
    "fault_limit": 3,
    "fault_rate": 0.002,
    "refused": 0.0,
    "lost": 0.0,
    "doubled": 0.0,
    "late": 0.0,
    "produced": 0.2,
    "steps": 20_000,
    "batch": 6,
    **LARGE_STEPS,
}
"""Scenarios in which the raw topic is created again while zombies are still running."""

COMING: Final[dict[str, Any]] = {
    **MOVING,
    "faults": only(Fault.MOVE, Fault.STANDSTILL, Fault.ZOMBIE_RETURNS),
    "window": None,
}
"""Scenarios in which standbys are opened all the time."""

BEHIND: Final[dict[str, Any]] = {
    **MOVES_ONLY,
    "standbys": True,
    "partitions": many_records(1, 80),
    "born": [True],
    **RAW_ONLY,
    "fault_rate": 0.001,
    "steps": 4_000,
    "produced": 0.02,
    "late": 0.0,
    "batch": 1,
    **LARGE_STEPS,
    "reading": 0.1,
}
"""Scenarios in which a shard moves to its standby and back, and workers seldom read the log.

A worker has no other shard, whose position would make it read what the standby has missed.
"""


def _reported_with_all(shards: HeldShards[object]) -> list[int]:
    return sorted({*(each.partition for each in shards._in_session()), *shards.standbys})


def _progresses_of_owned(
    original: Function, shards: HeldShards[object], decided_before: int
) -> list[Progress]:
    original(shards, decided_before)
    return [shard.stream.committed for shard in shards.owned.values()]


def _is_level_whatever(original: Function, standby: Standby, *arguments: object) -> bool:
    original(standby, *arguments)
    return True


def _own_copied(
    original: Function, shards: HeldShards[object], progress: Progress, copy: ShardCopy
) -> object:
    if copy.may_lack_entries:
        copy = ShardCopy(progress, copy.slot, copy.store, shards._index, copy.column)
    return original(shards, progress, copy)


def _demoted_to_its_store(original: Function, shards: HeldShards[object], partition: int) -> bool:
    is_kept = original(shards, partition)
    if is_kept:
        shards.standbys[partition].copy._uncommitted = UniqueDocuments()
    return bool(is_kept)


STANDBYS: Final[dict[str, Rule]] = {
    "a standby does not take verdicts in": without(Standby, "apply"),
    "a standby keeps what is taken out": without(Standby, "remove"),
    "a session does not read what its standbys need": wrapped(
        HeldShards, "progresses", _progresses_of_owned
    ),
    "a standby tells of commits that its store does not have": "standbys_write_before_they_report",
    "a standby reports before its session begins": Tried(
        by(HeldShards, "reported", _reported_with_all), {**SESSIONS_BEGIN_LATE, "standbys": True}
    ),
    "a standby takes for read what was read before its session": Tried(
        by(
            Standby,
            "_has_read",
            lambda _standby, position, decided_before: position <= decided_before,
        ),
        COMING,
    ),
    "a standby that is behind becomes the owner's shard": Tried(
        wrapped(Standby, "is_level", _is_level_whatever), BEHIND
    ),
    "who does not know that the topic was created again reports on less": Tried(
        by(ShardCopy, "_concerns", lambda copy, _offset, packet: packet.chain == copy.chain),
        CREATED_AGAIN,
    ),
    "what came before a shard was opened is added to it": Tried(
        always(ShardCopy, "_concerns", True), CREATED_AGAIN
    ),
    "a standby cannot do without what its owner has let go of": Tried(
        by(ShardCopy, "entry", ShardCopy._entry), WITH_STANDBYS
    ),
    "a shard that moves is kept without what is not committed": Tried(
        wrapped(HeldShards, "demote", _demoted_to_its_store), {**MOVING, "kept": 1.0}
    ),
    "a standby that has become the shard is copied to begin with": Tried(
        wrapped(HeldShards, "_own", _own_copied), MOVING
    ),
}
