"""What is done to the broker, and to the raw topic."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewPartitions

from streams.kafka.clients import AdminClient
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.torture.faults import Act, Fault, NobodyError
from tests.torture.feed import Feed
from tests.torture.log_ends import LogEnds
from tests.torture.workers import Away, Cluster

BROKER_DOWN_SECONDS = (0.0, 3.0)
BROKER_BETWEEN_SECONDS = 10.0
APPEND_SECONDS = 20.0
ANSWER_SECONDS = 30.0
PARTITIONS_MOST = 12


class BrokerFaults:
    """Faults of the broker, one at a time."""

    def __init__(
        self,
        rng: random.Random,
        cluster: Cluster,
        broker: KafkaBroker,
        feed: Feed,
        log: LogEnds,
        narrate: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._cluster = cluster
        self._broker = broker
        self._feed = feed
        self._log = log
        self._narrate = narrate
        self._in_hand = asyncio.Lock()

    @property
    def acts(self) -> Mapping[Fault, Act]:
        return {
            Fault.KILL_BROKER: self._kill_broker,
            Fault.KILL_BROKER_IN_APPEND: self._kill_broker_in_append,
            Fault.ADD_PARTITION: self._add_partition,
        }

    async def _kill_broker(self) -> None:
        async with self._in_hand:
            await self._kill("kill -9")

    async def _kill_broker_in_append(self) -> None:
        """Kill it right after an append to the log: its answers are lost as often as not."""
        async with self._in_hand:
            appended = await asyncio.to_thread(self._kill_at_an_append)
            if not appended:
                raise NobodyError("nothing was appended")
            await self._kill("kill -9 at an append to the log")

    def _kill_at_an_append(self) -> bool:
        end, deadline = self._log.end(), time.monotonic() + APPEND_SECONDS
        while time.monotonic() < deadline:
            if self._log.end() > end:
                self._broker.kill()
                return True
        return False

    async def _kill(self, what: str) -> None:
        self._narrate(f"broker: {what}")
        away = time.monotonic()
        self._cluster.broker_away = Away(away, math.inf)
        await asyncio.to_thread(self._broker.kill)
        await asyncio.sleep(self._rng.uniform(*BROKER_DOWN_SECONDS))
        await asyncio.to_thread(self._broker.start)
        back = time.monotonic()
        self._cluster.broker_away = Away(away, back)
        self._narrate(f"broker: answers again, after {back - away:.1f} s")
        await asyncio.sleep(BROKER_BETWEEN_SECONDS)

    async def _add_partition(self) -> None:
        async with self._in_hand:
            partitions = self._feed.partitions + 1
            if partitions > PARTITIONS_MOST:
                raise NobodyError("the raw topic has enough partitions")
            self._narrate(f"raw topic: {partitions} partitions")
            try:
                await asyncio.to_thread(self._grow, partitions)
            except KafkaException as error:
                raise NobodyError(f"the broker refuses: {error}") from error
            self._feed.grow(partitions)

    def _grow(self, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers})
        wanted = [NewPartitions(self._feed.topic, partitions)]
        for made in admin.create_partitions(wanted, operation_timeout=ANSWER_SECONDS).values():
            made.result(ANSWER_SECONDS)
