"""Faults of three brokers, by role: kill, stop, pause; move leaders and replicas.

Only one broker has a fault at a time, and the next fault waits until all replicas are in sync: two
brokers are enough, because every write needs two replicas. Only one kind of fault removes two
brokers, and then no stall counts.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import ElectionType, KafkaException, TopicPartition

from streams.kafka.clients import AdminClient
from streams.settings.settings import Settings
from tests.rigs.brokers.kafka_broker import KafkaBroker, KafkaBrokerError
from tests.rigs.brokers.kafka_cluster import BROKERS, KafkaCluster
from tests.torture.clocks import BrokerClock
from tests.torture.disks import (
    Sizes,
    active_segments,
    lose_partitions,
    lose_tails,
    tear_last_writes,
    without_room,
)
from tests.torture.faults import Act, Fault, NobodyError
from tests.torture.inspection import LogEnds
from tests.torture.kafka_requests import RequestError, active_controller, reassign
from tests.torture.workers import Cluster

DOWN_SECONDS = (0.0, 12.0)
PAUSED_SECONDS = (1.0, 15.0)  # shorter and longer than the session of a broker, which is 6 s
BOTH_DOWN_SECONDS = (2.0, 10.0)
APART_SECONDS = (0.0, 3.0)
WRITTEN_SECONDS = (2.0, 10.0)  # what a broker wrote in these, its disk may not have
CLOCK_MINUTES = (-30.0, 30.0)
CLOCK_SECONDS = (3.0, 20.0)
FULL_SECONDS = (3.0, 20.0)
FREE_SECONDS = 20.0
WHOLE_SECONDS = 120.0
METADATA_SECONDS = 3.0
LOOK_SECONDS = 0.5
ANSWER_SECONDS = 15.0
ELECTION_SECONDS = 6.0
COPIES_SECONDS = 30.0
GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"


class Role(StrEnum):
    ANY = "any"
    LOG_LEADER = "the leader of the log"
    REPORTS_LEADER = "the leader of the reports"
    GROUP_COORDINATOR = "the group's coordinator"
    TRANSACTION_COORDINATOR = "the transaction coordinator"
    CONTROLLER = "the active controller"


class Brokers:
    """Knows which role each of three brokers has; one fault at a time gets them."""

    def __init__(
        self,
        rng: random.Random,
        kafka: KafkaCluster,
        settings: Settings,
        narrate: Callable[[str], None],
    ) -> None:
        self.all = kafka.brokers
        self.admin = AdminClient(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "log_level": 0,
                "socket.timeout.ms": int(METADATA_SECONDS * 1000),
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._rng = rng
        self._topics = {
            Role.LOG_LEADER: settings.topics.log,
            Role.REPORTS_LEADER: settings.topics.reports,
            Role.GROUP_COORDINATOR: GROUP_TOPIC,
            Role.TRANSACTION_COORDINATOR: TRANSACTION_TOPIC,
        }
        self._narrate = narrate
        self._hand = asyncio.Lock()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Take all brokers until they are whole again; raises ``NobodyError``."""
        try:
            async with asyncio.timeout(FREE_SECONDS):
                await self._hand.acquire()
        except TimeoutError:
            raise NobodyError("another fault has the brokers") from None
        try:
            yield
            await self._await_whole()
        finally:
            self._hand.release()

    @asynccontextmanager
    async def victim(self, what: str, role: Role = Role.ANY) -> AsyncIterator[KafkaBroker]:
        async with self.held():
            broker = await self.with_role(role)
            self._narrate(f"broker {broker.node_id}{_as(role)}: {what}")
            yield broker

    async def with_role(self, role: Role) -> KafkaBroker:
        if role is Role.ANY:
            return self._rng.choice(self.all)
        if role is Role.CONTROLLER:
            number = await asyncio.to_thread(self._controller)
        else:
            partitions = (await self.topics())[self._topics[role]]
            number = partitions[0].leader
        for broker in self.all:
            if broker.node_id == number:
                return broker
        raise NobodyError(f"nobody is {role}")

    async def topics(self) -> dict[str, Any]:
        """The partitions of all topics, by topic; raises ``NobodyError`` if no broker responds."""
        try:
            known = await asyncio.to_thread(self.admin.list_topics, timeout=METADATA_SECONDS)
        except KafkaException as error:
            raise NobodyError("no broker says who leads") from error
        return {name: topic.partitions for name, topic in known.topics.items()}

    def _controller(self) -> int:
        for broker in self.all:
            with suppress(RequestError):
                return active_controller(broker.bootstrap_servers)
        raise NobodyError("no broker says who is the controller")

    async def _await_whole(self) -> None:
        """Wait until there are three brokers, and three replicas of everything in sync."""
        began = time.monotonic()
        while time.monotonic() < began + WHOLE_SECONDS:
            if await asyncio.to_thread(self._is_whole):
                self._narrate(f"brokers: whole again, after {time.monotonic() - began:.1f} s")
                return
            await asyncio.sleep(LOOK_SECONDS)
        self._narrate("brokers: NOT whole again")

    def _is_whole(self) -> bool:
        """Return whether each broker serves requests, and all replicas are in sync.

        The controller considers a killed broker alive until its session ends.
        """
        try:
            for broker in self.all:
                active_controller(broker.bootstrap_servers, METADATA_SECONDS)
            known = self.admin.list_topics(timeout=METADATA_SECONDS)
        except (KafkaException, RequestError):
            return False
        return len(known.brokers) == BROKERS and all(
            len(each.isrs) == BROKERS
            for topic in known.topics.values()
            for each in topic.partitions.values()
        )


