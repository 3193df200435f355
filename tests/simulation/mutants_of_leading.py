"""Mutants of the chains, of the succession of leaders, and of what leaders decide."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.edits import Edit
from tests.simulation.mutant import Mutant, one_edit
from tests.simulation.rules import KEPT

LATE_REPORTS = {
    "fault_rate": 0.002,
    "steps": 4_000,
    "workers": 3,
    "late": 0.9,
    "arriving": 0.05,
    "reordered": 0.6,
    "report_limit": 1,
    "decide_limit": 1,
}
"""Scenarios in which shards report on packets one by one and in any order."""

CHAINS = (
    one_edit(
        "the chain of packets is not checked",
        "log.packets:Heads.counts",
        "packet.previous == self.last(packet.chain) and packet.last > packet.previous",
        "True",
    ),
    one_edit(
        "a packet that overlaps its chain counts",
        "log.packets:Heads.counts",
        "packet.previous == self.last(packet.chain)",
        "packet.previous <= self.last(packet.chain)",
    ),
    one_edit(
        "a packet that leaves a gap counts",
        "log.packets:Heads.counts",
        "packet.previous == self.last(packet.chain)",
        "packet.previous >= self.last(packet.chain)",
    ),
    one_edit(
        "the chain of control records is not checked",
        "log.replica:Replica.read",
        "elif self._awaited != NO_CONTROL or record.previous != self.control:",
        "elif False:",
    ),
    Mutant(
        "reading begins after the control record in force, and heeds the next of any leader",
        (
            Edit(
                "log.replica:Replica.__init__",
                "position if control == NO_CONTROL else min(control, position)",
                "position",
            ),
            Edit(
                "log.replica:Replica.read",
                "elif self._awaited != NO_CONTROL or record.previous != self.control:",
                "elif self.control != NO_CONTROL and record.previous != self.control:",
            ),
        ),
    ),
    one_edit(
        "reading begins without the control record in force",
        "log.participant:Participant.begin",
        "Replica(first.position, first.control, horizons)",
        "Replica(first.position, NO_CONTROL, horizons)",
    ),
    one_edit(
        "reading begins at the highest position of a shard",
        "log.participant:Participant.begin",
        "min(progresses, key",
        "max(progresses, key",
    ),
)

SUCCESSION = (
    Mutant(
        "a leader decides without a first record",
        (
            Edit(
                "log.decider:Decider.first_record",
                "self._has_begun = self._in_flight = True",
                "self._has_begun = True; self._began = self._last_control = replica.control; "
                "self._heads = Heads(replica.latest.heads if replica.latest else []); return None",
            ),
        ),
    ),
    one_edit(
        "a new leader begins with heads of its own",
        "log.decider:Decider.heeded",
        "Heads(control.heads)",
        "Heads()",
    ),
    one_edit(
        "reports from before the reign count",
        "log.decider:Decider.report",
        "packet_report.control >= self._began and ",
        "",
    ),
    one_edit(
        "reports that come before the reign has begun are dropped",
        "log.decider:Decider.report",
        "self._early.append(report)",
        "pass",
    ),
    one_edit(
        "packets are not looked up again for a new leader",
        "log.participant:Participant.read",
        "if heeded.control.leads:",
        "if False:",
    ),
    one_edit(
        "a leader does not learn that it has a successor",
        "log.decider:Decider.heeded",
        "self.succeeded = True",
        "pass",
    ),
    one_edit(
        "a leader goes on after an append of unknown end",
        "log.participant:Participant.control_failed",
        "self.decider = self._new_decider()",
        "self.decider._in_flight = False",
    ),
    one_edit(
        "a leader waits for ever after an append of unknown end",
        "log.participant:Participant.control_failed",
        "self.decider = self._new_decider()",
        "pass",
    ),
    one_edit(
        "a leader whose record was appended twice goes on",
        "log.decider:Decider.refused",
        "self.succeeded = True",
        "pass",
    ),
    Mutant(
        "a leader reads reports from the middle of its reign on",
        rules=replace(KEPT, reads_reports_from_before=False),
    ),
    Mutant(
        "reports that were lost are not sent again",
        rules=replace(KEPT, lost_reports_are_sent_again=False),
    ),
)

DECIDING = (
    one_edit(
        "a shard that has not reported is ignored",
        "log.decider:Decider.decide",
        "self._heads.partitions() - reports.keys()",
        "(self._heads.partitions() and not reports)",
    ),
    one_edit(
        "only shards of the packet's own partition are waited for",
        "log.decider:Decider.decide",
        "self._heads.partitions() - reports.keys()",
        "self._heads.partitions() - reports.keys() - set(range(1, 99))",
    ),
    one_edit(
        "packets are decided as reports come, not in the order of the log",
        "log.decider:Decider.decide",
        "break",
        "continue",
        changes=LATE_REPORTS,
    ),
    one_edit(
        "recent unique documents are not consulted",
        "log.decider:Decider._compare",
        "for at, distance, sequence in self._recent.near(together.prints):",
        "for at, distance, sequence in ():",
    ),
    one_edit(
        "recent unique documents of a content are not consulted",
        "log.unique_documents:UniqueDocuments.by_content",
        "return self._contents.get(digest, [])",
        "return []",
    ),
    one_edit(
        "recent unique documents are forgotten once the leader knows them",
        "log.decider:Decider.decide",
        "replica.control_before(offset)",
        "replica.control",
    ),
    one_edit(
        "recent unique documents are forgotten before their record is appended",
        "log.recent_uniques:RecentUniques.forget_through",
        "known_from is None or known_from > control",
        "known_from is not None and known_from > control",
    ),
    one_edit(
        "all recent unique documents are forgotten when some are",
        "log.recent_uniques:RecentUniques.forget_through",
        "for block in self._blocks:",
        "for block in ():",
    ),
    one_edit(
        "recent unique documents take duplicates in",
        "log.decider:Decider._decision",
        "unique[list(best)] = False",
        "pass",
    ),
    one_edit(
        "pairs of packets that are decided together are ignored",
        "log.decider:Decider._compare",
        "self._pairs = near_pairs(self._nearness, together)",
        "self._pairs = {offset: [] for offset, _ in group}",
    ),
    one_edit(
        "packets that are decided together are not compared with each other",
        "log.nearest_matches:near_pairs",
        "pairs[offset].append((row, distance, sequence_number(other_offset, other)))",
        "pairs[offset] += [(row, distance, sequence_number(offset, other))] "
        "if offset == other_offset else []",
    ),
    one_edit(
        "a duplicate can be an original of a packet that is decided along with its own",
        "log.unique_documents:UniqueDocuments.entry",
        "unique is None or not unique.holds(sequence)",
        "unique is None",
    ),
    one_edit(
        "undecidable pairs within a packet are ignored",
        "log.nearest_matches:own_repeats",
        "for other in others:",
        "for other in ():",
    ),
    one_edit(
        "a duplicate can be an original within its packet",
        "log.nearest_matches:match_nearest",
        "if log_offset_of(sequence) == offset and index_of(sequence) in best:",
        "if False:",
    ),
    one_edit(
        "a candidate as near and earlier than the reported one is not taken",
        "log.nearest_matches:match_nearest",
        "(distance, sequence) >= (known.distance, known.sequence)",
        "distance >= known.distance",
        changes=LATE_REPORTS,
    ),
    one_edit(
        "what is reported is not compared with recent documents",
        "log.nearest_matches:match_nearest",
        "if known and (distance, sequence) >= (known.distance, known.sequence):",
        "if known:",
    ),
    one_edit(
        "of reports as near the first is taken",
        "matches:Match.is_nearer",
        "(self.distance, self.sequence) < (other.distance, other.sequence)",
        "self.distance < other.distance",
    ),
    one_edit(
        "of reports the earliest original is taken, not the nearest",
        "matches:Match.is_nearer",
        "(self.distance, self.sequence) < (other.distance, other.sequence)",
        "self.sequence < other.sequence",
    ),
    one_edit(
        "a query is answered without recent documents",
        "log.decider:Decider._answer",
        "match_nearest(self._nearness, query.columns, pairs, best, self._recent.entry, view)",
        "pass",
    ),
)
