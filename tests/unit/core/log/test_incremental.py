"""The state that a worker updates while it reads the log equals the state computed from all of it.

A worker reads bundles, queries and control records in any order that a log may have, reports in
parts, begins new sessions and commits. After each step, its state of the undecided documents is
compared with a pass over all of them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from simhash_core.document_columns import DocumentColumns
from simhash_core.index.look_up import Nearness
from simhash_core.log.participant import BundleLimit, Participant, ShardReady
from simhash_core.log.records import (
    NO_CONTROL,
    NO_OFFSET,
    Bundle,
    BundleSegment,
    Chain,
    ChainHeads,
    Control,
    Decision,
    Heads,
    LogRecord,
    Progress,
    Query,
    Removal,
    sequence_number,
)
from simhash_core.log.removals import UndecidedRemovals, removing_rows
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import RawBatch
from tests.simulation.broker import StoredEntries
from tests.unit.core.log.made_to_order import FAR, NEARNESS, bundle, chain, columns_of, packet

OWNED = (1, 2)
PARTITIONS = (1, 2, 3)
NAMES = st.sampled_from([b"a", b"b", b"c", b"d"])
ROWS = st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=3)
PACKETS = st.lists(
    st.tuples(st.sampled_from(PARTITIONS), ROWS, st.sampled_from([0, 0, 0, 1, -1])),
    min_size=1,
    unique_by=lambda each: each[0],
)


def read_as(rows: list[tuple[bytes, bool]], first: int) -> DocumentColumns:
    """Return columns of documents with these ids; True marks a delete."""
    made = [
        far._replace(name=name, is_delete=is_delete)
        for far, (name, is_delete) in zip(FAR, rows, strict=False)
    ]
    return columns_of(made, first)


def without_some(columns: DocumentColumns) -> DocumentColumns:
    """Return the documents as this worker reads them: every fourth record is no document."""
    return columns.take(np.flatnonzero(columns.offsets % 4 != 3))


Removing = dict[bytes, list[int]]


def removing(replica: Replica, *, replaces: bool) -> list[tuple[int, Removing]]:
    """Return the ids that undecided bundles remove, with the rows, by a pass over all."""
    assert replica.heads is not None
    heads = Heads(replica.heads.columns())
    found: list[tuple[int, Removing]] = []
    for offset, item in replica.undecided.items():
        names: Removing = {}
        for each in item.packets() if isinstance(item, Bundle) else ():
            if heads.counts(each):
                heads.advance(each)
                for name, rows in removing_rows(each.columns, replaces=replaces).items():
                    names.setdefault(name, []).extend(each.first + row for row in rows)
        found.append((offset, names))
    return found


class Reading(RuleBasedStateMachine):
    """One worker with two of three shards, and the log that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[LogRecord] = []
        self.heads: dict[Chain, int] = {}
        self.decided_before = 0
        self.control = NO_CONTROL
        self.undecided: dict[int, Bundle | Query] = {}
        self.looked_up_before = 0
        self.again: set[int] = set()
        self.unique: list[tuple[int, int]] = []
        self.terms = 0
        self.raw_end = dict.fromkeys(OWNED, 0)

    @initialize(replaces=st.booleans())
    def start(self, replaces: bool) -> None:
        self.replaces = replaces
        nearness = Nearness(NEARNESS.scheme, None, replaces=replaces)
        self.worker: Participant[str] = Participant("worker", nearness)
        self.stores = {partition: StoredEntries({}) for partition in OWNED}
        for partition, store in self.stores.items():
            self.worker.add_shard(Progress(chain(partition), 0, 0, NO_CONTROL), store)
        self.worker.begin(0)
        self.new_leader()

    # ---- the log

    def append(self, record: LogRecord) -> int:
        self.log.append(record)
        offset = len(self.log) - 1
        if not isinstance(record, Control):
            self.undecided[offset] = record
        self.worker.read(offset, record, 0)
        return offset

    @rule(packets=PACKETS)
    def append_packets(self, packets: list[tuple[int, list[tuple[bytes, bool]], int]]) -> None:
        made = []
        for partition, rows, guess in packets:
            own = [segment for _, segment in self.segments_of(chain(partition))]
            previous = max(NO_OFFSET, self.expected_head(chain(partition), own) + guess)
            empty = packet(FAR[: len(rows)], previous, partition)
            made.append(replace(empty, columns=read_as(rows, previous + 1)))
        self.append(bundle(*made))

    def segments_of(self, chain: Chain) -> list[tuple[int, BundleSegment]]:
        return [
            (offset, segment)
            for offset, item in self.undecided.items()
            for segment in (item.segments if isinstance(item, Bundle) else ())
            if segment.chain == chain
        ]

    def expected_head(self, chain: Chain, segments: list[BundleSegment]) -> int:
        head = self.heads.get(chain, NO_OFFSET)
        for segment in segments:
            head = segment.last if segment.previous == head else head
        return head

    @rule()
    def query(self) -> None:
        self.append(Query("q", 1, columns_of(FAR[:1])))

    @rule(count=st.integers(1, 5), removes=st.booleans())
    def decide(self, count: int, removes: bool) -> None:
        """The leader decides the next bundles in order; it may remove any unique document."""
        decisions = []
        for offset in [*self.undecided][:count]:
            item = self.undecided.pop(offset)
            decisions.append(self.decision(offset, item, removes=removes))
            self.decided_before = offset + 1
        self.append_control(decisions, leads=False)

    def decision(self, offset: int, item: Bundle | Query, *, removes: bool) -> Decision:
        if isinstance(item, Query):
            return Decision(offset, [])
        heads = Heads(ChainHeads.of(self.heads.items()))
        removals = []
        skipped = []
        unique: list[tuple[int, int]] = []
        for at, each in enumerate(item.packets()):
            if not heads.counts(each):
                skipped.append(at)
                continue
            self.heads[each.chain] = each.last
            if removes and self.unique:
                removals.append(Removal(each.first, *self.unique.pop(0)))
            documents = np.flatnonzero(each.columns.are_documents).tolist()
            numbers = [sequence_number(offset, each.first + row) for row in documents]
            unique += [(each.chain.partition, number) for number in numbers]
        self.unique += unique
        return Decision(offset, [], None, removals, skipped)

    @rule()
    def new_leader(self) -> None:
        self.terms += 1
        self.append_control([], leads=True)

    @rule()
    def reported_heads(self) -> None:
        """A command that loaded a shard appends heads that do not follow from records."""
        head = self.heads.get(chain(9), 0)
        self.heads[chain(9)] = head + 5
        self.append_control([], leads=True)

    @rule()
    def refused(self) -> None:
        """A leader that has a successor appends a record that all readers ignore."""
        self.append(Control(self.control - 1, "old.1", False, [], ChainHeads(), 0))

    def append_control(self, decisions: list[Decision], *, leads: bool) -> None:
        heads = ChainHeads.of(self.heads.items())
        leader = f"leader.{self.terms}"
        record = Control(self.control, leader, leads, decisions, heads, self.decided_before)
        self.control = self.append(record)
        if leads:
            self.forget_look_ups()

    # ---- the worker

    def forget_look_ups(self) -> None:
        self.looked_up_before, self.again = 0, set()

    @rule(limit=st.integers(1, 9))
    def report(self, limit: int) -> None:
        """Report on repeated bundles first, up to ``limit`` documents, or on one bundle."""
        undecided = self.worker.replica.undecided
        expected = self.next_to_look_up(limit)
        has_to_report = self.worker.has_to_report
        report = self.worker.report(limit)
        assert has_to_report == (report is not None)
        if self.worker.replica.heads is None or not expected:
            assert report is None
            return
        assert report is not None
        assert [each for each in undecided if report.first <= each < report.end] == expected
        found = [each.offset for each in report.found]
        assert found == sorted(set(found).intersection(expected))
        if self.again.isdisjoint(expected):
            self.looked_up_before = expected[-1] + 1
        self.again.difference_update(expected)

    def next_to_look_up(self, limit: int) -> list[int]:
        undecided = self.worker.replica.undecided
        again = [each for each in undecided if each in self.again]
        waiting = again or [each for each in undecided if each >= self.looked_up_before]
        ends = accumulate(len(undecided[each].columns) for each in waiting)
        fitting = sum(end <= limit for end in ends)
        return waiting[: max(1, fitting)]

    @rule()
    def look_up_again(self) -> None:
        self.worker.look_up_again()
        self.forget_look_ups()

    @rule(limit=st.integers(0, 4))
    def report_again(self, limit: int) -> None:
        """A report may be lost: then all bundles up to the last one needed are reported again."""
        undecided = [*self.worker.replica.undecided]
        lost = [each for each in undecided[:limit] if each < self.looked_up_before]
        lost = [each for each in lost if each not in self.again]
        assert self.worker.report_again(limit) == len(lost)
        if lost:
            self.again = {each for each in undecided if each <= max(*lost, *self.again, 0)}

    @rule()
    def begin(self) -> None:
        self.forget_look_ups()
        for offset in range(self.worker.begin(len(self.log)), len(self.log)):
            self.worker.read(offset, self.log[offset], 0)

    @rule(partition=st.sampled_from(OWNED), rows=ROWS)
    def raw(self, partition: int, rows: list[tuple[bytes, bool]]) -> None:
        first = self.raw_end[partition]
        count = len(rows)
        columns = without_some(read_as(rows, first))
        self.raw_end[partition] += count
        batch = RawBatch(["r"] * count, range(first, first + count), columns, first + count - 1)
        self.worker.shards[partition].stream.add(batch)

    @rule(documents=st.integers(1, 5), count=st.integers(1, 3))
    def send(self, documents: int, count: int) -> None:
        for _ in range(count):
            made = self.worker.bundle(BundleLimit(documents, 1 << 20))
            if made is None:
                return
            assert 0 < len(made) <= documents
            assert len({segment.chain for segment in made.segments}) == len(made.segments)
            self.append(made)

    @rule(limit=st.integers(1, 4), positions=st.booleans(), lost=st.booleans())
    def commit(self, limit: int, positions: bool, lost: bool) -> None:
        expected = self.ready_from_scratch(limit, positions=positions)
        ready = self.worker.ready(limit, positions=positions)
        assert [comparable(each) for each in ready] == [comparable(each) for each in expected]
        for each in [] if lost else ready:
            self.stores[each.partition].write(each.ready)
            self.worker.committed(each)

    @rule(positions=st.booleans())
    def settle(self, positions: bool) -> None:
        self.send(1_000, 1)
        self.commit(1_000, positions=False, lost=False)
        self.decide(1_000, removes=False)
        self.commit(1_000, positions=positions, lost=False)

    def ready_from_scratch(self, limit: int, *, positions: bool) -> list[ShardReady[str]]:
        replica = self.worker.replica
        ready: list[ShardReady[str]] = []
        for partition, shard in sorted(self.worker.shards.items()):
            stream = shard.stream
            out = stream.ready(limit, replica.expired, self.in_log_to(stream.chain))
            progress = stream.progress(out, replica)
            has_moved = positions and progress != stream.committed
            if shard.in_session and (out.next > stream.next or out.removed or has_moved):
                ready.append(ShardReady(partition, out, progress))
        return ready

    def in_log_to(self, chain: Chain) -> int:
        """Return the last raw offset of an undecided packet, by a pass over all of them."""
        assert self.worker.caught_up
        own = self.segments_of(chain)
        return max((segment.last for _, segment in own), default=NO_OFFSET)

    # ---- its state

    @invariant()
    def next_is_first(self) -> None:
        """The next bundle of the log, and of each chain, is the first undecided one."""
        undecided = self.worker.replica.undecided
        offsets = sorted(undecided)
        assert [*undecided] == offsets
        assert undecided.first == next(iter(offsets), None)
        for start in (0, len(self.log) // 2, len(self.log)):
            assert [*undecided.starting_at(start)] == [each for each in offsets if each >= start]
        for known in map(chain, OWNED):
            own = self.segments_of(known)
            expected = self.expected_head(known, [segment for _, segment in own])
            assert undecided.first_of(known) == next((offset for offset, _ in own), None)
            assert undecided.head_of(known, self.heads.get(known, NO_OFFSET)) == expected
            assert undecided.last_of(known) == self.in_log_to(known)

    @invariant()
    def heads_are_those_of_the_latest_record(self) -> None:
        replica = self.worker.replica
        latest = replica.latest
        if latest is None or latest.next < replica.start:
            assert replica.heads is None
            return
        assert replica.heads is not None
        assert replica.heads.columns() == latest.heads
        assert replica.heads.partitions == {known.partition for known in latest.heads.chains}

    @invariant()
    def streams_know_their_heads(self) -> None:
        if self.worker.replica.heads is not None:
            for shard in self.worker.shards.values():
                assert shard.stream.head == self.worker.replica.heads.last(shard.stream.chain)

    @invariant()
    def views_are_those_of_a_pass_over_all(self) -> None:
        """The next look-up has the same view as after a pass over all undecided bundles."""
        replica = self.worker.replica
        if replica.heads is None or len(self.log) % 3:
            return  # a view goes through all bundles, so only check it after several records
        begun = UndecidedRemovals(replaces=self.replaces)
        begun.begin(replica)
        kept = self.worker._reporter._removals
        before: dict[bytes, int] = {}
        for offset, names in removing(replica, replaces=self.replaces)[:5]:
            for each in (kept, begun):
                assert seen_before(each, offset) == before
                assert each.of(offset) == names
            for name, rows in names.items():
                before.setdefault(name, sequence_number(offset, rows[0]))

    @invariant()
    def nothing_is_left_to_send_unnoticed(self) -> None:
        news = self.worker.held.news.to_send
        for partition, shard in self.worker.shards.items():
            if partition not in news:
                assert shard.stream.next_packet(self.worker.replica) is None


def seen_before(removals: UndecidedRemovals, offset: int) -> dict[bytes, int]:
    first = sequence_number(offset, 0)
    return {name: at for name, at in removals.through(offset).items() if at < first}


def comparable(ready: ShardReady[str]) -> tuple[object, ...]:
    """Return the ready outputs without objects that are only compared by identity."""
    outputs, entries, *others = ready.ready
    new = [(each.log_offset, each.rows.tolist()) for each in entries]
    verdicts = [(each.record, str(type(each.verdict))) for each in outputs]
    return ready.partition, verdicts, new, others, ready.progress


TestReading = Reading.TestCase
TestReading.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
