"""Bundles and their packets, the heads of chains, and which records count for a reader."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from msgspec.structs import replace

from simhash_core.log.records import (
    NO_CONTROL,
    NO_OFFSET,
    Decision,
    LogRecord,
    Query,
    index_of,
    item_checksum,
    log_offset_of,
    sequence_number,
    sequence_numbers,
)
from simhash_core.log.replica import Replica, Undecided
from tests.unit.core.log.made_to_order import FAR, bundle_of, chain, columns_of, control, replica_of


def test_sequence_numbers_rise_with_offset_and_row() -> None:
    last_row = (1 << 16) - 1
    numbers = [sequence_number(*each) for each in ((0, 0), (0, last_row), (1, 0), (1 << 47, 9))]
    assert numbers == sorted(set(numbers))
    assert (log_offset_of(numbers[3]), index_of(numbers[3])) == (1 << 47, 9)
    rows = np.array([0, 3])
    assert sequence_numbers(numbers[3], rows).tolist() == [numbers[3], numbers[3] + 3]


def test_record_that_decides_what_is_not_in_the_log_is_not_accepted() -> None:
    """Its leader has read a bundle at 2 that brokers have lost since."""
    lost = control(0, [Decision(1, []), Decision(2, [])])
    replica, accepted = replica_of(
        [control(NO_CONTROL), bundle_of(FAR[:1]), lost, control(0, [Decision(1, [])])]
    )
    assert [each is not None for each in accepted] == [True, False, False, True]
    assert replica.control == 3
    assert not replica.undecided
    replica.skip(4)
    assert replica.position == 5


def test_record_that_decides_another_bundle_than_is_in_the_log_is_not_accepted() -> None:
    """Its leader has read another bundle at 1, which brokers have lost since."""
    sent, other, query = bundle_of(FAR[:1]), bundle_of(FAR[:2]), Query("q", 1, columns_of(FAR[:1]))
    decisions = [Decision(1, []), Decision(2, [])]
    checksums = item_checksum(sent), item_checksum(query)
    lost = replace(control(0, decisions), checksums=(item_checksum(other), checksums[1]))
    right = replace(lost, checksums=checksums)
    replica, accepted = replica_of([control(NO_CONTROL), sent, query, lost, right])
    assert [each is not None for each in accepted] == [True, False, False, False, True]
    assert not replica.undecided


def test_a_reader_notes_that_the_control_record_in_force_is_not_there() -> None:
    """The log was made again, and has other records up to that offset."""
    for first, lost in ((control(NO_CONTROL), None), (bundle_of(FAR[:1]), 3)):
        replica = Replica(5, 3)
        assert replica.lost_control is None
        replica.read(3, first)
        replica.read(4, control(3))
        assert replica.lost_control == lost
    replica = Replica(5, 3)
    replica.skip(3)
    assert replica.lost_control == 3


def test_a_reader_knows_when_the_log_lacks_what_a_shard_has_committed() -> None:
    log: list[LogRecord] = [
        control(NO_CONTROL),
        bundle_of(FAR[:1]),
        control(0, [Decision(1, [])]),
    ]
    whole, _ = replica_of(log)
    for position, latest_entry in ((2, 1), (3, 1), (3, 2), (0, NO_OFFSET)):
        assert not whole.lacks_committed(position, latest_entry)
    assert whole.lacks_committed(4, 1)
    assert whole.lacks_committed(3, 3)
    cut, _ = replica_of(log[:2])
    assert not cut.lacks_committed(1, NO_OFFSET)
    assert cut.lacks_committed(2, NO_OFFSET)
    assert cut.lacks_committed(1, 1)


def test_a_log_that_ends_behind_the_control_record_in_force_lacks_later_ones() -> None:
    replica = Replica(7, 5)
    replica.read(5, control(NO_CONTROL, following=3))
    replica.read(6, control(5, following=3))
    assert replica.lacks_committed(7, NO_OFFSET)


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


ENDS = st.integers(0, 4)


@given(st.lists(st.tuples(st.integers(0, 1), ENDS, ENDS) | st.integers(0, 9), max_size=20))
def test_the_undecided_packets_of_a_chain_are_known(
    steps: list[tuple[int, int, int] | int],
) -> None:
    """A step is a packet of a partition with its previous and last offset, or a decision."""
    undecided = Undecided({chain(1)})
    known: dict[int, tuple[int, int]] = {}
    for offset, step in enumerate(steps):
        if isinstance(step, int):
            undecided.pop(step)
            known.pop(step, None)
        else:
            partition, previous, documents = step
            undecided.add(offset, bundle_of(FAR[:documents], previous, partition))
            if partition == 1:
                known[offset] = previous, previous + documents
        assert undecided.first_of(chain(1)) == next(iter(known), None)
        assert undecided.last_of(chain(1)) == max((e for _, e in known.values()), default=NO_OFFSET)
        head = 0
        for before, last in known.values():
            head = last if before == head else head
        assert undecided.head_of(chain(1), 0) == head
        assert undecided.last_of(chain(0)) == NO_OFFSET
