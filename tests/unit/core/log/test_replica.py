"""What readers of the log conclude: which control records count, and what they decide."""

from __future__ import annotations

import pytest

from simhash_core.log.records import NO_CONTROL, Decision
from simhash_core.log.replica import Replica
from tests.unit.core.log.log_of_records import FAR, control, packet, replica_of


def test_verdict_counts_when_its_record_is_read() -> None:
    sent = packet(FAR[:1])
    replica, accepted = replica_of([control(NO_CONTROL, leads=True), sent])
    assert replica.undecided == {1: sent}
    assert accepted[1] is None
    found = replica.read(2, control(0, [Decision(1, [])]))
    assert found is not None
    assert [(each.offset, each.item) for each in found.decided] == [(1, sent)]
    assert replica.undecided == {}
    assert replica.decided_before == 2


def test_record_of_a_succeeded_leader_is_not_accepted() -> None:
    replica, accepted = replica_of(
        [
            control(NO_CONTROL, leader="a.1", leads=True),
            packet(FAR[:1]),
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
    _, accepted = replica_of([control(NO_CONTROL, leads=True), packet(FAR[:1]), decision, decision])
    assert [each is not None for each in accepted] == [True, False, True, False]


def test_reading_begins_with_the_record_in_force() -> None:
    replica = Replica(position=9, control=5)
    assert replica.start == replica.position == 5
    assert replica.read(5, control(2, following=4)) is not None
    assert replica.read(6, packet(FAR[:1])) is None
    assert replica.read(7, control(3)) is None
    assert replica.read(8, control(5, [Decision(4, []), Decision(6, [])])) is not None
    assert replica.undecided == {}
    assert replica.control == 8


def test_what_was_decided_before_is_not_decided_here() -> None:
    replica = Replica(position=6, control=5)
    replica.read(5, control(2))
    found = replica.read(6, control(5, [Decision(3, [])]))
    assert found is not None
    assert found.decided == []
    assert found.control.next == 4


@pytest.mark.parametrize(("position", "expected"), [(0, -1), (1, 0), (3, 0), (4, 3), (9, 3)])
def test_control_record_before_a_position(position: int, expected: int) -> None:
    replica, _ = replica_of(
        [control(NO_CONTROL), packet(FAR[:1]), control(7), control(0, [Decision(1, [])])]
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
