"""One test bench for clients on three brokers: simulated, in-process, and Apache Kafka.

The same tests of the contract in ``streams.worker.clients`` run on each broker. On the simulated
one time is virtual, and direct requests of a test to the broker take no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import TopicPartition

from streams.kafka.client_config import (
    appender_config,
    log_reader_config,
    output_config,
    raw_consumer_config,
)
from streams.kafka.clients import AdminClient, Producer
from streams.kafka.log_reader import LogReader
from streams.kafka.producers import Appender
from streams.kafka.raw_consumer import RawConsumer
from streams.kafka.transactions import OutputTransactions
from streams.settings.settings import GroupProtocol, Settings
from streams.worker.clients import GroupMember, OutputCommitter, PartitionReader, RecordAppender
from tests.rigs.brokers.broker import Broker
from tests.worker_simulation.assigned_member import AssignedGroupMember
from tests.worker_simulation.cluster import Cluster, ClusterLimits
from tests.worker_simulation.committers import SimulatedTransactions
from tests.worker_simulation.group import Committed, GroupMetadata
from tests.worker_simulation.host import Host
from tests.worker_simulation.log_clients import SimulatedAppender, SimulatedReader
from tests.worker_simulation.loop import Machine, SimulatedLoop, simulated
from tests.worker_simulation.member import SimulatedGroupMember
from tests.worker_simulation.transactions import OFFSETS

MESSAGE_BYTES: Final = 100_000
"""The largest record that a topic accepts."""
TIMEOUT_SECONDS: Final = 6.0

MEMBERS: Final = {
    GroupProtocol.CLASSIC: SimulatedGroupMember,
    GroupProtocol.CONSUMER: AssignedGroupMember,
}

_Result = TypeVar("_Result")


class SimulatedBench:
    def __init__(self, seed: int = 1, protocol: GroupProtocol = GroupProtocol.CLASSIC) -> None:
        self._member = MEMBERS[protocol]
        self._loop = SimulatedLoop(seed)
        self._loop.limit(1_000.0, 1_000_000)
        self.raw, self.group = "raw", "group"
        self._machines = 0
        limits = ClusterLimits(
            session_seconds=TIMEOUT_SECONDS,
            record_bytes=MESSAGE_BYTES,
            assigns=protocol is GroupProtocol.CONSUMER,
        )
        self._cluster = Cluster(self._loop, self.raw, limits)
        self._cluster.create_topic(self.raw, 3)

    def run(self, program: Coroutine[Any, Any, _Result]) -> _Result:
        machine = Machine(self._loop, "test")
        with simulated(self._loop):
            try:
                return self._loop.run_until_complete(self._loop.start(machine.program, program))
            finally:
                self._loop.finish()

    def topic(self, name: str, partitions: int) -> str:
        self._cluster.create_topic(name, partitions)
        return name

    def produce(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        for value in values:
            self._cluster.partition((topic, partition)).append(None, value)

    def committed(self, topic: str, partition: int, count: int) -> list[bytes]:
        records = self._cluster.partition((topic, partition)).read_committed()
        return [each.value or b"" for each in records][:count]

    def trim(self, topic: str, offset: int) -> None:
        self._cluster.partition((topic, 0)).trim(offset)

    def reader(self, topic: str) -> PartitionReader:
        return SimulatedReader(self._host(), topic, batch_records=7)

    def appender(self) -> RecordAppender:
        return SimulatedAppender(self._host())

    def transactions(self, name: str, changelog: str) -> OutputCommitter:
        return SimulatedTransactions(
            self._host(), name, changelog_topic=changelog, timeout_seconds=TIMEOUT_SECONDS
        )

    def member(self, name: str) -> GroupMember:
        return self._member(self._host(), self.raw, client_id=name, poll_records=7)

    def open_transaction(self, member_metadata: bytes, offset: int) -> Callable[[], None]:
        transactions = self._cluster.transactions
        producer = transactions.init("open", 60.0)
        transactions.add("open", producer, [OFFSETS])
        metadata = GroupMetadata.decoded(member_metadata)
        self._cluster.add_offsets("open", producer, metadata, {0: Committed(offset, "")})

        def commit() -> None:
            transactions.end("open", producer, committed=True)

        return commit

    def _host(self) -> Host:
        self._machines += 1
        return Host(Machine(self._loop, f"machine-{self._machines}"), self._cluster)


class BrokerBench:
    def __init__(self, broker: Broker, protocol: GroupProtocol = GroupProtocol.CLASSIC) -> None:
        self._broker = broker
        self.raw = broker.new_topic("raw", 3, self._limits())
        self.group = broker.unique("group")
        self._settings = Settings(
            application_id=self.group,
            brokers=broker.bootstrap_servers,
            group_protocol=protocol,
            send_timeout_seconds=TIMEOUT_SECONDS,
            kafka={"fetch.wait.max.ms": "20", "message.max.bytes": str(2 * MESSAGE_BYTES)},
        )

    def _limits(self) -> Mapping[str, str] | None:
        if not self._broker.supports_compaction:
            return None
        return {"max.message.bytes": str(MESSAGE_BYTES), "compression.type": "producer"}

    def run(self, program: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run(program)

    def topic(self, name: str, partitions: int) -> str:
        return self._broker.new_topic(name, partitions, self._limits())

    def produce(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers})
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(30) == 0

    def committed(self, topic: str, partition: int, count: int) -> list[bytes]:
        messages = self._broker.read_partition(
            topic, count, partition=partition, isolation_level="read_committed"
        )
        return [message.value() or b"" for message in messages]

    def trim(self, topic: str, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers})
        place = TopicPartition(topic, 0, offset)
        admin.delete_records([place])[place].result(30)

    def reader(self, topic: str) -> PartitionReader:
        return LogReader(log_reader_config(self._settings), topic, batch_records=7)

    def appender(self) -> RecordAppender:
        return Appender(appender_config(self._settings))

    def transactions(self, name: str, changelog: str) -> OutputCommitter:
        return OutputTransactions(
            output_config(self._settings),
            f"{self.group}.{name}",
            source_topic=self.raw,
            changelog_topic=changelog,
            timeout_seconds=TIMEOUT_SECONDS,
        )

    def member(self, name: str) -> GroupMember:
        return RawConsumer(raw_consumer_config(self._settings, name), self.raw, poll_records=7)

    def open_transaction(self, member_metadata: bytes, offset: int) -> Callable[[], None]:
        producer = self._broker.transactional_producer()
        producer.begin_transaction()
        offsets = [TopicPartition(self.raw, 0, offset)]
        producer.send_offsets_to_transaction(offsets, member_metadata, 30)

        def commit() -> None:
            producer.commit_transaction(30)

        return commit


Bench = SimulatedBench | BrokerBench
