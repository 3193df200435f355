"""The follower reads the commits of owners, partition by partition, and knows the end."""

from __future__ import annotations

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

    async def catch_up(self, follower: ChangelogFollower, partition: int) -> None:
        end = await follower.end(partition, WAIT_SECONDS)
        assert await follower.reach(partition, end, WAIT_SECONDS)

    async def deliver(self, partition: int, batch: LoggedBatch) -> None:
        self.values[partition] += batch.values


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def test_partitions_are_followed_from_their_offsets(broker: Broker) -> None:
    followed = Followed(broker)
    for partition in range(3):
        followed.append(partition, 0, 120)
    follower = followed.follower()
    follower.follow(0, 0)
    follower.follow(2, 100)
    for partition in (0, 2):
        await followed.catch_up(follower, partition)
    followed.append(2, 120, 130)
    await followed.catch_up(follower, 2)
    assert follower.lag == 0
    await follower.close()
    assert followed.values == {0: numbers(0, 120), 2: numbers(100, 130)}
    assert followed.failures == []


async def test_partition_that_is_left_is_delivered_no_more(broker: Broker) -> None:
    followed = Followed(broker)
    followed.append(1, 0, 50)
    follower = followed.follower()
    follower.follow(1, 0)
    await until(lambda: len(followed.values[1]) > 0)
    follower.leave(1)
    followed.values[1].clear()
    followed.append(1, 50, 60)
    assert not await follower.reach(1, 60, WAIT_SECONDS), "nothing is followed"
    assert followed.values[1] == []
    follower.follow(1, 40)
    await followed.catch_up(follower, 1)
    await follower.close()
    assert followed.values[1] == numbers(40, 60)
    assert followed.failures == []


async def test_offset_that_is_not_there_ends_the_follower(broker: Broker) -> None:
    """An offset is missing after the topic was created again."""
    followed = Followed(broker)
    followed.append(0, 0, 10)
    follower = followed.follower()
    follower.follow(0, 1_000)
    await until(lambda: bool(followed.failures))
    await follower.close()
    assert followed.values == {}
