"""Faults of a single broker, and of the raw topic."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewPartitions

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.torture.faults import Act, Fault, NobodyError
from tests.torture.feed import Feed
from tests.torture.inspection import LogEnds
from tests.torture.workers import Cluster

DOWN_SECONDS = (0.0, 3.0)
BETWEEN_SECONDS = 10.0
ANSWER_SECONDS = 30.0
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


class RawTopicActs:
    """Adds partitions to the raw topic."""

    def __init__(self, brokers: str, feed: Feed, narrate: Callable[[str], None]) -> None:
        self._brokers = brokers
        self._feed = feed
        self._narrate = narrate
        self._in_hand = asyncio.Lock()

    @property
    def by_fault(self) -> Mapping[Fault, Act]:
        return {Fault.ADD_PARTITION: self._add_partition}

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
        admin = AdminClient({"bootstrap.servers": self._brokers})
        wanted = [NewPartitions(self._feed.topic, partitions)]
        for made in admin.create_partitions(wanted, operation_timeout=ANSWER_SECONDS).values():
            made.result(ANSWER_SECONDS)
