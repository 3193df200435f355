"""From a failing scenario to a small one that fails in the same way: greedy removal.

A schedule does not survive the removal of a document, since all later choices shift. So a smaller
scenario counts as failing when one of a few schedules breaks the same invariant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from simhash_core.placement import Placement
from tests.simulation.cluster import simulate
from tests.simulation.invariants import ViolationError
from tests.simulation.protocol import REAL, Protocol
from tests.simulation.scenario import Scenario

SCHEDULES: Final = 40
"""Schedules tried for one smaller scenario."""

RUNS_MOST: Final = 6_000
"""Runs after which the smallest scenario found so far will do."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A scenario that breaks an invariant."""

    scenario: Scenario
    violation: ViolationError


def failure_of(scenario: Scenario, protocol: Protocol = REAL) -> Failure | None:
    """Run a scenario; return its failure, or None where it holds."""
    try:
        simulate(scenario, protocol)
    except ViolationError as violation:
        return Failure(scenario, violation)
    return None


def shrink(failure: Failure, protocol: Protocol = REAL) -> Failure:
    """Return a smaller failure of the same invariant, or the same one."""
    runs_left = RUNS_MOST
    smallest = failure
    progressed = True
    while progressed and runs_left > 0:
        progressed = False
        for smaller in _smaller(smallest.scenario):
            found = None
            for attempt in range(SCHEDULES):
                runs_left -= 1
                seed = smaller.schedule_seed + attempt
                found = failure_of(replace(smaller, schedule_seed=seed), protocol)
                if found and found.violation.invariant == failure.violation.invariant:
                    break
                found = None
            if found:
                smallest, progressed = found, True
                break
            if runs_left <= 0:
                break
    return smallest


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield smaller scenarios, the largest steps first."""
    yield from _fewer_documents(scenario)
    yield from _fewer_faults(scenario)
    for partitions in range(1, scenario.placement.partitions):
        yield replace(scenario, placement=Placement(scenario.placement.scheme, partitions))
    documents = scenario.documents
    if scenario.raw_partitions > 1:
        together = tuple(replace(document, raw_partition=0) for document in documents)
        yield replace(scenario, raw_partitions=1, documents=together)
    if any(document.gap for document in documents):
        yield replace(scenario, documents=tuple(replace(d, gap=0) for d in documents))
    if scenario.workers > 1:
        yield replace(scenario, workers=scenario.workers - 1)
    if scenario.batch_most > 1:
        yield replace(scenario, batch_most=1)


def _fewer_documents(scenario: Scenario) -> Iterator[Scenario]:
    documents = scenario.documents
    size = len(documents) // 2
    while size:
        for start in range(0, len(documents), size):
            left = documents[:start] + documents[start + size :]
            if left:
                yield replace(scenario, documents=left)
        size //= 2


def _fewer_faults(scenario: Scenario) -> Iterator[Scenario]:
    for fault in sorted(scenario.faults):
        yield replace(scenario, faults=scenario.faults - {fault})
    if scenario.faults_most:
        yield replace(scenario, faults_most=scenario.faults_most // 2)
        yield replace(scenario, faults_most=scenario.faults_most - 1)
