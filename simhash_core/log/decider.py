"""The leader: it decides bundles in the order of the log, once every shard has reported.

A document's match is the nearest of three kinds of candidates: the matches that shards reported,
the recent unique documents (which a shard may not have known when it looked up), and the unique
documents before it in its own bundle. So the verdict is the same as that of a single worker that
reads the log in order. It does not depend on who looked up what, or when.

A leader decides nothing before it has read its first control record back from the log, as the next
link of the chain. It counts only reports that were made after that record was applied. So it needs
no state except the log. If another leader has succeeded it, all readers ignore its later records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simhash_core.document_columns import DocumentColumns
from simhash_core.documents import Entry
from simhash_core.errors import ProtocolError
from simhash_core.index.look_up import Candidate, Nearness, View, joined_answer
from simhash_core.log import versions
from simhash_core.log.nearest_matches import (
    Pair,
    compared,
    is_large,
    match_bundle,
    match_nearest,
    near_pairs,
)
from simhash_core.log.records import (
    Bundle,
    ChainHeads,
    Control,
    Decision,
    Found,
    Heads,
    Query,
    Removal,
    Report,
    Standbys,
    entry_of,
    index_of,
    item_checksum,
    log_offset_of,
    sequence_number,
)
from simhash_core.log.removals import REMOVALS_A_DOCUMENT, own_removals, removing_rows
from simhash_core.log.replica import AcceptedControl, Replica
from simhash_core.log.unique_documents import RecentUniques, unique_rows
from simhash_core.log.versions import member_of
from simhash_core.verdicts import Answer, Match

KEPT_FOUND_MAX: Final = 1 << 17
"""Limit of bundles with kept matches; workers report again on what stays undecided for long."""
_REPORTERS_MAX: Final = 1024
"""Limit of workers whose reports are remembered; each start of a worker has a new name."""
_KNOWN_SETS_MAX: Final = 4096  # sets of shards whose bits are remembered
# Workers with one set of shards each; old workers are forgotten above this number.
_DROPPED_AT_MIN: Final = 64


class _Covered:
    """The ranges of the log that one worker has looked up in one set of shards."""

    __slots__ = ("_ranges", "shards")

    def __init__(self, shards: int) -> None:
        self.shards = shards  # as bits
        self._ranges: list[tuple[int, int]] = []

    def add(self, first: int, end: int) -> None:
        """Add a range; ranges that touch become one."""
        ranges = self._ranges
        if not ranges or ranges[-1][1] < first:
            ranges.append((first, end))
            return
        low = bisect_left(ranges, first, key=itemgetter(1))
        high = bisect_right(ranges, end, key=itemgetter(0))
        if low < high:
            first, end = min(first, ranges[low][0]), max(end, ranges[high - 1][1])
        ranges[low:high] = [(first, end)]

    def forget_before(self, offset: int) -> None:
        while self._ranges and self._ranges[0][1] <= offset:
            del self._ranges[0]

    def end_of(self, offset: int) -> int | None:
        """Return the end of the range that holds an offset; None if no range holds it."""
        at = bisect_right(self._ranges, offset, key=itemgetter(0)) - 1
        return self._ranges[at][1] if at >= 0 and offset < self._ranges[at][1] else None

    def __bool__(self) -> bool:
        return bool(self._ranges)


class ShardReports:
    """Which shards have reported on undecided bundles, and what they found.

    A report covers a range of the log and names only the matches found there. So the cost does not
    grow with the number of bundles times the number of workers.
    """

    def __init__(self) -> None:
        self._began: int | None = None
        self._next = 0
        self._early: deque[Report] = deque()
        self._early_found = 0
        self._covered: dict[tuple[str, int], _Covered] = {}
        self._found: dict[int, list[tuple[int, Found]]] = {}
        self._complete = 0, 0
        self._drop_at = _DROPPED_AT_MIN
        self._bits = _ShardBits()
        self._required: set[int] = set()
        self._required_bits = 0
        self._reporters: dict[str, int] = {}

    def begin(self, began: int, following: int, shards: Iterable[int]) -> None:
        """Count only reports made after the control record at ``began``, from ``following`` on."""
        self._began, self._next = began, following
        self.require(shards)
        early, self._early, self._early_found = self._early, deque(), 0
        for report in early:
            self._add(report, began)

    def require(self, shards: Iterable[int]) -> None:
        self._required.update(shards)
        self._required_bits = self._bits.of(tuple(self._required))
        self._complete = 0, 0

    def add(self, report: Report) -> None:
        self._note_reporter(report)
        if self._began is None:
            self._keep(report)
        else:
            self._add(report, self._began)

    def _keep(self, report: Report) -> None:
        """Keep a report until the term begins; drop the oldest, which is least likely to count."""
        if report.end <= report.first:
            return
        self._early.append(report)
        self._early_found += 1 + len(report.found)
        while self._early_found > KEPT_FOUND_MAX:
            self._early_found -= 1 + len(self._early.popleft().found)

    def _add(self, report: Report, began: int) -> None:
        first, end = max(report.first, self._next), report.end
        if report.control < began or end <= first:
            return
        shards = self._bits.of(tuple(report.shards))
        for found in report.found:
            if found.offset < self._next:
                continue
            if not self._add_found(shards, found):
                end = found.offset
                break
        if end <= first:
            return
        key = report.worker, shards
        covered = self._covered.get(key)
        if covered is None:
            self._drop_old()
            covered = self._covered[key] = _Covered(shards)
        covered.forget_before(self._next)
        covered.add(first, end)

    def _add_found(self, shards: int, found: Found) -> bool:
        """Add what shards found; return False if the limit is reached."""
        known = self._found.get(found.offset)
        if known is None:
            if len(self._found) >= KEPT_FOUND_MAX:
                return False
            self._found[found.offset] = [(shards, found)]
            return True
        reported = 0
        for bits, _ in known:
            reported |= bits
        if shards & ~reported:
            known.append((shards, found))
        return True

    def _drop_old(self) -> None:
        """Forget at intervals the workers whose reports cover nothing undecided."""
        if len(self._covered) < self._drop_at:
            return
        for covered in self._covered.values():
            covered.forget_before(self._next)
        self._covered = {key: each for key, each in self._covered.items() if each}
        self._found = {offset: each for offset, each in self._found.items() if offset >= self._next}
        self._drop_at = max(_DROPPED_AT_MIN, 2 * len(self._covered))

    def forget(self, offset: int) -> None:
        self._found.pop(offset, None)
        self._next = offset + 1

    def on(self, offset: int) -> list[Found]:
        return [found for _, found in self._found.get(offset, ())]

    def are_complete(self, offset: int) -> bool:
        first, end = self._complete
        if first <= offset < end:
            return True
        shards, end = self._shards_on(offset)
        if self._required_bits & ~shards:
            return False
        self._complete = offset, end
        return True

    def missing(self, offset: int) -> set[int]:
        reported, _ = self._shards_on(offset)
        return {shard for shard in self._required if not self._bits.of((shard,)) & reported}

    def _shards_on(self, offset: int) -> tuple[int, int]:
        """Return the shards that reported on an offset, and the end of the range they all cover."""
        shards = 0
        ends = []
        for covered in self._covered.values():
            end = covered.end_of(offset)
            if end is not None:
                shards |= covered.shards
                ends.append(end)
        return shards, min(ends, default=offset + 1)

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


_COMPARED_DOCUMENTS: Final = 256  # documents of several bundles that are compared at once


def term_of(worker: str, number: int) -> str:
    return f"{worker}.{number}"


def worker_of(term: str) -> str:
    return term.rpartition(".")[0]


class OpenStandbys:
    """The open standbys, as their workers report them."""

    def __init__(self) -> None:
        self.open: Standbys = ()
        self._of_member: dict[str, tuple[str, tuple[int, ...]]] = {}  # with the worker

    def begin(self, known: Standbys) -> None:
        """Start with the standbys that the former leader knew; later reports replace them."""
        before = {member_of(worker): (worker, shards) for worker, shards in known}
        self._set(before | self._of_member)

    def note(self, report: Report) -> None:
        shards: tuple[int, ...] = ()
        if len(report.shards) > len(report.positions):  # otherwise it owns all of them
            shards = tuple(sorted(set(report.shards) - report.positions.keys()))
        member = member_of(report.worker)
        if self._of_member.get(member, ("", ()))[1] or shards:
            self._note(member, report.worker, shards)

    def _note(self, member: str, worker: str, shards: tuple[int, ...]) -> None:
        if self._of_member.get(member) != (worker, shards):
            self._set(self._of_member | {member: (worker, shards)})

    def keep(self, members: Container[str]) -> None:
        """Forget workers that are not members of the group."""
        self._set({name: each for name, each in self._of_member.items() if name in members})

    def _set(self, of_member: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        self._of_member = of_member
        open_now = tuple(sorted(each for each in of_member.values() if each[1]))
        if open_now != self.open:
            self.open = open_now


class Decider:
    def __init__(self, term: str, nearness: Nearness, reads: int = versions.NEWEST) -> None:
        """``term`` is unique; ``reads`` is the version that it raises the group to."""
        self.term = term
        self._nearness = nearness
        self._recent = RecentUniques(nearness)
        self._heads = Heads()
        self._next = 0
        self._began: int | None = None
        self._last_control = 0
        self._in_flight = False
        self._has_begun = False
        self._reports = ShardReports()
        self._pairs: dict[int, list[Pair]] = {}
        self._reads = reads
        self._readers = versions.Readers(reads)
        self._version = versions.OLDEST
        self._standbys = OpenStandbys()
        self._has_decided = False
        self.succeeded = False

    @property
    def leads(self) -> bool:
        return self._began is not None and not self.succeeded

    @property
    def was_in_vain(self) -> bool:
        """Whether another leader succeeded it after it began, and before it decided a document."""
        return self.succeeded and self._began is not None and not self._has_decided

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
            heads=ChainHeads() if latest is None else latest.heads,
            next=replica.start if latest is None else latest.next,
            version=replica.version,
            standbys=() if latest is None else latest.standbys,
        )

    def accepted(self, accepted: AcceptedControl) -> None:
        control = accepted.control
        if control.leader != self.term:
            if self._has_begun:
                self._succeeded_by()  # or its record came before ours
            return
        if control.leads:
            self._began = self._last_control = accepted.offset
            self._heads = Heads(control.heads)
            self._next = control.next
            self._version = control.version
            self._standbys.begin(control.standbys)
            self._reports.begin(accepted.offset, control.next, self._heads.partitions)
        elif control.decisions:
            self._has_decided = True

    def _succeeded_by(self) -> None:
        self.succeeded = True

    def refused(self, control: Control, replica: Replica) -> None:
        """Note a control record in the log that all readers ignore.

        A repeated record does no harm. If the record is not a repeat, it does not continue the
        chain: the broker appended the record before it twice and returned the second offset. Then
        all later records of this leader would be ignored too.
        """
        if control.leader != self.term:
            return
        if control.next > replica.decided_before or _has_news(control, replica):
            self.succeeded = True

    def report(self, report: Report) -> None:
        self._reports.add(report)
        if self._version < self._reads:
            self._readers.note(report.worker, report.reads)
        self._standbys.note(report)

    def set_members(self, members: Mapping[str, str]) -> None:
        """Take all members of the group (``Readers.check``); may raise the version in force."""
        self._standbys.keep(members)
        if self.leads and self._version < self._reads and self._readers.check(members):
            self._version = self._reads

    def reporter_of(self, shard: int) -> str | None:
        return self._reports.reporter_of(shard)

    def has_decided(self, offset: int) -> bool:
        return offset < self._next

    def waits_for(self, replica: Replica) -> set[int]:
        offset = next(replica.undecided.starting_at(self._next), None)
        return set() if offset is None or not self.leads else self._reports.missing(offset)

    def decide(self, replica: Replica, limit: int) -> Control | None:
        """Decide at most ``limit`` documents, or one bundle; None while a record is in flight."""
        if not self.leads or self._in_flight:
            return None
        decisions: list[Decision] = []
        checksums: list[int] = []
        documents = 0
        for offset in self._decidable(replica):
            item = replica.undecided[offset]
            documents += len(item.columns)
            if decisions and documents > limit:
                break
            self._recent.forget_through(self._known_to_all(replica, offset))
            if offset not in self._pairs:
                self._compare(replica)
            decision = self._decision(replica, offset)
            decisions.append(decision)
            checksums.append(item_checksum(item))
            documents += len(decision.removals) // REMOVALS_A_DOCUMENT
            self._reports.forget(offset)
            self._next = offset + 1
        control = Control(
            previous=self._last_control,
            leader=self.term,
            leads=False,
            decisions=decisions,
            heads=self._heads.columns(),
            next=self._next,
            version=self._version,
            standbys=self._standbys.open if replica.version >= versions.STANDBYS_SINCE else (),
            checksums=tuple(checksums),
        )
        # While a control record is not read back yet, its news is not sent again.
        is_read = replica.position > self._last_control
        if not decisions and not (is_read and _has_news(control, replica)):
            return None
        self._in_flight = True
        return control

    def _decidable(self, replica: Replica) -> Iterator[int]:
        return takewhile(self._can_decide, replica.undecided.starting_at(self._next))

    def _can_decide(self, offset: int) -> bool:
        return self._reports.are_complete(offset)

    def _known_to_all(self, replica: Replica, offset: int) -> int:
        """Return the last control record that all workers applied before they reported on it."""
        return replica.control_before(offset)

    def appended(self, offset: int) -> None:
        if not self._in_flight:
            raise ProtocolError(f"{self.term}: no control record was in flight")
        self._in_flight = False
        if self._began is not None:
            self._last_control = offset
            self._recent.appended(offset)

    def _compare(self, replica: Replica) -> None:
        """Compare the next bundles with recent unique documents and each other, in one batch.

        Not all of these bundles can be decided yet. Documents that become unique before they are
        decided belong to the batch itself, so they were compared.
        """
        self._pairs = {}
        group: list[tuple[int, DocumentColumns]] = []
        documents = 0
        for offset in replica.undecided.starting_at(self._next):
            columns = replica.undecided[offset].columns
            if group and (documents >= _COMPARED_DOCUMENTS or is_large(columns)):
                break
            group.append((offset, columns))
            documents += len(columns)
        together = compared(self._nearness, group)
        if any(isinstance(replica.undecided[offset], Query) for offset, _ in group):
            together = together._replace(words=None)  # an answer names dissimilar documents, too
        if is_large(group[0][1]):
            self._pairs = {group[0][0]: []}
        else:
            self._pairs = near_pairs(self._nearness, together)
        for at, distance, sequence in self._recent.near(together.prints, together.words):
            offset, row = together.offsets.item(at), together.rows.item(at)
            self._pairs[offset].append((row, distance, sequence))

    def _decision(self, replica: Replica, offset: int) -> Decision:
        item = replica.undecided[offset]
        found = self._reports.on(offset)
        near = self._pairs.pop(offset)
        view = self._view(replica, offset)
        if isinstance(item, Query):
            answer = self._answer(item, view, found, near)
            return Decision(offset, [] if answer.match is None else [answer.match], answer)
        skipped = self._advance(item)
        if len(skipped) == len(item.segments):
            return Decision(offset, [], skipped=skipped)
        counting = item.rows_without(skipped)
        columns = item.columns
        view = view._replace(
            removing=removing_rows(columns, counting, replaces=self._nearness.replaces)
        )
        best = {row: match for row, match in _nearest(found).items() if counting[row]}
        repeatable = [row for row in columns.repeatable if counting[row]]
        pairs = [
            *(pair for pair in near if counting[pair[0]]),
            *self._recent_repeats(columns, repeatable),
        ]

        def entry(sequence: int) -> Entry | None:
            if log_offset_of(sequence) == offset:
                row = index_of(sequence)
                return entry_of(item, row) if counting[row] else None
            return self._recent.entry(sequence)

        match_bundle(self._nearness, columns, pairs, best, entry, view, counting)
        unique = unique_rows(columns, best) & counting
        removals = self._removals(item, view, found, unique)
        self._recent.add_rows(offset, item, np.flatnonzero(unique))
        for removal in removals:
            self._recent.remove(removal.sequence)
        return Decision(offset, [best[row] for row in sorted(best)], None, removals, skipped)

    def _view(self, replica: Replica, offset: int) -> View:
        return View(sequence_number(offset, 0), replica.expired_for(offset))

    def _advance(self, bundle: Bundle) -> list[int]:
        """Return the segments that do not count; from now on, new shards must report, too."""
        known = len(self.shards)
        skipped = self._heads.take(bundle)
        if len(self.shards) > known:
            self._reports.require(self.shards)
        return skipped

    def _removals(
        self, bundle: Bundle, view: View, found: Sequence[Found], unique: NDArray[np.bool_]
    ) -> list[Removal]:
        if not view.removing:
            return []
        removals = {removal for each in found for removal in each.held}
        names = list(view.removing)
        for name, sequences in zip(names, self._recent.with_ids(names), strict=True):
            for sequence in sequences:
                entry = self._recent.entry(sequence)
                if entry is not None and sequence >= view.expired_before:
                    row = view.removing[name][0]
                    removals.add(Removal(row, entry.source.partition, sequence))
        removals.update(own_removals(bundle, view, unique))
        return sorted(removals)

    def _recent_repeats(self, columns: DocumentColumns, rows: Iterable[int]) -> Iterator[Pair]:
        for row in rows:
            for sequence in self._recent.by_content(columns.digest(row)):
                yield row, 0, sequence

    def _answer(
        self, query: Query, view: View, found: Sequence[Found], near: Sequence[Pair]
    ) -> Answer:
        best = _nearest(found)
        repeated = self._recent_repeats(query.columns, query.columns.repeatable)
        pairs = sorted([*near, *repeated])
        self._match_recent(query, pairs, best, view)
        answers = [each.answer for each in found if each.answer is not None]
        candidates = (
            Candidate(distance, sequence, entry)
            for _, distance, sequence in pairs
            if (entry := self._recent.entry(sequence)) is not None
        )
        recent = self._nearness.neighbours(query.columns, candidates, view)
        answers.append(Answer(best.get(0), recent, 0, 0))
        return joined_answer(answers, query.limit)

    def _match_recent(
        self, query: Query, pairs: Sequence[Pair], best: dict[int, Match], view: View
    ) -> None:
        match_nearest(self._nearness, query.columns, pairs, best, self._recent.entry, view)


def _has_news(control: Control, replica: Replica) -> bool:
    """Return whether a record says more than the latest one, without regard to its decisions."""
    known = replica.latest
    if known is None:
        return False
    return control.version > known.version or control.standbys != known.standbys


def _nearest(found: Iterable[Found]) -> dict[int, Match]:
    best: dict[int, Match] = {}
    for each in found:
        for match in each.matches:
            if match.is_nearer(best.get(match.row)):
                best[match.row] = match
    return best
