"""A broker that stands still or restarts costs time, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from streams.errors import UnansweredError
from streams.kafka.raw_consumer import RawConsumer
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.unit.kafka.recording_owner import WAIT_SECONDS, RecordingOwner, settings_for, until
from tests.unit.kafka.test_raw_consumer import produce, raw_topic


async def _once_answered(consumer: RawConsumer) -> dict[int, int]:
    """Return the group's offset of partition 0, as soon as a broker is there again."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return await consumer.committed([0])
        except UnansweredError:
            assert time.monotonic() < deadline, "no broker answers"


@pytest.mark.slow
def test_partitions_that_are_lost_come_back(own_kafka_broker: Broker) -> None:
    """Given a broker that stands still for longer than the session, so that the member is thrown
    out, then its partitions are lost at once, without a wait for commits, and assigned again; and a
    broker that is killed and started again is waited for.
    """
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    topic = raw_topic(own_kafka_broker, {0: 10})

    async def scene() -> RecordingOwner:
        owner = RecordingOwner()
        settings = settings_for(own_kafka_broker, topic)
        consumer = owner.open(settings, topic, config={"session.timeout.ms": 1000})
        await until(lambda: owner.count == 10)
        owner.starts = {0: 10}
        assert server._process is not None
        os.killpg(server._process.pid, signal.SIGSTOP)
        await asyncio.sleep(3)
        os.killpg(server._process.pid, signal.SIGCONT)
        await until(lambda: len(owner.events) == 3)
        await asyncio.to_thread(produce, own_kafka_broker, topic, {0: 5})
        await until(lambda: owner.count == 15)
        # A restart may or may not throw the member out.
        owner.starts = {0: 15}
        await consumer.commit({0: 15})
        await asyncio.to_thread(server.kill)
        with pytest.raises(UnansweredError):
            await consumer.committed([0])
        await asyncio.to_thread(server.start)
        assert await _once_answered(consumer) == {0: 15}
        await asyncio.to_thread(produce, own_kafka_broker, topic, {0: 5})
        await until(lambda: owner.count == 20)
        await consumer.close()
        return owner

    owner = asyncio.run(scene())
    assert owner.offsets[0] == list(range(20))
    assert owner.failure is None
    one = frozenset({0})
    assert owner.events[:3] == [("assigned", one), ("lost", one), ("assigned", one)]
