"""The leader: it decides packets in the order of the log, once every shard has reported.

A document's match is the nearest of those that shards reported, of the recent unique documents
(which a shard may not have known when it looked the packet up), and of the unique documents before
it in its own packet. So the verdict is the one that a single worker would give that reads the log
in order, whoever looked up what, and when.

A leader decides nothing before its first control record is read back in its place in the chain, and
counts only reports that were made with all before it applied. So it needs no state but the log, and
a leader that was succeeded, wakes and goes on, appends records that nobody heeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.entries import Entry
from simhash_core.errors import ProtocolError
from simhash_core.index.look_up import Nearness, joined_answer, neighbour
from simhash_core.index.view import View
from simhash_core.log.nearest_matches import Pair, compared, match_nearest, near_pairs, own_repeats
from simhash_core.log.packets import Heads, Packet, entry_of
from simhash_core.log.recent_uniques import RecentUniques
from simhash_core.log.records import Control, Decision, PacketReport, Query, Removal, Report
from simhash_core.log.removals import own_removals, removing_rows
from simhash_core.log.replica import Heeded, Replica
from simhash_core.log.sequence import index_of, log_offset_of, sequence_number
from simhash_core.matches import Answer, Match

_COMPARED_DOCUMENTS: Final = 512
"""Documents of several packets that are compared at one time."""


class Decider:
    """One reign of one leader."""

    def __init__(self, reign: str, nearness: Nearness) -> None:
        """``reign`` names this worker and this attempt to lead; no other record bears it."""
        self.reign = reign
        self._nearness = nearness
        self._recent = RecentUniques(nearness.scheme)
        self._heads = Heads()
        self._next = 0
        self._began: int | None = None
        self._last_control = 0
        self._in_flight = False
        self._has_begun = False
        self._early: list[Report] = []
        self._reports: dict[int, dict[int, PacketReport]] = {}
        self._pairs: dict[int, list[Pair]] = {}
        self.succeeded = False

    @property
    def leads(self) -> bool:
        """Whether the record that begins this reign was read back, and no other after it."""
        return self._began is not None and not self.succeeded

    @property
    def shards(self) -> set[int]:
        """The shards that have documents in the log."""
        return self._heads.partitions()

    def first_record(self, replica: Replica) -> Control | None:
        """Return the control record that begins the reign, once; None afterwards.

        Call it when the log has been read to its end.
        """
        if self._has_begun:
            return None
        self._has_begun = self._in_flight = True
        latest = replica.latest
        return Control(
            previous=replica.control,
            leader=self.reign,
            leads=True,
            decisions=[],
            heads=[] if latest is None else latest.heads,
            next=replica.start if latest is None else latest.next,
        )

    def heeded(self, heeded: Heeded) -> None:
        """Take in a control record that everybody heeds, this leader's own or another's."""
        control = heeded.control
        if control.leader != self.reign:
            if self._has_begun:
                self.succeeded = True  # by it, or it came in before our own
            return
        if control.leads:
            self._began = self._last_control = heeded.offset
            self._heads = Heads(control.heads)
            self._next = control.next
            early, self._early = self._early, []
            for report in early:
                self.report(report)

    def refused(self, control: Control, replica: Replica) -> None:
        """Learn of a control record in the log that nobody heeds.

        A repeat of a record of this reign does no harm. One that decides more than is decided names
        another than the last in the chain: the broker appended that one twice and returned the
        second offset. Nobody would heed what follows.
        """
        if control.leader == self.reign and control.next > replica.decided_before:
            self.succeeded = True

    def report(self, report: Report) -> None:
        """Take in what the shards of a worker found."""
        if self._began is None:
            self._early.append(report)
            return
        for packet_report in report.packets:
            if packet_report.control >= self._began and packet_report.offset >= self._next:
                by_shard = self._reports.setdefault(packet_report.offset, {})
                for shard in report.shards:
                    by_shard.setdefault(shard, packet_report)

    def waits_for(self, replica: Replica) -> set[int]:
        """Return the shards whose report on the next packet is missing."""
        offset = next(self._undecided(replica), None)
        if offset is None or not self.leads:
            return set()
        return self._heads.partitions() - self._reports.get(offset, {}).keys()

    def decide(self, replica: Replica, limit: int) -> Control | None:
        """Return the next control record to append: of at most ``limit`` packets.

        None where there is nothing to decide yet, or a record of this leader is on its way.
        """
        if not self.leads or self._in_flight:
            return None
        decisions: list[Decision] = []
        for offset in self._undecided(replica):
            reports = self._reports.get(offset, {})
            if len(decisions) >= limit or self._heads.partitions() - reports.keys():
                break
            self._recent.forget_through(replica.control_before(offset))
            if offset not in self._pairs:
                self._compare(replica, limit - len(decisions))
            decisions.append(self._decision(replica, offset, reports))
            self._reports.pop(offset, None)
            self._next = offset + 1
        if not decisions:
            return None
        self._in_flight = True
        return Control(
            previous=self._last_control,
            leader=self.reign,
            leads=False,
            decisions=decisions,
            heads=self._heads.items(),
            next=self._next,
        )

    def appended(self, offset: int) -> None:
        """Learn where the record that was returned last stands in the log."""
        if not self._in_flight:
            raise ProtocolError(f"{self.reign}: no control record was on its way")
        self._in_flight = False
        if self._began is not None:
            self._last_control = offset
            self._recent.appended(offset)

    def _compare(self, replica: Replica, limit: int) -> None:
        """Compare the next packets with recent unique documents and with each other, all at once.

        Small packets cost much less so. Which of the pairs count is known when they are decided.
        """
        self._pairs = {}
        group: list[tuple[int, DocumentColumns]] = []
        documents = 0
        for offset in islice(self._undecided(replica), limit):
            columns = replica.undecided[offset].columns
            if group and (offset not in self._reports or documents >= _COMPARED_DOCUMENTS):
                break
            group.append((offset, columns))
            documents += len(columns)
        together = compared(self._nearness.scheme, group)
        self._pairs = near_pairs(self._nearness, together)
        for at, distance, sequence in self._recent.near(together.prints):
            offset, row = together.offsets.item(at), together.rows.item(at)
            self._pairs[offset].append((row, distance, sequence))

    def _undecided(self, replica: Replica) -> Iterator[int]:
        return (offset for offset in replica.undecided if offset >= self._next)

    def _decision(
        self, replica: Replica, offset: int, packet_reports: dict[int, PacketReport]
    ) -> Decision:
        item = replica.undecided[offset]
        reports = list({id(each): each for each in packet_reports.values()}.values())
        near = self._pairs.pop(offset)
        view = View(sequence_number(offset, 0), replica.expired_for(offset))
        if isinstance(item, Query):
            answer = self._answer(item, view, reports, near)
            return Decision(offset, [] if answer.match is None else [answer.match], answer)
        if not self._heads.counts(item):
            return Decision(offset, None)
        removing = removing_rows(item.columns, replaces=self._nearness.replaces)
        view = view._replace(removing=removing)
        best = _nearest(reports)
        pairs = [
            *near,
            *self._recent_repeats(item.columns),
            *own_repeats(self._nearness, view, item.columns),
        ]

        def entry(sequence: int) -> Entry | None:
            if log_offset_of(sequence) == offset:
                return entry_of(item, index_of(sequence))
            return self._recent.entry(sequence)

        match_nearest(self._nearness, item.columns, pairs, best, entry, view)
        self._heads.advance(item)
        unique = item.columns.are_documents
        unique[list(best)] = False
        removals = self._removals(item, view, reports, unique)
        self._recent.add(offset, item, np.flatnonzero(unique))
        for removal in removals:
            self._recent.remove(removal.sequence)
        return Decision(offset, [best[row] for row in sorted(best)], None, removals)

    def _removals(
        self,
        packet: Packet,
        view: View,
        reports: Sequence[PacketReport],
        unique: NDArray[np.bool_],
    ) -> list[Removal]:
        """Return what a packet takes out: of the shards, of recent documents, and of its own."""
        if not view.removing:
            return []
        removals = {removal for report in reports for removal in report.held}
        names = list(view.removing)
        for name, sequences in zip(names, self._recent.with_ids(names), strict=True):
            for sequence in sequences:
                entry = self._recent.entry(sequence)
                if entry is not None and sequence >= view.expired_before:
                    row = view.removing[name][0]
                    removals.add(Removal(row, entry.source.partition, sequence))
        removals.update(own_removals(packet, view, unique))
        return sorted(removals)

    def _recent_repeats(self, columns: DocumentColumns) -> Iterator[Pair]:
        """Yield the undecidable documents with the recent ones that have their content."""
        for row in columns.repeatable:
            for sequence in self._recent.by_content(columns.digest(row)):
                yield row, 0, sequence

    def _answer(
        self, query: Query, view: View, reports: Sequence[PacketReport], near: Sequence[Pair]
    ) -> Answer:
        """Return what the whole index says of a document that is asked about."""
        best = _nearest(reports)
        pairs = sorted([*near, *self._recent_repeats(query.columns)])
        match_nearest(self._nearness, query.columns, pairs, best, self._recent.entry, view)
        answers = [each.answer for each in reports if each.answer is not None]
        recent = [
            neighbour(self._nearness, query.columns, distance, sequence, entry)
            for _, distance, sequence in pairs
            if (entry := self._recent.entry(sequence)) is not None
            and entry.scope == query.columns.scope(0)
            and not view.hides(0, sequence, entry.document_id)
        ]
        answers.append(Answer(best.get(0), recent, 0, 0))
        return joined_answer(answers, query.limit)


def _nearest(reports: Iterable[PacketReport]) -> dict[int, Match]:
    """Return the nearest reported match of each row."""
    best: dict[int, Match] = {}
    for report in reports:
        for match in report.matches:
            if match.is_nearer(best.get(match.row)):
                best[match.row] = match
    return best
