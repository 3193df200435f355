"""From what happens in a run to lines that can be read."""

from __future__ import annotations

from simhash_core.distance import distance_bits
from simhash_core.effects import Effect, Emit, EmitDeadLetter, Remember, Send
from simhash_core.entries import Change, PutEntry, PutParked, PutPending
from simhash_core.probes import Confirm, Message, Packet, Refuse, Visit, Withdraw
from simhash_core.verdicts import DuplicateOf, Undecidable, Unique, Verdict
from tests.simulation.scenario import Scenario
from tests.simulation.schedule import Schedule


def tell_packet(schedule: Schedule, reader: str, packet: Packet, effects: list[Effect]) -> None:
    """Tell of a packet and what it led to."""
    messages = ", ".join(f"{number}: {_message(message)}" for number, message in packet.messages)
    schedule.tell(f"{reader} handles {packet.sender} [{messages}]")
    for effect in effects:
        line = _effect(effect)
        if line:
            schedule.tell(f"    → {line}")
    if not effects:
        schedule.tell("    → nothing")


def describe_documents(scenario: Scenario) -> list[str]:
    """Return a line for each document: its place, its way, and whom it is near."""
    scheme = scenario.placement.scheme
    sources = [
        message.probe.source if isinstance(message, Visit) else message.rejection.source
        for arrivals in scenario.arrivals()
        for message in arrivals
    ]
    ordered = sorted(scenario.documents, key=lambda document: document.raw_partition)
    lines = []
    for document, source in zip(ordered, sources, strict=True):
        if not document.readable:
            lines.append(f"{source}  cannot be read")
            continue
        way = scenario.placement.by_partition(document.fingerprint, document.content_digest)
        name = document.fingerprint.hex() or f"undecidable {document.content_digest.hex()[:8]}"
        others = [
            f"{other_source} ({distance_bits(document.fingerprint, other.fingerprint)})"
            for other, other_source in zip(ordered, sources, strict=True)
            if other is not document
            and document.fingerprint
            and other.fingerprint
            and distance_bits(document.fingerprint, other.fingerprint) <= scheme.distance
        ]
        near = f", near {', '.join(others)}" if others else ""
        lines.append(f"{source}  {name} visits {list(way)}{near}")
    return lines


def describe_setting(scenario: Scenario) -> str:
    """Return the scheme, the numbers of things and the faults, in one line."""
    scheme = scenario.placement.scheme
    faults = ", ".join(sorted(scenario.faults)) or "none"
    return (
        f"{len(scenario.documents)} documents, {scenario.raw_partitions} raw partitions, "
        f"{scenario.placement.partitions} shards, {scenario.workers} workers, "
        f"{scheme.bits} bits, {scheme.blocks} × {scheme.block_bits}, "
        f"distance {scheme.distance}, {scenario.delivery}; "
        f"at most {scenario.faults_most} faults: {faults}"
    )


def _message(message: Message) -> str:
    match message:
        case Visit(probe, passed):
            return f"visit {probe.source}" + (f" from {list(passed)}" if passed else "")
        case Confirm(source):
            return f"confirm {source}"
        case Withdraw(source):
            return f"withdraw {source}"
        case Refuse(rejection):
            return f"refuse {rejection.source}"


def _verdict(verdict: Verdict) -> str:
    match verdict:
        case Unique():
            return "is unique"
        case Undecidable():
            return "is undecidable and new"
        case DuplicateOf():
            return f"repeats {verdict.original}"


def _effect(effect: Effect) -> str:
    match effect:
        case Emit(probe, verdict):
            return f"{probe.source} {_verdict(verdict)}"
        case EmitDeadLetter(rejection):
            return f"{rejection.source} is a dead letter"
        case Send(partition, number, message):
            return f"to shard {partition}, {number}: {_message(message)}"
        case Remember(change):
            return _change(change)


def _change(change: Change) -> str:
    match change:
        case PutParked(ticket, _, None):
            return f"ticket {ticket} ends"
        case PutParked(ticket, behind, Visit(probe)):
            return f"{probe.source} parks behind {behind}, ticket {ticket}"
        case PutPending(source, entry):
            return f"{source} is pending here" if entry else f"{source} is pending no more"
        case PutEntry(order, entry):
            return f"{entry.source} is entry {order} here"
        case _:
            return ""
