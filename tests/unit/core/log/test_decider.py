"""The leader: it decides in the order of the log, once all shards have reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from simhash_core.errors import ProtocolError
from simhash_core.index.prints import prints_of
from simhash_core.log import unique_documents
from simhash_core.log.decider import Decider
from simhash_core.log.records import (
    Chain,
    ChainHeads,
    Control,
    Decision,
    LogRecord,
    Query,
    Removal,
    sequence_number,
)
from simhash_core.log.replica import Replica
from simhash_core.log.unique_documents import RecentUniques
from simhash_core.verdicts import Match
from tests.unit.core.log.made_to_order import (
    FAR,
    NEARNESS,
    A,
    Made,
    bundle,
    bundle_of,
    chain,
    columns_of,
    control,
    flipped,
    found,
    packet,
    present,
    report,
)

MANY = 100


class Led:
    """A leader with the log that it appends to and reads back."""

    def __init__(self, *heads: tuple[Chain, int]) -> None:
        """``heads`` are those of an earlier leader."""
        self.replica = Replica(0, -1)
        self.decider = Decider("leader.2", NEARNESS)
        self.log: list[LogRecord] = []
        self.began = -1
        self.append(control(-1, heads=heads, leads=True))

    def append(self, record: LogRecord) -> int:
        offset = len(self.log)
        self.log.append(record)
        accepted = self.replica.read(offset, record)
        if accepted is not None:
            self.decider.accepted(accepted)
        elif isinstance(record, Control):
            self.decider.refused(record, self.replica)
        return offset

    def begin(self) -> None:
        self.began = self.append(present(self.decider.first_record(self.replica)))
        self.decider.appended(self.began)

    def report(
        self,
        shards: list[int],
        offset: int,
        *matches: Match,
        at: int | None = None,
        held: Sequence[Removal] = (),
    ) -> None:
        """``at`` is the control record that the shards had applied, usually the term's first."""
        control_at = self.began if at is None else at
        self.decider.report(report(shards, offset, control_at, matches, held))

    def decide(self, limit: int = MANY) -> Control | None:
        """Let the leader decide; append and read its record."""
        record = self.decider.decide(self.replica, limit)
        if record is not None:
            self.decider.appended(self.append(record))
        return record

    def decides(self, limit: int = MANY) -> list[int]:
        return [each.offset for each in present(self.decide(limit)).decisions]

    def matches(self) -> list[tuple[int, int | None]]:
        """Decide the next bundle; return its duplicate rows with their originals' numbers."""
        return [(each.row, each.sequence) for each in self.decision().matches]

    def decision(self) -> Decision:
        (decision,) = present(self.decide(1)).decisions
        return decision


@pytest.fixture
def led() -> Led:
    led = Led()
    led.begin()
    return led


def test_term_begins_when_its_first_record_is_read() -> None:
    led = Led((chain(0), 4))
    first = present(led.decider.first_record(led.replica))
    assert (first.previous, first.leads, first.decisions) == (0, True, [])
    assert led.decider.first_record(led.replica) is None
    before = led.decider.leads
    led.decider.appended(led.append(first))
    assert [before, led.decider.leads] == [False, True]
    assert led.decider.shards == {0}
    assert led.decide() is None


def test_bundle_waits_for_all_shards() -> None:
    led = Led((chain(0), -1), (chain(1), 4))
    sent, later = led.append(bundle_of(FAR[:1])), led.append(bundle_of(FAR[1:2], 0))
    led.begin()
    led.report([0, 1], later)
    assert led.decide() is None
    led.report([0], sent)
    assert led.decider.waits_for(led.replica) == {1}
    assert led.decide() is None
    led.report([1], sent)
    record = present(led.decide())
    assert [each.offset for each in record.decisions] == [sent, later]
    assert [*record.heads.items()] == [(chain(0), 1), (chain(1), 4)]
    assert record.next == later + 1
    assert led.decider.waits_for(led.replica) == set()


def test_first_bundle_of_a_shard_needs_no_report_of_it(led: Led) -> None:
    led.append(bundle_of(FAR[:1]))
    assert led.matches() == []
    second = led.append(bundle_of(FAR[1:2], partition=1))
    assert led.decide() is None
    led.report([0], second)
    assert led.matches() == []
    assert led.decider.shards == {0, 1}


