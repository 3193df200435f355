"""What a worker keeps in step as it reads the log is what it would compute from all of it.

A worker reads packets, queries and control records in any order that a log may have, reports bit by
bit, begins new sessions and commits. After each step, what it knows of the undecided is compared
with a pass over all of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from simhash_core.document_columns import DocumentColumns
from simhash_core.index.look_up import Nearness
from simhash_core.log.local_decider import MemoryEntries
from simhash_core.log.participant import Participant, ShardReady
from simhash_core.log.records import (
    NO_CONTROL,
    NO_OFFSET,
    Chain,
    Control,
    Decision,
    Heads,
    LogRecord,
    Packet,
    PacketReport,
    Progress,
    Query,
    Removal,
    sequence_number,
)
from simhash_core.log.removals import UndecidedRemovals, removing_rows
from simhash_core.log.replica import Replica
from simhash_core.log.shard_stream import RawBatch
from tests.unit.core.log.log_of_records import FAR, NEARNESS, chain
from tests.unit.core.log.log_of_records import packet as packet_of
from tests.unit.core.log.made_to_order import columns_of

OWNED = (1, 2)
PARTITIONS = (1, 2, 3)
NAMES = st.sampled_from([b"a", b"b", b"c", b"d"])
ROWS = st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=3)


def read_as(rows: list[tuple[bytes, bool]], first: int) -> DocumentColumns:
    """Columns of documents with these ids; True: it is a delete."""
    made = [
        far._replace(name=name, is_delete=is_delete)
        for far, (name, is_delete) in zip(FAR, rows, strict=False)
    ]
    return columns_of(made, first)


def without_some(columns: DocumentColumns) -> DocumentColumns:
    """The documents of records of which each fourth is none, as this worker reads them."""
    return columns.take(np.flatnonzero(columns.offsets % 4 != 3))


def removed_before(replica: Replica, offset: int, *, replaces: bool) -> dict[bytes, int]:
    """The ids that undecided packets before an offset take out, by a pass over all of them."""
    assert replica.heads is not None
    heads = Heads(replica.heads.items())
    removed: dict[bytes, int] = {}
    for at, item in replica.undecided.items():
        if at < offset and isinstance(item, Packet) and heads.counts(item):
            heads.advance(item)
            for name, rows in removing_rows(item.columns, replaces=replaces).items():
                removed.setdefault(name, sequence_number(at, rows[0]))
    return removed


class Reading(RuleBasedStateMachine):
    """One worker with two of three shards, and the log that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[LogRecord] = []
        self.heads: dict[Chain, int] = {}
        self.decided_before = 0
        self.control = NO_CONTROL
        self.undecided: dict[int, Packet | Query] = {}
        self.looked_up: set[int] = set()
        self.unique: list[tuple[int, int]] = []
        self.terms = 0
        self.raw_end = dict.fromkeys(OWNED, 0)

    @initialize(replaces=st.booleans())
    def start(self, replaces: bool) -> None:
        self.replaces = replaces
        nearness = Nearness(NEARNESS.scheme, None, replaces=replaces)
        self.worker: Participant[str] = Participant("worker", nearness)
        self.stores = {partition: MemoryEntries() for partition in OWNED}
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

    @rule(rows=ROWS, partition=st.sampled_from(PARTITIONS), guess=st.sampled_from([0, 0, 0, 1, -1]))
    def packet(self, rows: list[tuple[bytes, bool]], partition: int, guess: int) -> None:
        head = self.heads.get(chain(partition), NO_OFFSET)
        for item in self.undecided.values():
            if isinstance(item, Packet) and item.chain == chain(partition):
                head = item.last if item.previous == head else head
        previous = max(NO_OFFSET, head + guess)
        made = packet_of(FAR[: len(rows)], previous, partition)
        self.append(replace(made, columns=read_as(rows, previous + 1)))

    @rule()
    def query(self) -> None:
        self.append(Query("q", 1, columns_of(FAR[:1])))

    @rule(count=st.integers(1, 5), removes=st.booleans())
    def decide(self, count: int, removes: bool) -> None:
        """The leader decides the next packets, as it must; what it takes out is anything unique."""
        decisions = []
        for offset in [*self.undecided][:count]:
            item = self.undecided.pop(offset)
            decisions.append(self.decision(offset, item, removes=removes))
            self.decided_before = offset + 1
        self.append_control(decisions, leads=False)

    def decision(self, offset: int, item: Packet | Query, *, removes: bool) -> Decision:
        if isinstance(item, Query):
            return Decision(offset, [])
        if not Heads(self.heads.items()).counts(item):
            return Decision(offset, None)
        self.heads[item.chain] = item.last
        removals = []
        if removes and self.unique:
            partition, sequence = self.unique.pop(0)
            removals.append(Removal(0, partition, sequence))
        documents = np.flatnonzero(item.columns.are_documents).tolist()
        numbers = [sequence_number(offset, row) for row in documents]
        self.unique += [(item.chain.partition, number) for number in numbers]
        return Decision(offset, [], None, removals)

    @rule()
    def new_leader(self) -> None:
        self.terms += 1
        self.append_control([], leads=True)

    @rule()
    def told_heads(self) -> None:
        """A command tells heads that follow from nothing: a shard was loaded."""
        head = self.heads.get(chain(9), 0)
        self.heads[chain(9)] = head + 5
        self.append_control([], leads=True)

    @rule()
    def refused(self) -> None:
        """A leader that was succeeded appends a record that nobody heeds."""
        self.append(Control(self.control - 1, "old.1", False, [], [], 0))

    def append_control(self, decisions: list[Decision], *, leads: bool) -> None:
        heads = sorted(self.heads.items())
        leader = f"leader.{self.terms}"
        record = Control(self.control, leader, leads, decisions, heads, self.decided_before)
        self.control = self.append(record)
        if leads:
            self.looked_up.clear()

    # ---- the worker

    @rule(limit=st.integers(1, 4))
    def report(self, limit: int) -> None:
        waiting = [offset for offset in self.worker.replica.undecided if offset in self.to_look_up]
        report = self.worker.report(limit)
        found: list[PacketReport] = [] if report is None else report.packets
        known = self.worker.replica.heads is not None
        assert sorted(each.offset for each in found) == (waiting[:limit] if known else [])
        self.looked_up |= {each.offset for each in found}

    @property
    def to_look_up(self) -> set[int]:
        return {*self.worker.replica.undecided} - self.looked_up

    @rule()
    def look_up_again(self) -> None:
        """A report was lost."""
        self.worker.look_up_again()
        self.looked_up.clear()

    @rule(limit=st.integers(0, 4))
    def report_again(self, limit: int) -> None:
        """A report may be lost."""
        oldest = [*self.worker.replica.undecided][:limit]
        assert self.worker.report_again(limit) == len(self.looked_up.intersection(oldest))
        self.looked_up.difference_update(oldest)

    @rule()
    def begin(self) -> None:
        self.looked_up.clear()
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

    @rule(limit=st.integers(1, 3))
    def send(self, limit: int) -> None:
        for _, packet in zip(range(limit), self.worker.packets(), strict=False):
            self.append(packet)

    @rule(limit=st.integers(1, 4), positions=st.booleans(), lost=st.booleans())
    def commit(self, limit: int, positions: bool, lost: bool) -> None:
        """The worker commits what is ready, or is refused."""
        expected = self.ready_from_scratch(limit, positions=positions)
        ready = self.worker.ready(limit, positions=positions)
        assert [comparable(each) for each in ready] == [comparable(each) for each in expected]
        for each in [] if lost else ready:
            for entries in each.ready.entries:
                self.stores[each.partition].add(entries)
            self.stores[each.partition].remove(each.ready.removed)
            self.worker.committed(each)

    @rule(positions=st.booleans())
    def settle(self, positions: bool) -> None:
        """All that waits is sent, decided and committed."""
        self.send(1_000)
        self.commit(1_000, positions=False, lost=False)
        self.decide(1_000, removes=False)
        self.commit(1_000, positions=positions, lost=False)

    def ready_from_scratch(self, limit: int, *, positions: bool) -> list[ShardReady[str]]:
        """What all shards can put out, each asked."""
        replica = self.worker.replica
        ready: list[ShardReady[str]] = []
        for partition, shard in sorted(self.worker.shards.items()):
            stream = shard.stream
            out = stream.ready(limit, replica.expired, self.in_log_to(stream.chain))
            progress = stream.progress(out.next, replica)
            has_moved = positions and progress != stream.committed
            if shard.in_session and (out.next > stream.next or out.removed or has_moved):
                ready.append(ShardReady(partition, out, progress))
        return ready

    def in_log_to(self, chain: Chain) -> int:
        """The last raw offset of an undecided packet, by a pass over all of them."""
        assert self.worker.caught_up
        packets = [each for each in self.undecided.values() if isinstance(each, Packet)]
        return max((each.last for each in packets if each.chain == chain), default=NO_OFFSET)

    # ---- what it knows

    @invariant()
    def next_is_first(self) -> None:
        """What comes next, in the whole log and in each chain, is the first that is undecided."""
        undecided = self.worker.replica.undecided
        offsets = sorted(undecided)
        assert [*undecided] == offsets
        assert undecided.first == next(iter(offsets), None)
        for start in (0, len(self.log) // 2, len(self.log)):
            assert [*undecided.starting_at(start)] == [each for each in offsets if each >= start]
        for partition in PARTITIONS:
            own = [
                (at, item)
                for at, item in undecided.items()
                if isinstance(item, Packet) and item.chain == chain(partition)
            ]
            head = self.heads.get(chain(partition), NO_OFFSET)
            expected = head
            for _, item in own:
                expected = item.last if item.previous == expected else expected
            assert undecided.first_of(chain(partition)) == next((at for at, _ in own), None)
            assert undecided.head_of(chain(partition), head) == expected

    @invariant()
    def heads_are_those_of_the_latest_record(self) -> None:
        replica = self.worker.replica
        latest = replica.latest
        if latest is None or latest.next < replica.start:
            assert replica.heads is None
            return
        assert replica.heads is not None
        assert replica.heads.items() == sorted(latest.heads)
        assert replica.heads.partitions == {known.partition for known, _ in latest.heads}

    @invariant()
    def streams_know_their_heads(self) -> None:
        """Each stream knows the head of its chain, once the worker does."""
        if self.worker.replica.heads is not None:
            for shard in self.worker.shards.values():
                assert shard.stream.head == self.worker.replica.heads.last(shard.stream.chain)

    @invariant()
    def views_are_those_of_a_pass_over_all(self) -> None:
        """What is looked up next sees what it would see after a pass over all that is undecided."""
        replica = self.worker.replica
        if replica.heads is None or len(self.log) % 3:
            return  # whoever asks goes through the packets: now and then several records come first
        begun = UndecidedRemovals(replaces=self.replaces)
        begun.begin(replica)
        kept = self.worker._reporter._removals
        for offset in [*replica.undecided][:5]:
            expected = removed_before(replica, offset, replaces=self.replaces)
            assert seen_before(kept, offset) == expected
            assert seen_before(begun, offset) == expected

    @invariant()
    def nothing_is_left_to_send_unnoticed(self) -> None:
        """A shard without news has nothing to send."""
        news = self.worker.held.news.to_send
        for partition, shard in self.worker.shards.items():
            if partition not in news:
                assert shard.stream.next_packet(self.worker.replica) is None


def seen_before(removals: UndecidedRemovals, offset: int) -> dict[bytes, int]:
    """The ids that are taken out before an offset."""
    first = sequence_number(offset, 0)
    return {name: at for name, at in removals.before(offset).items() if at < first}


def comparable(ready: ShardReady[str]) -> tuple[object, ...]:
    """What is ready, without what is compared by identity alone."""
    outputs, entries, following, removed, expired_before = ready.ready
    new = [(each.log_offset, each.rows.tolist()) for each in entries]
    verdicts = [(each.record, str(type(each.verdict))) for each in outputs]
    return ready.partition, verdicts, new, following, removed, expired_before, ready.progress


TestReading = Reading.TestCase
TestReading.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
