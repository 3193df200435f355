"""What the agents of a simulated cluster act on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from tests.simulation.broker import Broker
from tests.simulation.protocol import Protocol
from tests.simulation.scenario import Scenario
from tests.simulation.schedule import Schedule
from tests.simulation.witness import Witness


class Reached(StrEnum):
    """What a run must get to now and then, or it shows nothing."""

    PARKED = "a document parks"
    WITHDRAWN = "a document is withdrawn"
    READ_AGAIN = "a packet is handled a second time by the same shard"
    FENCED = "an old owner is fenced"
    FENCED_BY_OLD = "the owner is fenced by an old one that opens late"
    ABORTED = "a transaction is aborted"
    TAIL = "a shard opens from a disk and the tail of its changelog"
    IN_FLIGHT = "a shard opens with documents pending or parked"
    TOO_OLD = "a disk is too old to be opened"
    JOURNAL = "a batch cut short is finished from the journal"


@dataclass(frozen=True, slots=True)
class Stage:
    """One run: who is next, the logs, the rules, what was seen, and what was to happen."""

    schedule: Schedule
    broker: Broker
    protocol: Protocol
    witness: Witness
    scenario: Scenario
    reached: Counter[Reached] = field(default_factory=Counter)
