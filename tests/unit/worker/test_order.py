"""When a bundle is sent, and which documents it has."""

from __future__ import annotations

import math

import pytest

from simhash_core.log.records import Bundle
from streams.kafka.producers import AppendUnknownError
from streams.worker import order
from streams.worker.order import BundlePace
from tests.rigs.async_tests import until
from tests.rigs.manual_clock import ManualClock
from tests.unit.worker.hand_driven import SETTINGS, TOPICS, HandDriven, text, turns

UNANSWERED_SECONDS = 1.0
FULL = SETTINGS.batch.documents


class Paced(BundlePace):
    def __init__(self) -> None:
        self.clock = ManualClock()
        super().__init__(self.clock, self.clock)

    def waits_after(self, seconds: float) -> float:
        self.clock.now += seconds
        return self.wait_seconds()

    def read_in_turn(self, others: int, documents: int) -> None:
        """Read a bundle of each of ``others`` workers and of this one, ``documents`` in all."""
        for number in range(others):
            self.read(f"other-{number}", documents // (others + 1))
        self.read("own", documents // (others + 1))


def test_the_next_bundle_waits_until_all_before_it_are_read_back() -> None:
    pace = Paced()
    pace.read_in_turn(2, 3_000)
    assert pace.wait_seconds() == 0, "nothing was sent before it"
    pace.sent()
    pace.sent()
    assert pace.waits_after(0.1) == math.inf
    pace.ended()
    assert pace.waits_after(0.1) == math.inf
    pace.ended()
    assert pace.wait_seconds() == 0


def test_bundles_before_a_session_are_not_awaited_and_none_for_over_a_second() -> None:
    pace = Paced()
    pace.sent()
    pace.begin()
    assert pace.wait_seconds() == 0
    pace.ended()  # of the session before
    pace.sent()
    assert pace.waits_after(UNANSWERED_SECONDS * 0.99) == math.inf
    assert pace.waits_after(UNANSWERED_SECONDS * 0.02) == 0


@pytest.mark.parametrize(
    ("others", "documents", "seconds"),
    [
        pytest.param(0, 9_000, 0, id="nobody else reads its bundles"),
        pytest.param(9, 120, 0, id="fewer documents than bundles may be"),
        pytest.param(9, 500, 10 / 125 - 10 / 500, id="few documents: 125 bundles a second"),
        pytest.param(9, 5_000, 10 * 16 / 5_000 - 10 / 5_000, id="a bundle for 16 documents"),
        pytest.param(39, 4_000, 0.08 - 40 / 4_000, id="each worker sends one in 80 ms"),
        pytest.param(199, 200_000, 200 / 625 - 200 / 200_000, id="many: 625 bundles a second"),
    ],
)
def test_workers_that_send_share_the_log(others: int, documents: int, seconds: float) -> None:
    pace = Paced()
    pace.read_in_turn(others, documents)
    pace.sent()
    pace.ended()
    assert pace.wait_seconds() == pytest.approx(seconds)
    assert pace.waits_after(seconds / 2) == pytest.approx(seconds / 2)
    assert pace.waits_after(seconds / 2) == pytest.approx(0)


def test_what_is_sent_no_more_counts_for_two_seconds_at_most() -> None:
    pace = Paced()
    pace.read_in_turn(99, 20_000)
    waits = []
    for _ in range(3):
        pace.clock.now += 1.01
        pace.sent()
        pace.read("own", 1)
        pace.ended()
        waits.append(pace.wait_seconds())
    assert waits == pytest.approx([100 / 625 - 100 / 20_000, 0, 0])


@pytest.mark.parametrize(
    ("others", "documents", "seconds"),
    [
        pytest.param(0, 9_000, 0, id="nobody else looks up"),
        pytest.param(2, 90, 0.005, id="a few workers"),
        pytest.param(9, 100, 0.02, id="500 reports a second"),
        pytest.param(9, 2_000, 0.04, id="not more often than bundles leave"),
    ],
)
def test_workers_report_at_the_same_moments(others: int, documents: int, seconds: float) -> None:
    pace = Paced()
    pace.read_in_turn(others, documents)
    moment = 1_800_000_000.0
    reported_at = pace.clock.now = moment + seconds / 4
    assert pace.report_wait(reported_at) == pytest.approx(0.75 * seconds, abs=1e-6)
    assert pace.report_wait(reported_at - seconds) == 0, "what comes after a pause waits for none"
    pace.clock.now = moment + 1.001 * seconds
    assert pace.report_wait(reported_at) == 0
    assert pace.report_wait(pace.clock.now + 3_600) == 0, "the clock was set back"


def bundles(worker: HandDriven) -> list[Bundle]:
    return [each for each in worker.broker.records() if isinstance(each, Bundle)]


def rows_in(bundle: Bundle) -> dict[int, int]:
    return {each.chain.partition: each.end - each.first for each in bundle.segments}


async def test_what_comes_before_a_bundle_is_read_back_leaves_together(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "_UNANSWERED_SECONDS", 60.0)
    await worker.open(0, 1, 2)
    worker.log.is_held = True
    worker.send(1, text(1))
    await until(lambda: bundles(worker))
    worker.send(1, text(2), text(3))
    worker.send(2, text(4))
    await turns()
    worker.send(2, text(5))
    await turns()
    worker.log.release()
    await until(lambda: len(worker.outputs) == 5)
    assert [rows_in(each) for each in bundles(worker)] == [{1: 1}, {1: 2, 2: 2}]


async def test_a_full_bundle_leaves_before_the_last_one_is_read_back(
    worker: HandDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "_UNANSWERED_SECONDS", 60.0)
    await worker.open(0, 1, 2)
    worker.log.is_held = True
    worker.send(1, text(1))
    await until(lambda: bundles(worker))
    worker.send(1, *map(text, range(2, FULL)))
    await turns(500)
    assert len(bundles(worker)) == 1, "one document is lacking"
    worker.send(2, text(FULL), text(FULL + 1), text(FULL + 2))
    await until(lambda: len(bundles(worker)) == 2)
    await turns()
    assert rows_in(bundles(worker)[1]) == {1: FULL - 2, 2: 2}
    worker.log.release()
    await until(lambda: len(worker.outputs) == FULL + 2)
    assert [rows_in(each) for each in bundles(worker)[2:]] == [{2: 1}]


@pytest.mark.parametrize("is_in_log", [True, False])
async def test_packets_of_a_bundle_without_answer_are_sent_again_and_count_once(
    worker: HandDriven, *, is_in_log: bool
) -> None:
    await worker.open(0, 1, 2)
    worker.log.is_held = True
    worker.send(0, text(1))
    await until(lambda: bundles(worker))
    worker.appender.errors[TOPICS.log].append(AppendUnknownError("no answer"))
    if not is_in_log:
        worker.appender.dropped.add(TOPICS.log)
    worker.send(1, text(2))
    worker.send(2, *map(text, range(3, FULL + 2)))  # so that it is full
    await until(lambda: not worker.appender.errors[TOPICS.log])
    worker.appender.dropped.clear()
    assert len(bundles(worker)) == 1 + is_in_log
    worker.log.release()
    await until(lambda: len(worker.outputs) == FULL + 1)
    await turns()
    assert len({*worker.outputs}) == len(worker.outputs) == FULL + 1
