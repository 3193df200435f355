"""What readers of the log conclude: which records count, and what is undecided."""

from __future__ import annotations

import pytest

from simhash_core.log.records import NO_CONTROL, NO_OFFSET, Decision
from simhash_core.log.replica import Replica, Undecided
from tests.unit.core.log.log_of_records import (
    BEGINS,
    FAR,
    bundle,
    bundle_of,
    chain,
    control,
    packet,
    present,
    replica_of,
)


def test_verdict_counts_when_its_record_is_read() -> None:
    sent = bundle_of(FAR[:1])
    replica, accepted = replica_of([BEGINS, sent])
    assert replica.undecided == {1: sent}
    assert accepted[1] is None
    found = present(replica.read(2, control(0, [Decision(1, [])])))
    assert [(each.offset, each.item) for each in found.decided] == [(1, sent)]
    assert replica.undecided == {}
    assert replica.decided_before == 2


def test_record_of_a_succeeded_leader_is_not_accepted() -> None:
    replica, accepted = replica_of(
        [
            control(NO_CONTROL, leader="a.1", leads=True),
            bundle_of(FAR[:1]),
            control(0, leader="b.1", leads=True),
            control(0, [Decision(1, [])], leader="a.1"),
            control(3, leader="a.1"),
        ]
    )
    assert [each is not None for each in accepted] == [True, False, True, False, False]
    assert replica.control == 2
    assert [*replica.undecided] == [1]


def test_repeated_record_is_accepted_once() -> None:
    decision = control(0, [Decision(1, [])])
    _, accepted = replica_of([BEGINS, bundle_of(FAR[:1]), decision, decision])
    assert [each is not None for each in accepted] == [True, False, True, False]


def test_reading_begins_with_the_record_in_force() -> None:
    replica = Replica(position=9, control=5)
    assert replica.start == replica.position == 5
    assert replica.read(5, control(2, following=4)) is not None
    assert replica.read(6, bundle_of(FAR[:1])) is None
    assert replica.read(7, control(3)) is None
    assert replica.read(8, control(5, [Decision(4, []), Decision(6, [])])) is not None
    assert replica.undecided == {}
    assert replica.control == 8


def test_what_was_decided_before_is_not_decided_here() -> None:
    replica = Replica(position=6, control=5)
    replica.read(5, control(2))
    found = present(replica.read(6, control(5, [Decision(3, [])])))
    assert found.decided == []
    assert found.control.next == 4


@pytest.mark.parametrize(("position", "expected"), [(0, -1), (1, 0), (3, 0), (4, 3), (9, 3)])
def test_control_record_before_a_position(position: int, expected: int) -> None:
    replica, _ = replica_of(
        [control(NO_CONTROL), bundle_of(FAR[:1]), control(7), control(0, [Decision(1, [])])]
    )
    assert replica.control_before(position) == expected


def test_forgotten_records_are_those_that_nothing_needs() -> None:
    replica, _ = replica_of([control(n - 1) for n in range(6)])
    replica.forget_before(4)
    assert [replica.control_before(position) for position in (4, 5, 6)] == [3, 4, 5]


def test_foreign_record_is_passed_over() -> None:
    replica, _ = replica_of([control(NO_CONTROL)])
    replica.skip(1)
    assert replica.position == 2
    assert replica.read(2, control(0)) is not None


def test_the_next_undecided_is_known_whatever_was_decided() -> None:
    undecided = Undecided()
    sent = bundle_of(FAR[:1])
    for offset in range(5_000):
        undecided.add(offset, sent)
        if offset % 2:
            assert undecided.pop(offset // 2) is sent
            assert undecided.first == offset // 2 + 1
    assert len(undecided) == 2_500
    assert [*undecided] == [*range(2_500, 5_000)]
    assert [*undecided.starting_at(4_998)] == [4_998, 4_999]
    assert undecided.pop(0) is None


def test_undecided_packets_of_some_chains_are_known() -> None:
    """Packets of other chains are in the bundles too: nobody looks for them by chain here."""
    undecided = Undecided({chain(0), chain(1)})
    records = [
        bundle(packet(FAR[:2]), packet(FAR[:3], 5, 2)),
        bundle(packet(FAR[:1], 1, 1), packet(FAR[:4], 1), packet(FAR[:1], 8, 2)),
        bundle(packet(FAR[:1], 1), packet(FAR[:1], partition=1)),
    ]
    for offset, record in enumerate(records, 7):
        undecided.add(offset, record)

    def known() -> list[tuple[int | None, int, int]]:
        chains = map(chain, range(3))
        return [(undecided.first_of(c), undecided.last_of(c), undecided.head_of(c)) for c in chains]

    assert known() == [(7, 5, 5), (8, 2, 0), (None, NO_OFFSET, NO_OFFSET)]
    assert undecided.head_of(chain(2), 5) == 5
    undecided.pop(8)
    assert known()[:2] == [(7, 2, 2), (9, 0, 0)]
    undecided.pop(9)
    assert known()[:2] == [(7, 1, 1), (None, NO_OFFSET, NO_OFFSET)]


def test_heads_advance_by_the_packets_that_count() -> None:
    replica, _ = replica_of([control(NO_CONTROL, leads=True, heads=[(chain(0), 4)])])
    replica.read(1, bundle(packet(FAR[:2]), packet(FAR[:3], partition=1)))
    heads = [(chain(0), 4), (chain(1), 2)]
    accepted = present(replica.read(2, control(0, [Decision(1, [], skipped=[0])], heads=heads)))
    assert not accepted.has_heads
    assert [*present(replica.heads).columns().items()] == heads
