"""What owners commit is followed, partition by partition, and the end is known."""

from __future__ import annotations

import asyncio

from streams.kafka.client_config import changelog_group, consumer_config
from streams.kafka.clients import Producer
from streams.store.changelog import ChangelogFollower, LoggedBatch
from tests.rigs.brokers.broker import Broker
from tests.unit.kafka.recording_owner import settings_for, until

WAIT_SECONDS = 30.0


class Followed:
    """A topic of three partitions, and what a follower of it delivers."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topic = broker.new_topic("changelog", 3)
        self.values: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
        self.offsets: dict[int, list[int]] = {0: [], 1: [], 2: []}
        self.failures: list[Exception] = []

    def append(self, partition: int, first: int, end: int) -> None:
        if self.broker.supports_transactions:
            producer = self.broker.transactional_producer()
            producer.begin_transaction()
        else:
            producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for number in range(first, end):
            producer.produce(self.topic, b"%d" % number, b"key", partition=partition)
        if self.broker.supports_transactions:
            producer.commit_transaction(WAIT_SECONDS)
        assert producer.flush(WAIT_SECONDS) == 0

    def follower(self) -> ChangelogFollower:
        settings = settings_for(self.broker, self.topic)
        config = consumer_config(settings, group_id=changelog_group(settings))
        follower = ChangelogFollower(config, self.topic, self.deliver)
        follower.begin(self.failures.append)
        return follower

    async def deliver(self, partition: int, batch: LoggedBatch) -> None:
        self.values[partition] += batch.values
        self.offsets[partition] += batch.offsets


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_partitions_are_followed_from_their_offsets(broker: Broker) -> None:
    followed = Followed(broker)
    for partition in range(3):
        followed.append(partition, 0, 120)

    async def run() -> None:
        follower = followed.follower()
        follower.follow(0, 0)
        follower.follow(2, 100)
        for partition in (0, 2):
            end = await follower.end(partition, WAIT_SECONDS)
            assert await follower.reach(partition, end, WAIT_SECONDS)
        followed.append(2, 120, 130)
        end = await follower.end(2, WAIT_SECONDS)
        assert await follower.reach(2, end, WAIT_SECONDS)
        assert follower.lag == 0
        await follower.close()

    asyncio.run(run())
    assert followed.values == {0: numbers(0, 120), 1: [], 2: numbers(100, 130)}
    assert followed.failures == []


def test_a_partition_that_is_left_is_delivered_no_more(broker: Broker) -> None:
    followed = Followed(broker)
    followed.append(1, 0, 50)

    async def run() -> None:
        follower = followed.follower()
        follower.follow(1, 0)
        await until(lambda: len(followed.values[1]) > 0)
        follower.leave(1)
        followed.values[1].clear()
        followed.append(1, 50, 60)
        assert not await follower.reach(1, 60, WAIT_SECONDS), "nothing is followed"
        assert followed.values[1] == []
        follower.follow(1, 40)
        end = await follower.end(1, WAIT_SECONDS)
        assert await follower.reach(1, end, WAIT_SECONDS)
        await follower.close()

    asyncio.run(run())
    assert followed.values[1] == numbers(40, 60)
    assert followed.failures == []


def test_an_offset_that_is_not_there_ends_the_follower(broker: Broker) -> None:
    """Such is the offset after the topic was created again."""
    followed = Followed(broker)
    followed.append(0, 0, 10)

    async def run() -> None:
        follower = followed.follower()
        follower.follow(0, 1_000)
        await until(lambda: bool(followed.failures))
        await follower.close()

    asyncio.run(run())
    assert followed.values[0] == []
