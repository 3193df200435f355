"""Tells the events of a run in readable lines."""

from __future__ import annotations

from simhash_core.log.records import Bundle, Control, Decision, LogRecord, Packet, Report
from simhash_core.verdicts import Match
from tests.simulation.documents import SimulatedDocument
from tests.simulation.scenario import Scenario


def line_of(record: LogRecord | Report) -> str:
    if isinstance(record, Bundle):
        return "bundle of " + ", ".join(map(_packet, record.packets()))
    if isinstance(record, Control):
        what = "begins" if record.leads else " ".join(map(_decision, record.decisions))
        return f"control of {record.leader} after {record.previous}: {what}, next {record.next}"
    if isinstance(record, Report):
        found = " ".join(f"{each.offset}" + _matches(each.matches) for each in record.found)
        looked_up = f"{record.first} to {record.end} (v{record.control}): {found}"
        return f"shards {record.shards} on {looked_up}; they need {record.positions}"
    return f"query {record.identifier}"


def _packet(packet: Packet) -> str:
    chain = f"{packet.chain.topic_id}-{packet.chain.partition}"
    rows = packet.columns.offsets.tolist()
    return f"{chain} after {packet.previous} to {packet.last}: {rows}"


def _decision(decision: Decision) -> str:
    skipped = f" without {decision.skipped}" if decision.skipped else ""
    removals = "".join(f" {each.row} takes out {each.sequence}" for each in decision.removals)
    return f"{decision.offset}{skipped}" + _matches(decision.matches) + removals


def _matches(matches: list[Match]) -> str:
    return "".join(f" {m.row}~{m.original_id}:{m.distance}" for m in matches)


def describe(scenario: Scenario) -> list[str]:
    """Return lines with the settings and the documents of a scenario."""
    setting = f"{scenario.scheme}, confirmed: {scenario.verifier is not None}"
    setting += f", {scenario.window}, replaces: {scenario.replaces}"
    group = f"{scenario.workers} workers, {sum(scenario.born)} of {len(scenario.born)} partitions"
    lines = [f"seed {scenario.seed}: {setting}, {group}"]
    for topic, partitions in (("first", scenario.partitions), ("second", scenario.later)):
        for number, documents in enumerate(partitions):
            lines += [f"{topic}-{number}  {_document(each)}" for each in documents]
    return lines


def _document(document: SimulatedDocument | None) -> str:
    if document is None:
        return "no document"
    if document.is_delete:
        return f"{document.document_id}  deleted at {document.time_ms}"
    print_ = "undecidable" if document.fingerprint is None else f"{document.fingerprint:x}"
    where = f"{document.time_ms} {document.scope!r}"
    return f"{document.document_id}  {print_}  {document.digest.hex()}  {where}"
