"""Records of several partitions are taken by their timestamps, without waiting for idle ones."""

from __future__ import annotations

from typing import cast

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from streams.intake.raw_records import RawRecords
from streams.intake.record_order import RecordOrder
from tests.rigs.manual_clock import ManualClock

IDLE_SECONDS = 0.2
ALL = 1_000_000


class Record:
    """As much of a message as its order depends on."""

    def __init__(self, time_ms: int, size: int = 10) -> None:
        self.time_ms = time_ms
        self.size = size

    def timestamp(self) -> tuple[int, int]:
        """Its type and its time."""
        return 1, self.time_ms

    def __len__(self) -> int:
        """Return the bytes of the value."""
        return self.size


def run(partition: int, *times_ms: int, size: int = 10, start: int = 1) -> RawRecords:
    """Records of these timestamps."""
    messages = cast("list[Message]", [Record(each, size) for each in times_ms])
    return RawRecords(partition, start, messages, size * len(times_ms))


def times(batch: list[RawRecords]) -> list[tuple[int, list[int]]]:
    """The partitions of a batch with the timestamps of their records."""
    return [(each.partition, [item.timestamp()[1] for item in each.messages]) for each in batch]


def order_of(*partitions: int, clock: ManualClock | None = None) -> RecordOrder:
    """An order in which these partitions have begun."""
    order = RecordOrder(IDLE_SECONDS, clock or ManualClock())
    for partition in partitions:
        order.begin(partition, 1)
    return order


def test_the_partition_with_the_earliest_record_goes_first() -> None:
    """Given backlogs of two partitions, when batches of two are taken, then each comes from the
    partition whose next record is the earliest.
    """
    order = order_of(0, 1)
    order.add(run(0, 10, 40, 50))
    order.add(run(1, 20, 30, 60))
    order.at_end(0)
    order.at_end(1)

    batches = [times(order.take(2, ALL)) for _ in range(4)]

    assert batches == [[(0, [10, 40])], [(1, [20, 30])], [(0, [50]), (1, [60])], []]


def test_a_partition_without_records_is_waited_for() -> None:
    """Given a partition that has not said that it is at its end, then others wait for it until the
    time for that has passed.
    """
    clock = ManualClock()
    order = order_of(0, 1, clock=clock)
    order.add(run(0, 10))
    assert order.wait_seconds() == pytest.approx(IDLE_SECONDS)
    clock.now += IDLE_SECONDS / 2
    assert order.wait_seconds() == pytest.approx(IDLE_SECONDS / 2)
    clock.now += IDLE_SECONDS
    assert order.wait_seconds() == 0.0


def test_a_partition_at_its_end_is_not_waited_for() -> None:
    """Given a partition at its end, then nothing waits; once it has had records again, it does."""
    order = order_of(0, 1)
    order.at_end(1)
    order.add(run(0, 10))
    assert order.wait_seconds() == 0.0
    order.add(run(1, 5))
    assert times(order.take(10, ALL)) == [(1, [5])]
    assert order.wait_seconds() > 0.0
    order.at_end(1)
    assert order.wait_seconds() == 0.0
    assert times(order.take(10, ALL)) == [(0, [10])]


def test_nothing_to_take_is_not_waited_for() -> None:
    """Given no record at all, then there is nothing that could wait."""
    order = order_of(0, 1)
    assert not order
    assert order.wait_seconds() == 0.0
    assert order.take(10, ALL) == []


def test_a_new_start_drops_what_was_read_before() -> None:
    """Given records of an earlier start, when the partition begins again, then they never come."""
    order = order_of(0)
    order.add(run(0, 1, 2))
    order.begin(0, 2)
    order.add(run(0, 3, start=1))
    order.add(run(0, 4, start=2))
    assert times(order.take(10, ALL)) == [(0, [4])]


def test_a_record_that_is_too_large_comes_alone() -> None:
    """Given records larger than a batch may be, then each is a batch."""
    order = order_of(0)
    order.add(run(0, 1, 2, size=500))
    assert [times(order.take(10, 100)) for _ in range(3)] == [[(0, [1])], [(0, [2])], []]


def test_a_partition_far_ahead_is_paused_and_resumed() -> None:
    """Given more of one partition than may wait, then it is to be paused, once; when half of it is
    taken it is to be resumed, once.
    """
    order = order_of(*range(16))
    order.add(run(3, *range(30), size=100_000))
    assert (order.to_pause(), order.to_pause()) == ([3], [])
    assert order.is_paused(3)
    assert order.to_resume() == []
    order.take(25, ALL * 100)
    assert (order.to_resume(), order.to_resume()) == ([3], [])
    assert not order.is_paused(3)


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=20), min_size=1, max_size=5),
    st.integers(1, 10),
    st.integers(1, 200),
)
def test_each_record_comes_once_in_the_order_of_its_partition(
    partitions: list[list[int]], records: int, size: int
) -> None:
    """Given any records and limits, then each comes once, in its partition's order, in batches
    within the limits, and each batch begins with the earliest of all next records.
    """
    order = order_of(*range(len(partitions)))
    for partition, times_ms in enumerate(partitions):
        order.add(run(partition, *times_ms))
    left = [list(times_ms) for times_ms in partitions]
    while order:
        batch = order.take(records, size)
        taken = [len(each.messages) for each in batch]
        assert 1 <= sum(taken) <= records
        assert sum(each.size for each in batch) <= size or sum(taken) == 1
        assert times(batch)[0][1][0] == min(each[0] for each in left if each)
        for partition, times_ms in times(batch):
            assert left[partition][: len(times_ms)] == times_ms
            del left[partition][: len(times_ms)]
    assert not any(left)