def _as(role: Role) -> str:
    return "" if role is Role.ANY else f", {role}"


class ClusterActs:
    """Carries out the faults of three brokers that concern processes, leaders and replicas."""

    def __init__(
        self,
        rng: random.Random,
        cluster: Cluster,
        brokers: Brokers,
        log: LogEnds,
        settings: Settings,
        clocks: Mapping[int, BrokerClock],
        narrate: Callable[[str], None],
    ) -> None:
        self._rng = rng
        self._cluster = cluster
        self._brokers = brokers
        self._clocks = clocks
        self._log = log
        self._settings = settings
        self._narrate = narrate

    @property
    def by_fault(self) -> Mapping[Fault, Act]:
        return {
            Fault.KILL_BROKER: partial(self._kill, Role.ANY),
            Fault.KILL_BROKER_IN_APPEND: self._kill_in_append,
            Fault.KILL_LOG_LEADER: partial(self._kill, Role.LOG_LEADER),
            Fault.KILL_GROUP_COORDINATOR: partial(self._kill, Role.GROUP_COORDINATOR),
            Fault.KILL_TRANSACTION_COORDINATOR: partial(self._kill, Role.TRANSACTION_COORDINATOR),
            Fault.KILL_CONTROLLER: partial(self._kill, Role.CONTROLLER),
            Fault.POWER_LOSS_BROKER: partial(self._lose_power, lose_tails),
            Fault.TORN_WRITE_BROKER: partial(self._lose_power, tear_last_writes),
            Fault.DISK_FULL_BROKER: self._fill_disk,
            Fault.LOST_DISK_BROKER: self._lose_disk,
            Fault.CLOCK_BROKER: self._move_clock,
            Fault.STOP_BROKER: self._stop,
            Fault.PAUSE_BROKER: partial(self._pause, Role.ANY),
            Fault.PAUSE_LOG_LEADER: partial(self._pause, Role.LOG_LEADER),
            Fault.RESTART_BROKERS: self._restart_all,
            Fault.KILL_TWO_BROKERS: self._kill_two,
            Fault.MOVE_LOG_LEADER: self._move_log_leader,
            Fault.ELECT_PREFERRED: self._elect_preferred,
            Fault.REASSIGN: self._reassign,
        }

    async def _kill(self, role: Role) -> None:
        async with self._brokers.victim("kill -9", role) as broker:
            await asyncio.to_thread(broker.kill)
            await self._sleep(DOWN_SECONDS)
            await self._start(broker)

    async def _kill_in_append(self) -> None:
        """Kill the leader of the log right after an append, so that responses are often lost."""
        async with self._brokers.held():
            broker = await self._brokers.with_role(Role.LOG_LEADER)
            if not await asyncio.to_thread(self._log.at_an_append, broker.kill):
                raise NobodyError("nothing was appended")
            self._narrate(f"broker {broker.node_id}: kill -9 at an append to the log")
            await self._sleep(DOWN_SECONDS)
            await self._start(broker)

    async def _lose_power(self, lose: Callable[[random.Random, Path, Sizes], int]) -> None:
        """Kill a broker; it loses writes of the last seconds, which the other two have."""
        async with self._brokers.victim("power lost", self._rng.choice(list(Role))) as broker:
            synced = await asyncio.to_thread(active_segments, broker.data)
            await self._sleep(WRITTEN_SECONDS)
            await asyncio.to_thread(broker.kill)
            lost = await asyncio.to_thread(lose, self._rng, broker.data, synced)
            self._narrate(f"broker {broker.node_id}: {lost} bytes are lost")
            await self._sleep(DOWN_SECONDS)
            await self._start(broker)

    async def _fill_disk(self) -> None:
        """Leave a broker no room, which ends it; later it has room, and is started again."""
        async with self._brokers.victim("no room", self._rng.choice(list(Role))) as broker:
            with ExitStack() as full:
                await asyncio.to_thread(full.enter_context, without_room(broker.data))
                await self._sleep(FULL_SECONDS)
            said = "had ended" if not broker.is_running() else "still ran"
            self._narrate(f"broker {broker.node_id}: has room again, and {said}")
            await asyncio.to_thread(broker.kill)
            await self._start(broker)

    async def _lose_disk(self) -> None:
        """Kill a broker, and replace its disk once the others do not count on it any more."""
        async with self._brokers.victim("its disk dies", self._rng.choice(list(Role))) as broker:
            await asyncio.to_thread(broker.kill)

            async def counts_no_more() -> bool:
                try:
                    topics = await self._brokers.topics()
                except NobodyError:
                    return False
                partitions = [each for topic in topics.values() for each in topic.values()]
                return not any(broker.node_id in each.isrs for each in partitions)

            try:
                if not await _until(counts_no_more, COPIES_SECONDS):
                    raise NobodyError("the others still count on its disk")
                lost = await asyncio.to_thread(lose_partitions, broker.data)
                self._narrate(f"broker {broker.node_id}: a new disk, without {lost} partitions")
            finally:
                await self._start(broker)

    async def _move_clock(self) -> None:
        """Let a broker's wall clock jump, forward or back, and later jump to the right time."""
        minutes = self._rng.uniform(*CLOCK_MINUTES)
        what = f"its clock jumps by {minutes:+.1f} minutes"
        if not all(clock.can_jump for clock in self._clocks.values()):
            raise NobodyError("no libfaketime here: install libfaketime")
        async with self._brokers.victim(what, self._rng.choice(list(Role))) as broker:
            clock = self._clocks[broker.node_id]
            clock.set(60 * minutes)
            try:
                await self._sleep(CLOCK_SECONDS)
            finally:
                clock.set(0)

    async def _stop(self) -> None:
        async with self._brokers.victim("SIGTERM") as broker:
            await self._stop_gently(broker)
            await self._sleep(DOWN_SECONDS)
            await self._start(broker)

    async def _pause(self, role: Role) -> None:
        async with self._brokers.victim("SIGSTOP", role) as broker:
            broker.send_signal(signal.SIGSTOP)
            try:
                await self._sleep(PAUSED_SECONDS)
            finally:
                broker.send_signal(signal.SIGCONT)
            self._narrate(f"broker {broker.node_id}: SIGCONT")

    async def _restart_all(self) -> None:
        """Restart all brokers one by one, as in an upgrade: the next one when all are whole."""
        for broker in self._rng.sample(self._brokers.all, BROKERS):
            async with self._brokers.held():
                self._narrate(f"broker {broker.node_id}: SIGTERM, one after the other")
                await self._stop_gently(broker)
                await self._start(broker)

    async def _kill_two(self) -> None:
        async with self._brokers.held():
            victims = self._rng.sample(self._brokers.all, 2)
            with self._cluster.without_brokers():
                self._narrate(f"brokers {[each.node_id for each in victims]}: kill -9 of both")
                for broker in victims:
                    await asyncio.to_thread(broker.kill)
                    await self._sleep(APART_SECONDS)
                await self._sleep(BOTH_DOWN_SECONDS)
                await asyncio.gather(*map(self._start, victims))

    async def _move_log_leader(self) -> None:
        """Make another replica the preferred leader, and elect it."""
        topic = self._settings.topics.log
        partition = (await self._brokers.topics())[topic][0]
        others = [node for node in partition.replicas if node != partition.leader]
        self._rng.shuffle(others)
        self._narrate(f"log: its leader is moved from broker {partition.leader} to {others[0]}")
        await self._give_copies(topic, {0: [*others, partition.leader]})
        await self._elect([TopicPartition(topic, 0)])

        async def has_moved() -> bool:
            with suppress(NobodyError):
                return bool((await self._brokers.topics())[topic][0].leader == others[0])
            return False

        if not await _until(has_moved, ELECTION_SECONDS):
            raise NobodyError("the leader did not move")

    async def _elect_preferred(self) -> None:
        """Elect the preferred leader of each partition, also of Kafka's own topics."""
        self._narrate("all partitions: the preferred leaders are elected")
        await self._elect(None)

    async def _elect(self, partitions: list[TopicPartition] | None) -> None:
        def elect() -> None:
            admin = self._brokers.admin
            # With a time-out this call raises SystemError (confluent-kafka 2.16).
            elected = admin.elect_leaders(ElectionType.PREFERRED, partitions)
            elected.result(ANSWER_SECONDS)

        try:
            await asyncio.to_thread(elect)
        except (KafkaException, TimeoutError) as error:
            raise NobodyError(f"the brokers elect nobody: {error}") from error

    async def _reassign(self) -> None:
        """Remove one replica of each partition of a topic, then add it again in another order."""
        topics = self._settings.topics
        topic = self._rng.choice([topics.log, topics.changelog, topics.raw, topics.unique])
        async with self._brokers.held():
            partitions = (await self._brokers.topics())[topic]
            self._narrate(f"{topic}: a copy of each partition is taken away and given back")
            fewer, all_of_them = {}, {}
            for number, partition in partitions.items():
                nodes = self._rng.sample(list(partition.replicas), len(partition.replicas))
                fewer[number], all_of_them[number] = nodes[1:], nodes[1:] + nodes[:1]
            await self._give_copies(topic, fewer)
            await self._await_copies(topic, fewer)
            await self._give_copies(topic, all_of_them)
            await self._await_copies(topic, all_of_them)

    async def _give_copies(self, topic: str, copies: Mapping[int, Sequence[int]]) -> None:
        reason = ""
        for broker in self._brokers.all:
            try:
                await asyncio.to_thread(reassign, broker.bootstrap_servers, topic, copies)
            except RequestError as error:
                reason = str(error)
            else:
                return
        raise NobodyError(f"no broker moves copies: {reason}")

    async def _await_copies(self, topic: str, copies: Mapping[int, Sequence[int]]) -> None:
        async def are_there() -> bool:
            with suppress(NobodyError):
                known = (await self._brokers.topics())[topic]
                return all(
                    set(known[number].replicas) == set(known[number].isrs) == set(nodes)
                    for number, nodes in copies.items()
                )
            return False

        if not await _until(are_there, COPIES_SECONDS):
            self._narrate(f"{topic}: the copies are NOT where they should be")

    async def _stop_gently(self, broker: KafkaBroker) -> None:
        try:
            await asyncio.to_thread(broker.stop)
        except KafkaBrokerError as error:
            self._narrate(
                f"broker {broker.node_id}: had to be killed: {str(error).splitlines()[0]}"
            )

    async def _start(self, broker: KafkaBroker) -> None:
        """Start a broker and return: the task that has the brokers waits until they are whole."""
        await asyncio.to_thread(broker.launch)

    async def _sleep(self, seconds: tuple[float, float]) -> None:
        await asyncio.sleep(self._rng.uniform(*seconds))


async def _until(holds: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if await holds():
            return True
        await asyncio.sleep(LOOK_SECONDS)
    return False