B = FAR[15].fingerprint
HI, TEXT = Made(b"", b"hi"), Made(b"", b"text")
SOME_COUNT = bundle(
    packet([Made(A), TEXT]),  # rows 0 and 1
    packet([Made(B), Made(A), HI, TEXT], 5, 1),  # rows 2 to 5: does not count
    packet([Made(flipped(B, 0)), Made(flipped(A, 0)), HI, HI, TEXT], partition=2),  # from row 6 on
)


def test_packets_of_a_bundle_count_each_by_itself(led: Led) -> None:
    """A document of a packet that does not count is neither a duplicate nor an original."""
    asked = led.append(SOME_COUNT)
    later = led.append(bundle_of([Made(A), HI, Made(B)], 4, 2))
    led.report([1], asked, found(3, 0, 77))
    record = present(led.decide(1))
    (decision,) = record.decisions
    assert decision.skipped == [1]
    originals = {each.row: each.sequence - sequence_number(asked, 0) for each in decision.matches}
    assert originals == {7: 0, 9: 8, 10: 1}
    assert [each.source.partition for each in decision.matches] == [0, 2, 0]
    assert record.heads == ChainHeads.of([(chain(0), 1), (chain(2), 4)])
    assert led.decider.shards == {0, 2}

    assert led.decide() is None
    led.report([0, 2], later)
    assert led.matches() == [(row, sequence_number(asked, of)) for row, of in enumerate((0, 8, 6))]


def named(name: bytes, number: int, *, is_delete: bool = False) -> Made:
    return FAR[number]._replace(name=name, is_delete=is_delete)


def test_rows_remove_entries_of_other_packets_of_their_bundle(led: Led) -> None:
    """They do not remove those of a packet that does not count, or that comes later."""
    delete = named(b"a", 0, is_delete=True)
    log = [
        bundle_of([named(b"a", 1), named(b"b", 2)]),
        bundle(
            packet([named(b"a", 3)], partition=2),  # row 0
            packet([delete], 5, 1),  # row 1: does not count
            packet([named(b"b", 4), delete], 1),  # rows 2 and 3
            packet([named(b"a", 5)], partition=3),  # row 4
        ),
        bundle_of([named(b"x", number) for number in range(1, 6)], partition=4),
    ]
    first, asked, later = map(led.append, log)
    assert led.matches() == []
    led.report([0], asked, held=[Removal(3, 0, 4)])
    recent, own = sequence_number(first, 0), sequence_number(asked, 0)
    decision = led.decision()
    assert decision.skipped == [1]
    assert decision.removals == [Removal(3, 0, 4), Removal(3, 0, recent), Removal(3, 2, own)]
    led.report([0, 2, 3], later)
    assert led.matches() == [(1, recent + 1), (3, own + 2), (4, own + 4)]


def test_nearest_wins_and_of_equals_the_earliest() -> None:
    led = Led((chain(0), -1), (chain(1), 0))
    led.begin()
    recent = led.append(bundle_of([Made(flipped(A, 1, 2))]))
    led.report([0, 1], recent)
    asked = led.append(bundle_of([Made(A)] * 4, 0))
    assert led.matches() == []
    number = sequence_number(recent, 0)
    elsewhere = [found(0, 3, 5), found(1, 2, number + 1), found(2, 2, number - 1), found(3, 1, 99)]
    led.report([1], asked, *elsewhere)
    led.report([0], asked, found(0, 3, 4))
    assert led.matches() == [(0, number), (1, number), (2, number - 1), (3, 99)]


def test_query_is_answered_and_not_kept(led: Led) -> None:
    led.append(Query("q", 3, columns_of([Made(A)])))
    assert present(present(led.decide()).decisions[0].answer).match is None
    first = led.append(bundle_of([Made(A)]))
    again = led.append(Query("r", 3, columns_of([Made(A)])))
    assert led.matches() == []
    led.report([0], again)
    answer = present(present(led.decide()).decisions[0].answer)
    assert present(answer.match).sequence == sequence_number(first, 0)


