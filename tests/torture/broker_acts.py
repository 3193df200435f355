"""Faults of a single broker, and changes of topics."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewPartitions

from simhash_core.errors import FirstseenError
from streams.kafka.clients import AdminClient
from streams.settings.settings import Settings
from streams.topics.admin import create
from streams.topics.plans import topic_plans
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.torture.faults import Act, Fault, NobodyError
from tests.torture.feed import Feed
from tests.torture.inspection import LogEnds
from tests.torture.workers import Cluster

DOWN_SECONDS = (0.0, 3.0)
BETWEEN_SECONDS = 10.0
ANSWER_SECONDS = 30.0
AGAIN_SECONDS = 1.0
PARTITIONS_MAX = 12


class BrokerActs:
    """Carries out each fault of a single broker, one at a time."""

    def __init__(
        self,
        rng: random.Random,
        cluster: Cluster,
        broker: KafkaBroker,
        log: LogEnds,
        narrate: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._cluster = cluster
        self._broker = broker
        self._log = log
        self._narrate = narrate
        self._in_hand = asyncio.Lock()

    @property
    def by_fault(self) -> Mapping[Fault, Act]:
        return {
            Fault.KILL_BROKER: self._kill,
            Fault.KILL_BROKER_IN_APPEND: self._kill_in_append,
        }

    async def _kill(self) -> None:
        async with self._in_hand:
            await self._killed("kill -9")

    async def _kill_in_append(self) -> None:
        """Kill the broker right after an append to the log, so that responses are often lost."""
        async with self._in_hand:
            if not await asyncio.to_thread(self._log.at_an_append, self._broker.kill):
                raise NobodyError("nothing was appended")
            await self._killed("kill -9 at an append to the log")

    async def _killed(self, what: str) -> None:
        self._narrate(f"broker: {what}")
        away = time.monotonic()
        with self._cluster.without_brokers():
            await asyncio.to_thread(self._broker.kill)
            await asyncio.sleep(self._rng.uniform(*DOWN_SECONDS))
            await asyncio.to_thread(self._broker.start)
        self._narrate(f"broker: answers again, after {time.monotonic() - away:.1f} s")
        await asyncio.sleep(BETWEEN_SECONDS)


class TopicActs:
    """People's changes of topics, one at a time."""

    def __init__(
        self,
        rng: random.Random,
        settings: Settings,
        cluster: Cluster,
        feed: Feed,
        narrate: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._settings = settings
        self._cluster = cluster
        self._feed = feed
        self._narrate = narrate
        self._in_hand = asyncio.Lock()

    @property
    def by_fault(self) -> Mapping[Fault, Act]:
        return {
            Fault.ADD_PARTITION: self._add_partition,
            Fault.RECREATE_REPORTS: self._recreate_reports,
        }

    async def _add_partition(self) -> None:
        async with self._in_hand:
            partitions = self._feed.partitions + 1
            if partitions > PARTITIONS_MAX:
                raise NobodyError("the raw topic has enough partitions")
            self._narrate(f"raw topic: {partitions} partitions")
            try:
                await asyncio.to_thread(self._grow, partitions)
            except KafkaException as error:
                raise NobodyError(f"the broker refuses: {error}") from error
            self._feed.partitions = partitions

    def _grow(self, partitions: int) -> None:
        wanted = [NewPartitions(self._feed.topic, partitions)]
        admin = self._admin()  # its requests end when it is deleted
        for made in admin.create_partitions(wanted, operation_timeout=ANSWER_SECONDS).values():
            made.result(ANSWER_SECONDS)

    async def _recreate_reports(self) -> None:
        """Delete the reports topic, which no committed state needs, and create it again."""
        topic = self._settings.topics.reports
        async with self._in_hand:
            with self._cluster.without_reports():
                self._narrate(f"{topic}: deleted")
                try:
                    await asyncio.to_thread(self._delete, topic)
                except KafkaException as error:
                    raise NobodyError(f"the brokers refuse: {error}") from error
                finally:  # they may have deleted it and not said so
                    await asyncio.sleep(self._rng.uniform(*DOWN_SECONDS))
                    await self._create(topic)
            self._narrate(f"{topic}: created again")

    def _delete(self, topic: str) -> None:
        admin = self._admin()
        deleted = admin.delete_topics([topic], operation_timeout=ANSWER_SECONDS)
        deleted[topic].result(ANSWER_SECONDS)

    async def _create(self, topic: str) -> None:
        """Create a topic as ``firstseen topics create`` does; try until the brokers do it."""
        plans = [each for each in topic_plans(self._settings, 1) if each.name == topic]
        while True:
            try:
                await asyncio.to_thread(create, self._admin(), plans)
            except FirstseenError as error:
                self._narrate(f"{topic}: is not created yet: {error}")
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._settings.brokers})
