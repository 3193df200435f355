"""Partitions move between consumers: nobody loses what was under way, and no zombie commits."""

from __future__ import annotations

import asyncio
import time

import pytest

from streams.errors import UnansweredError
from streams.kafka.client_config import output_config
from streams.kafka.errors import MemberFencedError, StaleGenerationError
from streams.kafka.transactions import OutputTransactions
from streams.settings.settings import Settings
from tests.rigs.brokers.broker import Broker
from tests.unit.kafka.recording_owner import RecordingOwner, settings_for, until
from tests.unit.kafka.test_raw_consumer import produce


async def transactions(settings: Settings, topic: str) -> OutputTransactions:
    made = OutputTransactions(
        output_config(settings),
        f"{settings.application_id}-one",
        source_topic=topic,
        changelog_topic="none",
        timeout_seconds=10,
    )
    await made.open()
    return made


def fresh(broker: Broker, partitions: int) -> tuple[str, Settings]:
    topic = broker.new_topic("group", partitions)
    return topic, settings_for(broker, topic)


async def test_a_second_member_gets_what_the_first_has_committed(kafka_broker: Broker) -> None:
    """Both when it joins, with the offsets committed meanwhile, and back when it leaves."""
    topic, settings = fresh(kafka_broker, 4)
    first, second = RecordingOwner(), RecordingOwner()
    one = first.open(settings, topic)
    commits = await transactions(settings, topic)

    async def commit(partitions: frozenset[int]) -> None:
        assert not second.owned & partitions
        await asyncio.sleep(0.3)
        await commits.commit([], {p: 40 + p for p in partitions}, first.metadata)

    await until(lambda: first.owned == {0, 1, 2, 3})
    first.on_revoke = commit
    two = second.open(settings, topic)
    await until(lambda: len(second.owned) == 2)
    assert first.owned | second.owned == {0, 1, 2, 3}
    moves = [each for each in first.events if each[0] != "assigned"]
    assert moves == [("revoked", second.owned)]
    offsets = await second.committed(range(4))
    assert offsets == {p: 40 + p if p in second.owned else -1 for p in range(4)}
    first.on_revoke = None
    began = time.monotonic()
    await two.close()
    assert time.monotonic() - began < 2
    await until(lambda: first.owned == {0, 1, 2, 3})
    # Those that it kept were never disturbed.
    assert all(name != "lost" for name, _ in first.events)
    await one.close()
    await commits.close()


async def test_a_revocation_waits_no_longer_than_it_may(
    kafka_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """What the owner does is not cancelled, but ends in its own time."""
    topic, settings = fresh(kafka_broker, 2)
    first, second = RecordingOwner(), RecordingOwner()
    committed = asyncio.Event()

    async def wait(_: frozenset[int]) -> None:
        await committed.wait()

    one = first.open(settings, topic, revoke_seconds=0.2)
    await until(lambda: len(first.owned) == 2)
    first.on_revoke = wait
    two = second.open(settings, topic)
    await until(lambda: len(second.owned) == 1)
    assert "in flight" in caplog.text
    assert first.owned == {0, 1}
    committed.set()
    await until(lambda: len(first.owned) == 1)
    assert first.owned | second.owned == {0, 1}
    assert ("revoked", second.owned) in first.events
    first.on_revoke = None
    await asyncio.gather(one.close(), two.close())


async def test_a_commit_of_a_member_that_has_left_is_refused(kafka_broker: Broker) -> None:
    topic, settings = fresh(kafka_broker, 2)
    first, second = RecordingOwner(), RecordingOwner()
    one = first.open(settings, topic)
    await until(lambda: len(first.owned) == 2)
    commits = await transactions(settings, topic)
    await commits.commit([], {0: 1}, first.metadata)
    two = second.open(settings, topic)
    await until(lambda: len(second.owned) == 1 and first.generations > 1)
    (theirs,), left = second.owned, second.metadata
    await two.close()
    with pytest.raises(StaleGenerationError):
        await commits.commit([], {theirs: 98}, left)
    offsets = await first.committed([theirs])
    assert offsets[theirs] == (1 if theirs == 0 else -1)
    await one.close()
    await commits.close()
    with pytest.raises(UnansweredError):
        await one.committed([0])


async def test_commits_are_served_while_partitions_are_revoked(broker: Broker) -> None:
    topic, settings = fresh(broker, 1)
    committed: list[dict[int, int]] = []
    owner = RecordingOwner()
    one = owner.open(settings, topic)
    await until(lambda: owner.owned == {0})

    async def commit(_: frozenset[int]) -> None:
        await one.commit({0: 4})
        committed.append(await one.committed([0]))

    owner.on_revoke = commit
    await one.close()
    assert owner.failure is None
    assert committed == [{0: 4}]


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
    assert len(first.events) == events
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
    topic, settings = fresh(kafka_broker, 4)
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
