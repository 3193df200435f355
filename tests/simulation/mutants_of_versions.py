"""Mutants of the version in force: who raises it, when, and who writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from simhash_core.log import versions
from simhash_core.log.decider import Decider
from simhash_core.log.participant import Participant
from simhash_core.log.records import Control
from simhash_core.log.replica import Replica
from simhash_core.log.versions import Readers
from tests.simulation.mutant import Rule
from tests.simulation.replacements import Function, by, wrapped

TWO_RELEASES: Final[dict[str, Any]] = {"older": 0.4, "workers": 3, "steps": 4_000}
"""Scenarios in which workers of two releases replace each other."""


def _of_some(readers: Readers, members: Mapping[str, str]) -> bool:
    """Treat a member that has not reported as one that reads every version."""
    return all(readers._reads.get(each, readers._newest) >= readers._newest for each in members)


def forgotten_version(original: Function, leader: Decider, replica: Replica) -> Control | None:
    first = original(leader, replica)
    return None if first is None else replace(first, version=versions.OLDEST)


VERSIONS: Final[dict[str, Rule]] = {
    "a leader takes members that have not reported for ones that read all": by(
        Readers, "check", _of_some
    ),
    "a worker writes in a version before it is in force": by(
        Participant, "version", lambda worker: worker.reads
    ),
    "a raise is forgotten after a change of leader": wrapped(
        Decider, "first_record", forgotten_version
    ),
    "a raise is forgotten in the next control record": wrapped(
        Decider,
        "accepted",
        lambda original, leader, accepted: original(
            leader, accepted._replace(control=replace(accepted.control, version=versions.OLDEST))
        ),
    ),
}
