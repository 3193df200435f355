"""Records of several partitions are taken by their timestamps, and no partition is skipped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from streams.kafka import client_config, raw_consumer
from streams.kafka.raw_consumer import RawRecords, message_bytes
from streams.worker import timestamp_merge
from streams.worker.timestamp_merge import RawQueue, TimestampMerge
from tests.rigs.manual_clock import ManualClock

IDLE_SECONDS = 0.2
ALL = 1_000_000
BYTES = 10 + raw_consumer._MESSAGE_BYTES  # of a record whose value has 10
TURN_SECONDS = timestamp_merge._TURN_SECONDS


class Record(NamedTuple):
    """The fields of a message on which its order depends."""

    at: int
    time_ms: int
    size: int

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time_ms

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def __len__(self) -> int:
        return self.size


class Merged:
    """A merge of several queues, with a clock that the test moves by hand."""

    def __init__(self, count: int, *, is_exact: bool = False) -> None:
        self.clock = ManualClock()
        self.merge = TimestampMerge(IDLE_SECONDS, self.clock)
        self.merge.is_exact = is_exact
        self.queues = [RawQueue(partition, 1) for partition in range(count)]
        for queue in self.queues:
            self.merge.add(queue)

    def put(self, partition: int, *times_ms: int, size: int = 10) -> None:
        queue = self.queues[partition]
        records = [Record(queue.next + at, each, size) for at, each in enumerate(times_ms)]
        messages = cast("list[Message]", records)
        size = sum(map(message_bytes, messages))
        self.merge.put(queue, RawRecords(partition, 1, messages, size))

    def end(self, *partitions: int) -> None:
        for partition in partitions:
            self.merge.at_end(self.queues[partition])

    def take(self, records: int = ALL, size: int = ALL) -> list[tuple[int, list[int]]]:
        return times(self.merge.take(records, size))


def times(batch: Sequence[RawRecords]) -> list[tuple[int, list[int]]]:
    return [(each.partition, [item.timestamp()[1] for item in each.messages]) for each in batch]


def test_the_partition_with_the_earliest_record_goes_first() -> None:
    merged = Merged(2)
    merged.put(0, 10, 40, 50)
    merged.put(1, 20, 30, 60)
    merged.end(0, 1)
    batches = [merged.take(2) for _ in range(4)]
    assert batches == [[(0, [10, 40])], [(1, [20, 30])], [(0, [50]), (1, [60])], []]


def test_an_exact_merge_takes_the_earliest_records_of_all_partitions() -> None:
    merged = Merged(3, is_exact=True)
    merged.put(0, 10, 40, 50)
    merged.put(1, 20, 30, 60)
    merged.put(2, 90)
    merged.end(0, 1, 2)
    merged.clock.now += 10 * TURN_SECONDS
    batches = [merged.take(3) for _ in range(4)]
    assert batches == [
        [(0, [10]), (1, [20, 30])],
        [(0, [40, 50]), (1, [60])],
        [(2, [90])],
        [],
    ]


def test_an_exact_batch_ends_where_a_partition_may_have_earlier_records() -> None:
    merged = Merged(2, is_exact=True)
    merged.put(0, 10, 20)
    merged.put(1, 15, 40)
    assert merged.take() == [(0, [10, 20]), (1, [15])]
    assert merged.merge.wait_seconds() > 0.0
    merged.put(0, 30)
    assert merged.take() == [(0, [30])]


def test_a_partition_without_records_is_waited_for_up_to_a_time() -> None:
    merged = Merged(2)
    assert (merged.merge.wait_seconds(), merged.take()) == (0.0, [])
    merged.put(0, 10)
    assert merged.merge.wait_seconds() == pytest.approx(IDLE_SECONDS)
    merged.clock.now += IDLE_SECONDS / 2
    assert merged.merge.wait_seconds() == pytest.approx(IDLE_SECONDS / 2)
    merged.clock.now += IDLE_SECONDS
    assert merged.merge.wait_seconds() == 0.0


def test_a_partition_at_its_end_is_not_waited_for_until_it_has_records_again() -> None:
    merged = Merged(2)
    merged.end(1)
    merged.put(0, 10)
    assert merged.merge.wait_seconds() == 0.0
    merged.put(1, 5)
    assert merged.take(10) == [(1, [5])]
    assert merged.merge.wait_seconds() > 0.0
    merged.end(1)
    assert merged.merge.wait_seconds() == 0.0
    assert merged.take(10) == [(0, [10])]


def test_a_removed_queue_is_not_waited_for_and_what_is_fetched_for_it_is_dropped() -> None:
    merged = Merged(2)
    merged.put(0, 1, 2)
    merged.put(1, 3)
    merged.end(1)
    merged.merge.remove(merged.queues[0])
    merged.put(0, 0)
    assert merged.merge.wait_seconds() == 0.0
    assert merged.take() == [(1, [3])]
    assert not merged.merge
    assert (merged.queues[0].messages, merged.queues[0].size) == ([], 0)


def test_a_partition_far_ahead_is_paused_once_and_resumed_once() -> None:
    merged = Merged(16)
    merged.put(3, *range(30), size=400_000)
    changed = merged.merge.changed_pauses
    assert (changed(), changed()) == (([3], []), ([], []))
    merged.merge.take(9, ALL * 100)
    assert changed() == ([], [])
    merged.merge.take(11, ALL * 100)
    assert (changed(), changed()) == (([], [3]), ([], []))


def test_tombstones_and_headers_count_as_well_as_values() -> None:
    """Otherwise a partition of tombstones that are later than the others' records never pauses."""
    merged = Merged(2)
    queue, key = merged.queues[0], b"x" * 100
    header: list[tuple[str, str | bytes | None]] = [("trace", key), ("empty", None)]
    messages = [
        Message(topic="raw", partition=0, offset=at, key=key, value=None, headers=header)
        for at in range(timestamp_merge._PARTITION_BYTES // 500)
    ]
    size = sum(map(message_bytes, messages))
    merged.merge.put(queue, RawRecords(0, 1, messages, size))
    assert merged.merge.changed_pauses() == ([0], [])


def test_a_partition_has_room_for_more_than_one_unpacked_fetch() -> None:
    """Otherwise each fetch ends in a pause, which discards the rest of it."""
    packed = client_config._FETCH_BYTES
    assert 4 * packed <= timestamp_merge._PARTITION_BYTES // 2


@pytest.mark.parametrize("count", [1, 16, 100, 1000])
def test_what_waits_is_bounded_whatever_the_number_of_partitions(count: int) -> None:
    merged = Merged(count)
    fetch = 16 * 1024
    for partition in range(count):
        while not merged.queues[partition].is_paused:
            merged.put(partition, 1, size=fetch)
            merged.merge.changed_pauses()
    waiting = sum(queue.size for queue in merged.queues)
    assert waiting <= timestamp_merge._BYTES + count * fetch
    assert waiting >= min(timestamp_merge._BYTES, count * timestamp_merge._PARTITION_BYTES) // 2


# ---- fairness


def test_a_partition_with_later_timestamps_has_its_turn_beside_a_backlog() -> None:
    merged = Merged(5)
    day_ms = 86_400_000
    merged.put(4, *(day_ms + at for at in range(1000)))
    turns = dict.fromkeys(range(5), 0)
    for round_ in range(10_000):
        for partition in range(4):
            if not merged.queues[partition].messages:
                merged.put(partition, *range(round_ * 10, round_ * 10 + 10))
        ((partition, _),) = merged.take(1)
        turns[partition] += 1
        merged.clock.now += TURN_SECONDS / 100

    assert turns[4] == pytest.approx(100, abs=2)
    assert all(turns[partition] > 2000 for partition in range(4))
    assert len(merged.merge._by_time) < 80


@given(
    partitions=st.lists(st.lists(st.integers(0, 50), max_size=20), min_size=1, max_size=5),
    records=st.integers(1, 10),
    size=st.integers(1, 20 * BYTES),
)
def test_each_record_comes_once_in_the_order_of_its_partition(
    partitions: list[list[int]], records: int, size: int
) -> None:
    merged = Merged(len(partitions))
    for partition, times_ms in enumerate(partitions):
        if times_ms:
            merged.put(partition, *times_ms)
    merged.end(*range(len(partitions)))
    left = [list(times_ms) for times_ms in partitions]
    while merged.merge:
        batch = merged.merge.take(records, size)
        taken = [len(each.messages) for each in batch]
        assert 1 <= sum(taken) <= records
        assert sum(each.size for each in batch) <= size or sum(taken) == 1
        for partition, times_ms in times(batch):
            assert times_ms[0] == min(each[0] for each in left if each)
            assert left[partition][: len(times_ms)] == times_ms
            del left[partition][: len(times_ms)]
        assert [queue.size for queue in merged.queues] == [BYTES * len(each) for each in left]
    assert not any(left)


@given(
    partitions=st.lists(st.lists(st.integers(0, 50), max_size=20), min_size=1, max_size=5),
    records=st.integers(1, 10),
    size=st.integers(1, 20 * BYTES),
)
def test_an_exact_merge_is_that_of_the_heads(
    partitions: list[list[int]], records: int, size: int
) -> None:
    count = len(partitions)  # no two partitions have the same times
    partitions = [[each * count + at for each in part] for at, part in enumerate(partitions)]
    merged = Merged(count, is_exact=True)
    for partition, times_ms in enumerate(partitions):
        if times_ms:
            merged.put(partition, *times_ms)
    merged.end(*range(count))
    left = [list(times_ms) for times_ms in partitions]
    while merged.merge:
        batch = merged.merge.take(records, size)
        taken = sum(len(each.messages) for each in batch)
        assert 1 <= taken <= records
        assert sum(each.size for each in batch) <= size or taken == 1
        parts = dict(times(batch))
        while any(parts.values()):
            earliest = min(each[0] for each in left if each)
            partition = next(at for at, part in parts.items() if part and part[0] == earliest)
            assert parts[partition].pop(0) == left[partition].pop(0)
        assert [queue.size for queue in merged.queues] == [BYTES * len(each) for each in left]
    assert not any(left)


# ---- cost


def lines(work: Callable[[], object]) -> int:
    """Return the number of lines that 50 calls run in the merge, as a cost without noise."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - itself
        nonlocal count
        if frame.f_globals.get("__name__") != timestamp_merge.__name__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for _ in range(50):
            work()
    finally:
        sys.settrace(before)
    return count


def turn_of_a_backlog(merged: Merged) -> None:
    ((partition, _times),) = merged.take(1)
    merged.put(partition, 10_000)
    merged.merge.wait_seconds()
    merged.merge.changed_pauses()


def turn_without_backlogs(merged: Merged) -> None:
    merged.put(7, 5)
    merged.end(7)
    assert merged.take() == [(7, [5])]
    assert merged.take() == []


@pytest.mark.parametrize(
    ("turn", "records"), [(turn_of_a_backlog, 100), (turn_without_backlogs, 0)]
)
def test_a_turn_costs_the_same_among_ten_partitions_and_a_thousand(
    turn: Callable[[Merged], None], records: int
) -> None:
    """Only the work of the heap grows, with the logarithm of its size."""
    costs = []
    for count in (10, 1000):
        merged = Merged(count)
        for partition in range(count if records else 0):
            merged.put(partition, *range(partition, partition + records))
        merged.end(*range(count))
        merged.merge.changed_pauses()
        costs.append(lines(partial(turn, merged)))
    ten, thousand = costs
    assert 500 < thousand <= ten * 1.1
