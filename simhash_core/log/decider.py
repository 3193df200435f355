"""The leader: it decides packets in the order of the log, once every shard has reported.

A document's match is the nearest of three: those that shards reported, the recent unique documents
(which a shard may not have known when it looked up), and the unique documents before it in its own
packet. So the verdict is that of a single worker that reads the log in order, whoever looked up
what, and when.

A leader decides nothing before it has read back its first control record in its place in the chain,
and counts only reports made after that record was applied. So it needs no state but the log, and
everybody ignores the records of a leader that was succeeded and goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Entry
from simhash_core.errors import ProtocolError
from simhash_core.index.look_up import Nearness, View, joined_answer, neighbour
from simhash_core.log.nearest_matches import Pair, compared, match_nearest, near_pairs, own_repeats
from simhash_core.log.records import (
    Control,
    Decision,
    Heads,
    Packet,
    PacketReport,
    Query,
    Removal,
    Report,
    entry_of,
    index_of,
    log_offset_of,
    sequence_number,
)
from simhash_core.log.removals import own_removals, removing_rows
from simhash_core.log.replica import AcceptedControl, Replica
from simhash_core.log.unique_documents import RecentUniques, unique_rows
from simhash_core.verdicts import Answer, Match

# ---- Reports of the shards, by packet.
#
# A packet is decided once each shard has reported on it. A few workers may own a thousand shards,
# so a set of shards is kept as the bits of a number.


REPORTED_PACKETS_MAX: Final = 1 << 17
"""The packets whose reports are kept; a worker reports again on what stays undecided for long."""
_REPORTERS_MAX: Final = 1024
"""The workers whose last report is remembered; each start of a worker has a new name."""
_SWEPT_PACKETS_MIN: Final = 1024  # decided between two sweeps
_KNOWN_SETS_MAX: Final = 4096  # sets of shards whose bits are remembered


@dataclass(slots=True)
class _OnPacket:
    reports: list[PacketReport] = field(default_factory=list)
    shards: int = 0  # that the reports cover, as bits


class ShardReports:
    def __init__(self) -> None:
        self._began: int | None = None
        self._next = 0
        self._early: deque[Report] = deque()
        self._early_packets = 0
        self._on: dict[int, _OnPacket] = {}
        self._swept_before = 0
        self._bits = _ShardBits()
        self._required: set[int] = set()
        self._required_bits = 0
        self._reporters: dict[str, int] = {}

    def __contains__(self, offset: int) -> bool:
        return offset in self._on

    def begin(self, began: int, following: int, shards: Iterable[int]) -> None:
        """Count reports made after the control record at ``began``, from ``following`` on."""
        self._began, self._next = began, following
        for shard in shards:
            self.require(shard)
        early, self._early, self._early_packets = self._early, deque(), 0
        for report in early:
            self._add(report, began)

    def require(self, shard: int) -> None:
        self._required.add(shard)
        self._required_bits |= self._bits.of((shard,))

    def add(self, report: Report) -> None:
        self._note_reporter(report)
        if self._began is None:
            self._keep(report)
        else:
            self._add(report, self._began)

    def _keep(self, report: Report) -> None:
        """Keep a report until the term begins; drop the oldest, which is least likely to count."""
        if not report.packets:
            return
        self._early.append(report)
        self._early_packets += len(report.packets)
        while self._early_packets > REPORTED_PACKETS_MAX:
            self._early_packets -= len(self._early.popleft().packets)

    def _add(self, report: Report, began: int) -> None:
        shards = self._bits.of(tuple(report.shards))
        for packet_report in report.packets:
            if packet_report.control < began or packet_report.offset < self._next:
                continue
            on_packet = self._on.get(packet_report.offset)
            if on_packet is None:
                if not self._has_room():
                    continue
                on_packet = self._on[packet_report.offset] = _OnPacket()
            if shards & ~on_packet.shards:
                on_packet.shards |= shards
                on_packet.reports.append(packet_report)

    def _has_room(self) -> bool:
        """Return whether one more packet fits; first drop those that never were in the log."""
        if len(self._on) < REPORTED_PACKETS_MAX:
            return True
        if self._next - self._swept_before >= _SWEPT_PACKETS_MIN:
            self._swept_before = self._next
            self._on = {offset: on for offset, on in self._on.items() if offset >= self._next}
        return len(self._on) < REPORTED_PACKETS_MAX

    def forget(self, offset: int) -> None:
        self._on.pop(offset, None)
        self._next = offset + 1

    def on(self, offset: int) -> Sequence[PacketReport]:
        on_packet = self._on.get(offset)
        return () if on_packet is None else on_packet.reports

    def are_complete(self, offset: int) -> bool:
        return not self._required_bits & ~self._shards_on(offset)

    def missing(self, offset: int) -> set[int]:
        reported = self._shards_on(offset)
        return {shard for shard in self._required if not self._bits.of((shard,)) & reported}

    def _shards_on(self, offset: int) -> int:
        on_packet = self._on.get(offset)
        return 0 if on_packet is None else on_packet.shards

    def _note_reporter(self, report: Report) -> None:
        self._reporters.pop(report.worker, None)
        self._reporters[report.worker] = self._bits.of(tuple(report.shards))
        if len(self._reporters) > _REPORTERS_MAX:
            del self._reporters[next(iter(self._reporters))]

    def reporter_of(self, shard: int) -> str | None:
        bit = self._bits.of((shard,))
        latest_first = reversed(self._reporters.items())
        return next((worker for worker, shards in latest_first if shards & bit), None)


class _ShardBits:
    """Encodes sets of shards as bits of a number, so that joining and comparing are cheap."""

    def __init__(self) -> None:
        self._bit: dict[int, int] = {}
        self._known: dict[tuple[int, ...], int] = {}

    def of(self, shards: tuple[int, ...]) -> int:
        bits = self._known.get(shards)
        if bits is None:
            bits = 0
            for shard in shards:
                bits |= 1 << self._bit.setdefault(shard, len(self._bit))
            if len(self._known) >= _KNOWN_SETS_MAX:
                self._known.clear()
            self._known[shards] = bits
        return bits


_COMPARED_DOCUMENTS: Final = 512  # of several packets, at once
_DECIDED_DOCUMENTS: Final = 4096
"""The documents that one control record decides, unless a single packet has more."""


def term_of(worker: str, number: int) -> str:
    return f"{worker}.{number}"


def worker_of(term: str) -> str:
    return term.rpartition(".")[0]


class Decider:
    def __init__(self, term: str, nearness: Nearness) -> None:
        """``term`` is unique."""
        self.term = term
        self._nearness = nearness
        self._recent = RecentUniques(nearness.scheme)
        self._heads = Heads()
        self._next = 0
        self._began: int | None = None
        self._last_control = 0
        self._in_flight = False
        self._has_begun = False
        self._reports = ShardReports()
        self._pairs: dict[int, list[Pair]] = {}
        self.succeeded = False

    @property
    def leads(self) -> bool:
        return self._began is not None and not self.succeeded

    @property
    def shards(self) -> AbstractSet[int]:
        return self._heads.partitions

    def first_record(self, replica: Replica) -> Control | None:
        """Return the record that begins the term, once; call it when the log is read to its end."""
        if self._has_begun:
            return None
        self._has_begun = self._in_flight = True
        latest = replica.latest
        return Control(
            previous=replica.control,
            leader=self.term,
            leads=True,
            decisions=[],
            heads=[] if latest is None else latest.heads,
            next=replica.start if latest is None else latest.next,
        )

    def accepted(self, accepted: AcceptedControl) -> None:
        control = accepted.control
        if control.leader != self.term:
            if self._has_begun:
                self._succeeded_by()  # or it came in before our own
            return
        if control.leads:
            self._began = self._last_control = accepted.offset
            self._heads = Heads(control.heads)
            self._next = control.next
            self._reports.begin(accepted.offset, control.next, self._heads.partitions)

    def _succeeded_by(self) -> None:
        self.succeeded = True

    def refused(self, control: Control, replica: Replica) -> None:
        """Note a control record in the log that everybody ignores.

        A repeat does no harm. One that decides more does not continue the chain: the broker
        appended the record before it twice and returned the second offset, so all later ones would
        be ignored too.
        """
        if control.leader == self.term and control.next > replica.decided_before:
            self.succeeded = True

    def report(self, report: Report) -> None:
        self._reports.add(report)

    def reporter_of(self, shard: int) -> str | None:
        return self._reports.reporter_of(shard)

    def has_decided(self, offset: int) -> bool:
        return offset < self._next

    def waits_for(self, replica: Replica) -> set[int]:
        offset = next(replica.undecided.starting_at(self._next), None)
        return set() if offset is None or not self.leads else self._reports.missing(offset)

    def decide(self, replica: Replica, limit: int) -> Control | None:
        """Decide at most ``limit`` packets; None while a record is in flight."""
        if not self.leads or self._in_flight:
            return None
        decisions: list[Decision] = []
        documents = 0
        for offset in self._decidable(replica):
            documents += len(replica.undecided[offset].columns)
            if len(decisions) >= limit or (decisions and documents > _DECIDED_DOCUMENTS):
                break
            self._recent.forget_through(self._known_to_all(replica, offset))
            if offset not in self._pairs:
                self._compare(replica, limit - len(decisions))
            decisions.append(self._decision(replica, offset))
            self._reports.forget(offset)
            self._next = offset + 1
        if not decisions:
            return None
        self._in_flight = True
        return Control(
            previous=self._last_control,
            leader=self.term,
            leads=False,
            decisions=decisions,
            heads=self._heads.items(),
            next=self._next,
        )

    def _decidable(self, replica: Replica) -> Iterator[int]:
        return takewhile(self._can_decide, replica.undecided.starting_at(self._next))

    def _can_decide(self, offset: int) -> bool:
        return self._reports.are_complete(offset)

    def _known_to_all(self, replica: Replica, offset: int) -> int:
        """Return the control record that everyone who reports on the packet has applied."""
        return replica.control_before(offset)

    def appended(self, offset: int) -> None:
        if not self._in_flight:
            raise ProtocolError(f"{self.term}: no control record was on its way")
        self._in_flight = False
        if self._began is not None:
            self._last_control = offset
            self._recent.appended(offset)

    def _compare(self, replica: Replica, limit: int) -> None:
        """Compare the next packets with recent unique documents and each other, in one batch."""
        self._pairs = {}
        group: list[tuple[int, DocumentColumns]] = []
        documents = 0
        for offset in islice(replica.undecided.starting_at(self._next), limit):
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

    def _decision(self, replica: Replica, offset: int) -> Decision:
        item = replica.undecided[offset]
        reports = self._reports.on(offset)
        near = self._pairs.pop(offset)
        view = self._view(replica, offset)
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
        self._advance(item)
        unique = unique_rows(item.columns, best)
        removals = self._removals(item, view, reports, unique)
        self._recent.add(offset, item, np.flatnonzero(unique))
        for removal in removals:
            self._recent.remove(removal.sequence)
        return Decision(offset, [best[row] for row in sorted(best)], None, removals)

    def _view(self, replica: Replica, offset: int) -> View:
        return View(sequence_number(offset, 0), replica.expired_for(offset))

    def _advance(self, packet: Packet) -> None:
        self._heads.advance(packet)
        self._reports.require(packet.chain.partition)

    def _removals(
        self, packet: Packet, view: View, reports: Sequence[PacketReport], unique: NDArray[np.bool_]
    ) -> list[Removal]:
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
        for row in columns.repeatable:
            for sequence in self._recent.by_content(columns.digest(row)):
                yield row, 0, sequence

    def _answer(
        self, query: Query, view: View, reports: Sequence[PacketReport], near: Sequence[Pair]
    ) -> Answer:
        best = _nearest(reports)
        pairs = sorted([*near, *self._recent_repeats(query.columns)])
        self._match_recent(query, pairs, best, view)
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

    def _match_recent(
        self, query: Query, pairs: Sequence[Pair], best: dict[int, Match], view: View
    ) -> None:
        match_nearest(self._nearness, query.columns, pairs, best, self._recent.entry, view)


def _nearest(reports: Iterable[PacketReport]) -> dict[int, Match]:
    best: dict[int, Match] = {}
    for report in reports:
        for match in report.matches:
            if match.is_nearer(best.get(match.row)):
                best[match.row] = match
    return best
