"""With a window, a worker that reads an archive waits for others; a live stream never waits."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from simhash_core.log.records import Bundle, Chain, Packet, Sender
from simhash_core.window import Window
from streams.worker.alignment import LOOK_SECONDS, Alignment
from streams.worker.shard import AssignmentState, Shard
from tests.rigs.manual_clock import ManualClock
from tests.unit.core.log.made_to_order import Made, columns_of

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
NOW_MS = 2_000 * DAY_MS
OLD_MS = 1_000 * DAY_MS
LATENESS_MS = 20 * HOUR_MS
LEAD_MS = 10 * HOUR_MS
TOGETHER_SECONDS = 6.0
"""Longer than workers wait for those that begin at the same time."""


def bundle_of(
    worker: str, time_ms: int, partition: int, count: int = 1, *, is_delete: bool = False
) -> Bundle:
    columns = columns_of([Made(b"", time_ms=time_ms, is_delete=is_delete)] * count)
    chain, last = Chain("raw", "id", partition), count - 1
    return Bundle.of([Packet(chain, Sender(worker, 0), -1, last, columns)])


class Aligned(Alignment):
    """The alignment of a worker with shards 0 and 1 of a topic with four partitions."""

    def __init__(self, window_ms: int = 30 * DAY_MS) -> None:
        self.clock = ManualClock(NOW_MS / 1000)
        self.open = {partition: Shard(partition, 1) for partition in (0, 1)}
        window = Window(window_ms, LATENESS_MS)
        super().__init__(window, "own", self.open, self.clock, self.clock)
        self.partitions = 4
        for shard in self.open.values():
            shard.state = AssignmentState.OPEN

    def reads(self, worker: str, time_ms: int, partition: int = 2, count: int = 20) -> None:
        """Read a bundle from the log; with the default, the lead is half of the lateness."""
        self.read(bundle_of(worker, time_ms, partition, count), NOW_MS)

    def catches_up(self, worker: str, time_ms: int) -> None:
        """Read bundles of two seconds in which five days of documents pass, up to a time."""
        for step in range(-20, 1):
            self.reads(worker, time_ms + step * 6 * HOUR_MS)
            self.clock.now += 0.1

    def is_held(self, time_ms: int, watermark_ms: int | None) -> bool:
        """Return whether the sender would let a document of that time wait."""
        until_ms = self.until_ms(watermark_ms)
        return until_ms is not None and time_ms > until_ms and self.must_wait(until_ms, time_ms)


@pytest.fixture
def aligned() -> Aligned:
    aligned = Aligned()
    aligned.clock.now += TOGETHER_SECONDS
    return aligned


def test_nothing_waits_without_a_window_or_near_the_present() -> None:
    assert Alignment(None, "own", {}).until_ms(None) is None
    assert Aligned().until_ms(NOW_MS - LATENESS_MS) is None


def test_a_worker_ahead_waits_for_one_that_catches_up(aligned: Aligned) -> None:
    aligned.catches_up("other", OLD_MS)
    assert aligned.until_ms(OLD_MS) == OLD_MS + LEAD_MS
    assert aligned.is_held(OLD_MS + DAY_MS, OLD_MS)
    assert not aligned.is_held(OLD_MS + HOUR_MS, OLD_MS)
    far_ms = OLD_MS + DAY_MS
    assert not aligned.is_held(far_ms, far_ms), "it does not move the watermark"
    aligned.reads("other", OLD_MS + DAY_MS)
    assert not aligned.is_held(OLD_MS + DAY_MS, OLD_MS + DAY_MS)


def test_the_time_of_a_delete_does_not_count(aligned: Aligned) -> None:
    """It is the time of its record, and documents may have earlier times, of a field."""
    aligned.catches_up("other", OLD_MS)
    aligned.read(bundle_of("other", NOW_MS, 2, is_delete=True), NOW_MS)
    assert aligned.until_ms(OLD_MS) == OLD_MS + LEAD_MS


def test_a_silent_worker_is_awaited_for_a_short_time(aligned: Aligned) -> None:
    aligned.catches_up("other", OLD_MS)
    waited = 0.0
    while aligned.is_held(OLD_MS + DAY_MS, OLD_MS):
        aligned.clock.now += LOOK_SECONDS
        waited += LOOK_SECONDS
    assert waited == pytest.approx(2.0, abs=0.2)


def test_the_silence_of_others_does_not_count_while_this_worker_stands_still(
    aligned: Aligned,
) -> None:
    """Commits of all workers may wait for the same broker."""
    aligned.catches_up("other", OLD_MS)
    aligned.clock.now += 4.0
    assert aligned.is_held(OLD_MS + DAY_MS, OLD_MS)


def test_nobody_waits_for_a_worker_whose_documents_are_always_late(aligned: Aligned) -> None:
    """Its time passes as fast as the clock, so it would never come near."""
    for second in range(10):
        aligned.reads("other", OLD_MS + second * 1_000)
        aligned.clock.now += 1.0
    assert not aligned.is_held(OLD_MS + DAY_MS, OLD_MS)


def test_a_worker_that_is_not_alone_moves_the_watermark_in_steps(aligned: Aligned) -> None:
    assert aligned.until_ms(OLD_MS) == OLD_MS + LEAD_MS
    aligned.partitions = 2
    assert aligned.until_ms(OLD_MS) is None


def test_workers_may_be_some_documents_ahead_if_these_are_far_apart(aligned: Aligned) -> None:
    aligned.catches_up("other", OLD_MS)
    for day in range(40):
        aligned.reads("own", OLD_MS + day * DAY_MS, count=1)
    assert aligned.until_ms(OLD_MS) == OLD_MS + 16 * DAY_MS
    for day in range(500, 508):
        aligned.reads("own", OLD_MS + day * DAY_MS, count=1)
    assert aligned.until_ms(OLD_MS) == OLD_MS + 16 * DAY_MS, "a gap does not count"


def test_a_worker_with_few_documents_is_not_ahead_of_one_with_many(aligned: Aligned) -> None:
    aligned.catches_up("other", OLD_MS)
    for day in range(33):
        aligned.reads("own", OLD_MS + day * DAY_MS, count=1)
        aligned.reads("other", OLD_MS + day * DAY_MS, count=400)
    latest_ms = OLD_MS + 32 * DAY_MS
    assert aligned.until_ms(latest_ms) == latest_ms + LEAD_MS


def test_a_worker_with_few_documents_is_awaited_for_a_moment(aligned: Aligned) -> None:
    """It may wait for this worker until the time of its next document is near."""
    aligned.catches_up("other", OLD_MS)
    aligned.reads("other", OLD_MS + DAY_MS, count=1)
    held = [aligned.is_held(OLD_MS + 2 * DAY_MS, OLD_MS)]
    for _ in range(10):
        aligned.clock.now += LOOK_SECONDS
        held.append(aligned.is_held(OLD_MS + 2 * DAY_MS, OLD_MS))
    assert held[0]
    assert not held[-1]


def test_the_watermark_stands_while_nothing_is_decided(aligned: Aligned) -> None:
    """A killed worker is silent, and its documents come when its partitions have moved."""
    aligned.catches_up("other", OLD_MS)
    aligned.until_ms(OLD_MS, undecided=6)
    aligned.until_ms(OLD_MS, undecided=7)
    aligned.reads("other", OLD_MS)
    assert aligned.until_ms(OLD_MS, undecided=7) == OLD_MS + LEAD_MS
    for _ in range(200):
        aligned.clock.now += LOOK_SECONDS
        aligned.until_ms(OLD_MS, undecided=7)
    assert aligned.until_ms(OLD_MS, undecided=7) == OLD_MS
    assert aligned.must_wait(OLD_MS, OLD_MS + 1)
    assert not aligned.is_holding, "this may be a stall of this worker"
    aligned.clock.now += TOGETHER_SECONDS
    assert aligned.until_ms(OLD_MS) == OLD_MS
    assert aligned.must_wait(OLD_MS, OLD_MS + 1), "others begin now"


def test_after_a_move_the_watermark_stands_until_the_first_decision(aligned: Aligned) -> None:
    aligned.reads("other", OLD_MS)
    aligned.moved()
    aligned.clock.now += 2 * TOGETHER_SECONDS
    assert aligned.until_ms(OLD_MS) == OLD_MS + LEAD_MS
    assert aligned.until_ms(OLD_MS + 1, undecided=7) == OLD_MS + 1
    assert aligned.until_ms(OLD_MS + 1, undecided=9) == OLD_MS + 1, "others begin now"
    aligned.clock.now += 0.1
    aligned.reads("other", OLD_MS + 1)
    assert aligned.until_ms(OLD_MS + 1) == OLD_MS + 1 + LEAD_MS


def test_wrong_dates_do_no_harm(aligned: Aligned) -> None:
    aligned.catches_up("other", OLD_MS)
    for time_ms in (2**63 - 1, -(2**63), 2**63 - 1, -(2**63), 2**63 - 1):
        aligned.reads("own", time_ms)
    assert aligned.until_ms(OLD_MS) == OLD_MS + LEAD_MS
    aligned.reads("wrong", -(2**63))
    aligned.clock.now += 10.0
    assert aligned.until_ms(-(2**63)) is not None


def test_documents_of_an_archive_wait_for_shards_that_open(aligned: Aligned) -> None:
    aligned.moved()
    aligned.open[1].state = AssignmentState.OPENING
    aligned.taken_in(OLD_MS, [np.array([OLD_MS])])
    assert aligned.is_held(OLD_MS, None)
    assert aligned.waits_for_shards(), "or the limit of records in flight would be reached"
    aligned.open[1].state = AssignmentState.OPEN
    aligned.partitions = 2
    assert not aligned.waits_for_shards()
    assert aligned.is_held(OLD_MS, None), "the earliest records of the shard are not here yet"
    aligned.settled()
    assert not aligned.is_held(OLD_MS, None)


def test_nothing_is_taken_in_at_first_before_all_shards_are_open(aligned: Aligned) -> None:
    aligned.moved()
    aligned.open[1].state = AssignmentState.OPENING
    assert aligned.waits_for_shards()
    aligned.open[1].state = AssignmentState.OPEN
    assert not aligned.waits_for_shards()


def test_new_documents_are_taken_in_while_shards_open(aligned: Aligned) -> None:
    aligned.moved()
    aligned.open[1].state = AssignmentState.OPENING
    aligned.taken_in(NOW_MS, [np.array([NOW_MS])])
    assert not aligned.waits_for_shards()


def test_documents_wait_for_a_time_only_for_shards_that_do_not_open(aligned: Aligned) -> None:
    aligned.moved()
    aligned.open[1].state = AssignmentState.OPENING
    aligned.taken_in(OLD_MS, [np.array([OLD_MS])])
    assert aligned.is_held(OLD_MS, None)
    aligned.clock.now += 31.0
    assert not aligned.waits_for_shards()
    aligned.settled()
    assert not aligned.is_held(OLD_MS, None)


def test_documents_wait_for_shards_that_open_again_without_a_move(aligned: Aligned) -> None:
    """After a commit that failed, for example."""
    aligned.moved()
    aligned.taken_in(OLD_MS, [np.array([OLD_MS])])
    aligned.clock.now += 40.0
    assert not aligned.waits_for_shards()
    aligned.open[1].state = AssignmentState.OPENING
    assert aligned.waits_for_shards()
    assert aligned.is_held(OLD_MS + 1, OLD_MS)


def test_workers_that_begin_wait_for_each_other() -> None:
    aligned = Aligned()
    assert aligned.is_held(OLD_MS, None)
    aligned.reads("other", OLD_MS)
    assert not aligned.is_held(OLD_MS, OLD_MS)


def test_a_worker_that_begins_first_waits_until_it_has_heard_others() -> None:
    aligned = Aligned()
    while aligned.is_held(OLD_MS, None):
        aligned.clock.now += LOOK_SECONDS
    aligned.sent()
    aligned.reads("own", OLD_MS, partition=0)
    assert aligned.is_held(OLD_MS + DAY_MS, OLD_MS)
    aligned.clock.now += 1.0
    assert not aligned.is_held(OLD_MS + DAY_MS, OLD_MS)


def test_in_a_new_index_documents_of_an_archive_go_first() -> None:
    """Otherwise a worker with documents of today may move the watermark past all of them."""
    aligned = Aligned()
    while aligned.is_held(OLD_MS, None):
        aligned.clock.now += LOOK_SECONDS
    assert aligned.is_held(NOW_MS, None)
    aligned.clock.now += 1
    assert not aligned.is_held(NOW_MS, None), "nobody has an archive"


def test_partitions_that_move_are_awaited_until_their_documents_go_on(aligned: Aligned) -> None:
    aligned.catches_up("former", OLD_MS)
    aligned.clock.now += 3.0
    aligned.moved()
    assert aligned.is_held(OLD_MS + HOUR_MS, OLD_MS)
    aligned.reads("heir", OLD_MS)
    assert not aligned.is_held(OLD_MS + HOUR_MS, OLD_MS)

    aligned.clock.now += 3.0
    aligned.moved()
    assert aligned.is_held(OLD_MS + HOUR_MS, OLD_MS)
    aligned.clock.now += TOGETHER_SECONDS
    assert not aligned.is_held(OLD_MS + HOUR_MS, OLD_MS)


def test_a_worker_waits_as_long_as_another_catches_up_and_logs_it_once(
    aligned: Aligned, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for days in range(400):
        aligned.reads("other", OLD_MS + days * DAY_MS, count=40)
        aligned.clock.now += 0.25
        assert aligned.is_held(OLD_MS + 500 * DAY_MS, OLD_MS)
    (line,) = caplog.records
    assert line.getMessage().startswith("documents later than 1972-10-18T10:00:00Z wait for other")
    for days in range(400, 500):
        aligned.reads("other", OLD_MS + days * DAY_MS)
    assert not aligned.is_held(OLD_MS + 499 * DAY_MS, OLD_MS)


def test_no_wait_for_anything_else_is_endless(aligned: Aligned) -> None:
    aligned.open[1].state = AssignmentState.OPENING
    held = 0.0
    while aligned.is_held(OLD_MS, OLD_MS - DAY_MS):
        aligned.moved()
        aligned.clock.now += 0.25
        held += 0.25
    assert held == pytest.approx(30.0, abs=1.0)


def test_documents_that_were_given_up_do_not_count_for_the_limit_of_a_wait(
    aligned: Aligned,
) -> None:
    aligned.moved()
    assert aligned.is_held(OLD_MS, None)
    aligned.sent()
    assert not aligned.is_holding
    aligned.clock.now += 40.0
    aligned.moved()
    assert aligned.is_held(OLD_MS, None)
