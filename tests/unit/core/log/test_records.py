"""Bundles and their packets, the heads of chains, and which records count for a reader."""

from __future__ import annotations

import numpy as np

from simhash_core.documents import SourcePosition
from simhash_core.log.records import (
    NO_CONTROL,
    NO_OFFSET,
    ChainHeads,
    Decision,
    Heads,
    Sender,
    entry_of,
    index_of,
    log_offset_of,
    sequence_number,
    sequence_numbers,
)
from simhash_core.log.replica import Replica, Undecided
from tests.unit.core.log.made_to_order import (
    FAR,
    bundle,
    bundle_of,
    chain,
    control,
    packet,
    replica_of,
)


def test_sequence_numbers_rise_with_offset_and_row() -> None:
    last_row = (1 << 16) - 1
    numbers = [sequence_number(*each) for each in ((0, 0), (0, last_row), (1, 0), (1 << 47, 9))]
    assert numbers == sorted(set(numbers))
    assert (log_offset_of(numbers[3]), index_of(numbers[3])) == (1 << 47, 9)
    rows = np.array([0, 3])
    assert sequence_numbers(numbers[3], rows).tolist() == [numbers[3], numbers[3] + 3]


def test_packets_come_back_out_of_their_bundle() -> None:
    sizes = {4: 2, 0: 1, 7: 3}
    packets = [
        packet(FAR[:size], 10 * partition, partition, Sender("worker", number))
        for number, (partition, size) in enumerate(sizes.items())
    ]
    joined = bundle(*packets)
    assert (len(joined), joined.worker) == (6, "worker")
    for made, first, again in zip(packets, (0, 2, 3), joined.packets(), strict=True):
        assert (again.chain, again.sender) == (made.chain, made.sender)
        assert (again.previous, again.last, again.first) == (made.previous, made.last, first)
        assert [*again.columns.ids] == [*made.columns.ids]
        for row in range(len(made)):
            source = SourcePosition("raw", made.chain.partition, made.previous + 1 + row)
            assert again.source(row) == joined.source(first + row) == source
            assert entry_of(again, row) == entry_of(joined, first + row) == entry_of(made, row)
    assert [each.first for each in (joined.packet(2), joined)] == [3, 0]


def test_rows_without_those_of_some_packets() -> None:
    joined = bundle(packet(FAR[:2]), packet(FAR[:1], partition=1), packet(FAR[:2], partition=2))
    rows = {skipped: joined.rows_without(skipped).tolist() for skipped in ((), (1,), (0, 2))}
    assert rows == {
        (): [True] * 5,
        (1,): [True, True, False, True, True],
        (0, 2): [False, False, True, False, False],
    }


def test_packets_of_a_bundle_count_each_by_itself() -> None:
    heads = Heads(ChainHeads.of([(chain(1), 3), (chain(2), 5)]))
    sent = bundle(
        packet(FAR[:2], 5, 2), packet(FAR[:2], 1, 1), packet(FAR[:1]), packet(FAR[:1], 0, 5)
    )
    assert heads.take(sent) == [1, 3]
    after = [(chain(0), 0), (chain(1), 3), (chain(2), 7)]
    before, again = ChainHeads.of(after), heads.columns()
    assert [*again.items()] == after
    assert heads.take(sent) == [0, 1, 2, 3]
    assert heads.columns() == ChainHeads.of(reversed(after))
    assert heads.take(bundle(packet(FAR[:1], 0), packet(FAR[:1], 3, 1))) == []
    assert again == before, "columns of heads do not change with them"


def test_chains_are_apart() -> None:
    again = chain(1)._replace(topic_id="second")
    heads = Heads(ChainHeads.of([(chain(1), 7), (chain(0), 3), (again, 2)]))
    assert [heads.last(each) for each in (chain(0), chain(1), again)] == [3, 7, 2]
    assert heads.last(chain(2)) == NO_OFFSET
    assert heads.partitions == {0, 1}
    assert [*heads.columns().items()] == [(chain(0), 3), (chain(1), 7), (again, 2)]


def test_record_of_a_succeeded_leader_is_not_accepted() -> None:
    replica, accepted = replica_of(
        [
            control(NO_CONTROL, leader="a.1", leads=True),
            bundle_of(FAR[:1]),
            control(0, leader="b.1", leads=True),
            control(0, [Decision(1, [])], leader="a.1"),
            control(3, leader="a.1"),
            control(0, leader="b.1", leads=True),  # appended twice
        ]
    )
    assert [each is not None for each in accepted] == [True, False, True, False, False, False]
    assert replica.control == 2
    assert [*replica.undecided] == [1]


def test_record_that_decides_what_is_not_in_the_log_is_not_accepted() -> None:
    """Its leader has read a bundle at 2 that brokers have lost since."""
    lost = control(0, [Decision(1, []), Decision(2, [])])
    replica, accepted = replica_of(
        [control(NO_CONTROL), bundle_of(FAR[:1]), lost, control(0, [Decision(1, [])])]
    )
    assert [each is not None for each in accepted] == [True, False, False, True]
    assert replica.control == 3
    assert not replica.undecided


def test_reading_begins_with_the_record_in_force() -> None:
    replica = Replica(position=9, control=5)
    assert replica.start == replica.position == 5
    assert replica.read(5, control(2, following=4)) is not None
    assert replica.read(6, bundle_of(FAR[:1])) is None
    assert replica.read(7, control(3)) is None
    assert replica.read(8, control(5, [Decision(4, []), Decision(6, [])])) is not None
    assert replica.undecided == {}
    assert replica.control == 8


def test_control_record_before_a_position() -> None:
    """Control records before the needed position are forgotten, and no others."""
    replica, _ = replica_of(
        [control(NO_CONTROL), bundle_of(FAR[:1]), control(7), control(0, [Decision(1, [])])]
    )
    assert [replica.control_before(each) for each in (0, 1, 3, 4, 9)] == [NO_CONTROL, 0, 0, 3, 3]
    for offset in (4, 5):
        replica.read(offset, control(offset - 1))
    replica.forget_before(4)
    assert [replica.control_before(each) for each in (4, 5, 6)] == [3, 4, 5]


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
