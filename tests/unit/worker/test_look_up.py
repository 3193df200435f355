"""The log is read, looked up and reported on; a report that nobody heeds is made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from simhash_core.log.records import NO_CONTROL, Control, Packet
from streams.worker.index_on_kafka import Claim
from streams.worker.log_codec import LogCodec
from tests.unit.worker.hand_driven import FINGERPRINTER, TOPICS, HandDriven, text, turns, until

pytestmark = pytest.mark.usefixtures("quick")


def play(scene: Callable[[HandDriven], Coroutine[Any, Any, None]]) -> HandDriven:
    """Play a scene with a worker whose shard 1 is open; another worker leads."""

    async def run() -> HandDriven:
        async with HandDriven().running() as worker:
            worker.index.foreign_claim = Claim(FINGERPRINTER.identity, "the rules", 0, NO_CONTROL)
            lead(worker)
            await worker.open(1)
            await scene(worker)
        return worker

    return asyncio.run(run())


def lead(worker: HandDriven) -> None:
    """Let another worker begin to lead."""
    begins = Control(NO_CONTROL, "owner-of-0.1", True, [], [], 0)
    worker.log.append(LogCodec(FINGERPRINTER.identity).encode(begins))


def reports(worker: HandDriven) -> int:
    """How many reports the broker has acknowledged."""
    return worker.appender.appended.count(TOPICS.reports)


def test_a_report_that_was_acknowledged_and_lost_is_made_again() -> None:
    """Given a report that the broker has acknowledged and that the leader never sees, when nothing
    is decided for some time, then the same packets are reported again, and then less and less
    often.
    """

    async def scene(worker: HandDriven) -> None:
        worker.appender.dropped.add(TOPICS.reports)
        worker.send(1, text(1))
        await until(lambda: reports(worker) == 1)
        await turns()
        assert reports(worker) == 1, "it does not repeat itself"
        worker.appender.dropped.clear()
        deadline = 0
        while not worker.broker.reports:
            await worker.pipeline.tick()
            await asyncio.sleep(0.005)
            deadline += 1
            assert deadline < 1000, "nobody reports again"
        codec = LogCodec(FINGERPRINTER.identity)
        report = codec.decode_report(worker.broker.reports[0][0], "reports/0@0")
        assert report.shards == [1]
        packets = [
            offset
            for offset, record in enumerate(worker.broker.records())
            if isinstance(record, Packet)
        ]
        assert [each.offset for each in report.packets] == packets

    play(scene)


def test_nothing_is_reported_again_while_nothing_waits() -> None:
    """Given a log without undecided packets, then no report is made however long it is quiet."""

    async def scene(worker: HandDriven) -> None:
        for _ in range(20):
            await worker.pipeline.tick()
            await asyncio.sleep(0.005)
        assert reports(worker) == 0

    play(scene)
