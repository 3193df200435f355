"""The follower reads the commits of owners, partition by partition, and knows the end."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from streams.kafka.client_config import changelog_group, client_config
from streams.store.changelog import ChangelogFollower, LoggedBatch
from streams.store.changelog_codec import ChangelogRecord
from tests.rigs.async_tests import until
from tests.rigs.brokers.broker import Broker
from tests.unit.kafka.recording_owner import settings_for
from tests.unit.store.changelog import ChangelogTopic

WAIT_SECONDS = 30.0


class Followed:
    def __init__(self, broker: Broker) -> None:
        self.topic = ChangelogTopic(broker)
        self.values: dict[int, list[bytes | None]] = defaultdict(list)
        self.failures: list[Exception] = []

    def append(self, partition: int, first: int, end: int) -> None:
        records = [ChangelogRecord(value, value) for value in numbers(first, end)]
        self.topic.send(records, partition)

    def follower(self) -> ChangelogFollower:
        settings = settings_for(self.topic.broker, self.topic.name)
        config = client_config(settings, group_id=changelog_group(settings))
        follower = ChangelogFollower(config, self.topic.name, self.deliver)
        follower.begin(self.failures.append)
        return follower

    async def deliver(self, partition: int, batch: LoggedBatch) -> None:
        self.values[partition] += batch.values


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
    assert followed.values == {0: numbers(0, 120), 2: numbers(100, 130)}
    assert followed.failures == []


def test_partition_that_is_left_is_delivered_no_more(broker: Broker) -> None:
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


def test_offset_that_is_not_there_ends_the_follower(broker: Broker) -> None:
    """An offset is missing after the topic was created again."""
    followed = Followed(broker)
    followed.append(0, 0, 10)

    async def run() -> None:
        follower = followed.follower()
        follower.follow(0, 1_000)
        await until(lambda: bool(followed.failures))
        await follower.close()

    asyncio.run(run())
    assert followed.values == {}
