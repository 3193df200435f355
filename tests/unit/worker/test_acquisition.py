"""Each phase of acquiring a shard is measured, and logged once."""

from __future__ import annotations

import logging
import re

import pytest

from streams.kafka.errors import StaleGenerationError
from streams.monitoring.metrics import AcquisitionPhase
from streams.worker.shard import Acquisition
from tests.rigs.async_tests import until
from tests.rigs.manual_clock import ManualClock
from tests.unit.worker.hand_driven import HandDriven, text, turns

LINE = re.compile(r"shard (\d+) acquired in ([\d.]+) s(, nothing to output)?: (.*)")
PHASES = [str(phase) for phase in AcquisitionPhase]


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streams")


def lines(caplog: pytest.LogCaptureFixture) -> dict[int, list[tuple[str, str]]]:
    """Return from the log of each shard whether it had an output, and its phases."""
    found: dict[int, list[tuple[str, str]]] = {}
    for message in caplog.messages:
        if (line := LINE.fullmatch(message)) is not None:
            found.setdefault(int(line[1]), []).append((line[3] or "", line[4]))
    return found


def named(phases: str) -> list[str]:
    return [each.split()[0] for each in phases.split(", ")]


def observed(worker: HandDriven, phase: str) -> float | None:
    name = "firstseen_acquisition_duration_seconds_count"
    return worker.registry.get_sample_value(name, {"phase": phase})


def test_phases_last_from_the_end_of_the_one_before() -> None:
    clock = ManualClock()
    acquisition = Acquisition(98.5, clock)
    for phase, at in zip(list(AcquisitionPhase)[1:], (101, 103, 104, 108, 108.5, 111), strict=True):
        clock.now = float(at)
        acquisition.ended(phase)
    assert list(acquisition.seconds().items()) == list(
        zip(AcquisitionPhase, (1.5, 1.0, 2.0, 1.0, 4.0, 0.5, 2.5), strict=True)
    )
    assert acquisition.total() == 12.5


def test_an_output_before_the_end_of_the_log_takes_no_time_of_its_own() -> None:
    clock = ManualClock()
    acquisition = Acquisition(None, clock)
    acquisition.ended(AcquisitionPhase.OFFSETS)
    acquisition.opens()  # the first opening has failed, and belongs to the first phase
    clock.now += 3.0
    acquisition.ended(AcquisitionPhase.OFFSETS)
    for phase in (AcquisitionPhase.OUTPUT, AcquisitionPhase.READING, AcquisitionPhase.OUTPUT):
        clock.now += 2.0
        acquisition.ended(phase)
    assert acquisition.seconds() == {
        AcquisitionPhase.OFFSETS: 3.0,
        AcquisitionPhase.READING: 4.0,
        AcquisitionPhase.OUTPUT: 0.0,
    }
    assert acquisition.total() == 5.0


async def test_a_worker_says_each_phase_once(
    worker: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    await worker.open(0, 1)
    worker.send(0, text(1))
    worker.send(1, text(2))
    await until(lambda: len(lines(caplog)) == 2)
    worker.send(1, text(3))
    await until(lambda: len(worker.outputs) == 3)
    await turns()

    others = [each for each in PHASES if each != "leading"]
    ((is_empty, of_0),), ((_, of_1),) = lines(caplog)[0], lines(caplog)[1]
    assert not is_empty
    assert (named(of_0), named(of_1)) == (PHASES, others)
    assert observed(worker, "leading") == 1
    assert {observed(worker, each) for each in others} == {2.0}


async def test_an_empty_partition_has_nothing_to_put_out(
    worker: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    await worker.open(0, 1)
    worker.member.put(ended=[1])
    await turns()
    await worker.pipeline.tick()
    await until(lambda: 1 in lines(caplog))
    ((empty, phases),) = lines(caplog)[1]
    assert empty
    assert named(phases)[-1] == "reading"
    assert 0 not in lines(caplog), "records of it may come"


async def test_the_rebalance_is_unknown_unless_this_worker_saw_it(
    worker: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    await worker.open(0, 1)
    await worker.open(2)
    await worker.revoke(1)
    await worker.open(1)
    for shard in (1, 2):
        worker.send(shard, text(shard))
    await until(lambda: lines(caplog).keys() == {1, 2})
    assert lines(caplog)[2][0][1].startswith("rebalance unknown, offsets ")
    assert re.match(r"rebalance [\d.]+, offsets ", lines(caplog)[1][0][1])


async def test_a_refused_commit_is_seen_as_a_rebalance(
    worker: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    await worker.open(0)
    held = worker.hold_commit(StaleGenerationError("of an older one"))
    worker.send(0, text(1))
    await held.began.wait()
    held.go.set()
    await until(lambda: "outputs are waiting for a rebalance" in caplog.text)
    await worker.open(1)
    worker.send(1, text(2))
    await until(lambda: 1 in lines(caplog))
    assert re.match(r"rebalance [\d.]+, ", lines(caplog)[1][0][1])


async def test_a_shard_that_leaves_before_its_first_output_is_not_logged(
    worker: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    await worker.open(0, 1)
    await worker.revoke(1)
    await worker.pipeline.tick()
    await turns()
    assert 1 not in lines(caplog)
    assert observed(worker, "session") == 0
