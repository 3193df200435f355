"""Limits of the core, set so low that a few documents exceed them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from simhash_core.index import document_index
from simhash_core.log import decider, nearest_matches, participant, replica, unique_documents
from tests.simulation.scenario import Scenario


@contextmanager
def low_limits(scenario: Scenario) -> Iterator[None]:
    """Set the limits that a scenario has."""
    limits = (
        (document_index, "MEMTABLE_DOCUMENTS", scenario.memtable),
        (unique_documents, "_FORGOTTEN_LIMIT", scenario.forgotten),
        (nearest_matches, "_COMPARED_WHOLE", scenario.compared),
        (decider, "_COMPARED_DOCUMENTS", scenario.compared),
        (participant, "FORGOTTEN_PLACES_MIN", 0),
        (replica, "_PASSED_MIN", 0),
    )
    before = [(module, name, getattr(module, name)) for module, name, _ in limits]
    for module, name, limit in limits:
        setattr(module, name, limit)
    try:
        yield
    finally:
        for module, name, limit in before:
            setattr(module, name, limit)