def test_one_record_is_on_its_way_at_a_time(led: Led) -> None:
    led.append(bundle_of(FAR[:1]))
    assert led.decider.decide(led.replica, MANY) is not None
    assert led.decider.decide(led.replica, MANY) is None
    led.decider.appended(9)
    with pytest.raises(ProtocolError):
        led.decider.appended(10)


@pytest.mark.parametrize(
    ("limit", "size", "bundles"),
    [(2, 1, [2, 1]), (7, 3, [2, 1]), (MANY, 3_000, [1, 1])],
    ids=["as many documents as it may", "whole bundles", "one bundle at least"],
)
def test_a_record_decides_no_more_than_it_may(
    led: Led, limit: int, size: int, bundles: list[int]
) -> None:
    far = [Made(b"", b"%d" % number) for number in range(size)]
    offsets = [led.append(bundle_of(far, size * n - 1)) for n in range(sum(bundles))]
    for offset in offsets:
        led.report([0], offset)
    decided = [led.decides(limit) for _ in bundles]
    assert [len(each) for each in decided] == bundles
    assert [offset for each in decided for offset in each] == offsets


@pytest.mark.parametrize("leads", [True, False])
def test_a_record_of_another_leader_or_a_wrong_link_ends_the_term(led: Led, leads: bool) -> None:
    led.append(bundle_of(FAR[:1]))
    repeat = led.append(present(led.decide()))
    assert led.decider.leads, "a repeat does no harm"
    if leads:
        led.append(control(repeat - 1, leader="other.1", leads=leads))
    else:
        led.append(control(repeat, leader="leader.2", following=4))
    assert led.decider.succeeded
    assert led.decider.decide(led.replica, MANY) is None
    early = Led()
    early.append(control(0, leader="other.1", leads=True))
    assert not early.decider.succeeded, "its first record was not asked for yet"


# ---------------------------------------------------------------- recent unique documents


@pytest.fixture
def recent() -> RecentUniques:
    return RecentUniques(NEARNESS.scheme)


def near(recent: RecentUniques, document: Made) -> list[tuple[int, int]]:
    """Return distances and sequence numbers of the documents near ``document``."""
    return [each[1:] for each in recent.near(prints_of(NEARNESS.scheme, columns_of([document])))]


def kept(recent: RecentUniques, documents: range) -> list[int]:
    return [number for number in documents if near(recent, FAR[number])]


def test_document_is_kept_until_its_record_is_known(recent: RecentUniques) -> None:
    """A document without an appended record is never forgotten."""
    recent.add(6, bundle_of([FAR[1], FAR[2]]), np.array([1]))
    assert near(recent, FAR[1]) == []
    assert near(recent, Made(flipped(FAR[2].fingerprint, 0, 9))) == [(2, sequence_number(6, 1))]
    for offset, record in ((7, 20), (8, 30)):
        recent.add(offset, bundle_of([FAR[offset]]), np.arange(1))
        recent.appended(record)
    recent.add(9, bundle_of([FAR[9]]), np.arange(1))
    for through, left in ((19, [7, 8, 9]), (20, [8, 9]), (1_000, [9])):
        recent.forget_through(through)
        assert kept(recent, range(7, 10)) == left


def test_rebuilt_index_holds_what_is_left(
    monkeypatch: pytest.MonkeyPatch, recent: RecentUniques
) -> None:
    monkeypatch.setattr(unique_documents, "_FORGOTTEN_LIMIT", 2)
    for offset in range(10):
        recent.add(offset, bundle_of([FAR[offset], Made(b"", b"%d" % offset)]), np.arange(2))
        recent.appended(100 + offset)
    contents = [bundle_of([Made(b"", text)]).columns.digest(0) for text in (b"7", b"9", b"10")]
    before = [recent.by_content(each) for each in contents]
    assert before == [[sequence_number(7, 1)], [sequence_number(9, 1)], []]
    recent.forget_through(107)
    assert kept(recent, range(10)) == [8, 9]
    assert [recent.by_content(each) for each in contents] == [[], before[1], []]
