"""Partitions move between consumers: no record in flight is lost, and no zombie commits."""

from __future__ import annotations

import asyncio

import pytest

from streams.kafka.errors import MemberFencedError
from streams.settings.settings import Settings
from tests.rigs.async_tests import until
from tests.rigs.brokers.broker import Broker
from tests.unit.kafka.recording_owner import RecordingOwner, settings_for
from tests.unit.kafka.test_raw_consumer import produce


async def test_a_revocation_waits_no_longer_than_it_may(
    kafka_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = kafka_broker.new_topic("group", 2)
    settings = settings_for(kafka_broker, topic)
    first, second = RecordingOwner(), RecordingOwner()
    committed = asyncio.Event()

    async def wait(_: frozenset[int]) -> None:
        await committed.wait()

    one = first.open(settings, topic, revoke_seconds=0.2)
    await until(lambda: len(first.owned) == 2)
    first.on_revoke = wait
    holds = one.holding()
    two = second.open(settings, topic)
    await until(lambda: len(second.owned) == 1)
    assert "in flight" in caplog.text
    assert not holds(), "a commit under way may have what the second one owns"
    assert one.holding()()
    assert first.owned == {0, 1}
    committed.set()
    await until(lambda: len(first.owned) == 1)
    assert first.owned | second.owned == {0, 1}
    assert ("revoked", second.owned) in first.events
    first.on_revoke = None
    await asyncio.gather(one.close(), two.close())


async def test_a_static_member_keeps_its_partitions_over_a_restart(kafka_broker: Broker) -> None:
    topic = kafka_broker.new_topic("group", 2)

    def named(name: str) -> Settings:
        return settings_for(kafka_broker, topic, instance_id=name)

    first, second, again = RecordingOwner(), RecordingOwner(), RecordingOwner()
    one = first.open(named("one"), topic)
    await until(lambda: len(first.owned) == 2)
    two = second.open(named("two"), topic)
    await until(lambda: len(second.owned) == 1)
    had, events = second.owned, len(first.events)
    await two.close()
    three = again.open(named("two"), topic)
    await until(lambda: again.owned == had)
    # An assignment without partitions may still follow the one of the second member.
    assert not any(partitions for _, partitions in first.events[events:])
    await asyncio.gather(one.close(), three.close())


async def test_a_second_worker_of_the_same_instance_id_ends_the_first(kafka_broker: Broker) -> None:
    topic = kafka_broker.new_topic("group")
    settings = settings_for(kafka_broker, topic, instance_id="same")
    first, second = RecordingOwner(), RecordingOwner()
    one = first.open(settings, topic)
    await until(lambda: first.owned)
    two = second.open(settings, topic)
    await until(lambda: first.failure)
    await until(lambda: second.owned)
    await one.close()
    await two.close()
    assert isinstance(first.failure, MemberFencedError)


async def test_partitions_that_were_lost_while_paused_are_read_again(kafka_broker: Broker) -> None:
    topic = kafka_broker.new_topic("group", 4)
    settings = settings_for(kafka_broker, topic)
    produce(kafka_broker, topic, dict.fromkeys(range(4), 1))
    first, second = RecordingOwner(), RecordingOwner(is_eager=False)
    one = first.open(settings, topic)
    await until(lambda: first.offsets == {p: [0] for p in range(4)})
    for partition in range(4):
        one.stop(partition)
    two = second.open(settings, topic)
    await until(lambda: len(second.owned) == 2)
    moved = second.owned
    await two.close()
    await until(lambda: first.owned == {0, 1, 2, 3})
    await until(lambda: all(first.offsets[p] == [0, 0] for p in moved))
    await one.close()
