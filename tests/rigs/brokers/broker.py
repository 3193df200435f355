"""What a test may ask of a broker, embedded or real."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from confluent_kafka import KafkaException, Message, TopicPartition
from confluent_kafka.cimpl import NewTopic

from streams.kafka.clients import AdminClient, Consumer, Producer
from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_cluster import KafkaCluster
from tests.rigs.waiting import await_that

_CREATE_SECONDS_MAX = 60.0
_READ_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Broker:
    """A running broker, shared by the tests of a session: so take topic and group names that are
    ``unique``, and leave it running.
    """

    name: Literal["embedded", "kafka"]
    server: EmbeddedBroker | KafkaBroker | KafkaCluster

    @property
    def bootstrap_servers(self) -> str:
        """The address that clients connect to, ``127.0.0.1:port``."""
        return self.server.bootstrap_servers

    @property
    def supports_transactions(self) -> bool:
        """Whether transactions isolate and fence; the embedded broker only accepts them."""
        return self.name == "kafka"

    @property
    def supports_compaction(self) -> bool:
        """Whether a topic is kept for longer than its last 5 MiB a partition, and compacted."""
        return self.name == "kafka"

    def create_topics(
        self, topics: Mapping[str, int], config: Mapping[str, str] | None = None
    ) -> None:
        """Make topics, each with its number of partitions.

        Args:
            topics: Partitions for each name.
            config: Topic settings, such as ``cleanup.policy``; the embedded broker has none.
        """
        if isinstance(self.server, EmbeddedBroker):
            for name, partitions in topics.items():
                self.server.create_topic(name, partitions)
            return
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        created = admin.create_topics(
            [
                NewTopic(name, partitions, replication_factor=1, config=dict(config or {}))
                for name, partitions in topics.items()
            ],
            operation_timeout=_CREATE_SECONDS_MAX,
            request_timeout=_CREATE_SECONDS_MAX,
        )
        for future in created.values():
            future.result(_CREATE_SECONDS_MAX)

        # The controller has made them; the broker learns of them a moment later.
        def are_known() -> bool:
            known = admin.list_topics(timeout=_CREATE_SECONDS_MAX).topics
            return all(name in known for name in topics)

        await_that(are_known)

    def new_topic(
        self, prefix: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic that no other test has, and return its name."""
        topic = self.unique(prefix)
        self.create_topics({topic: partitions}, config)
        return topic

    def transactional_producer(self, open_seconds: int = 60) -> Producer:
        """A producer that is ready for a transaction, which is aborted after ``open_seconds``."""
        config: dict[str, str | int] = {"bootstrap.servers": self.bootstrap_servers}
        config["transactional.id"] = self.unique("writer")
        config["transaction.timeout.ms"] = open_seconds * 1000
        producer = Producer(config)
        producer.init_transactions(_CREATE_SECONDS_MAX)
        return producer

    def unique(self, prefix: str) -> str:
        """A name for a topic, a group or a transactional id that no other test has."""
        return f"{prefix}-{uuid.uuid4().hex[:12]}"

    def consumer_settings(self, group_id: str, **settings: str | float) -> dict[str, Any]:
        """For a confluent-kafka Consumer: from the start of the topic, commits by hand.

        Args:
            group_id: The consumer group.
            settings: Others, in librdkafka's names with ``_`` for ``.``.
        """
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            # The embedded broker holds an empty answer for all of it.
            "fetch.wait.max.ms": 20,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def read_partition(
        self, topic: str, count: int, *, partition: int = 0, **settings: str | float
    ) -> list[Message]:
        """The first records of a partition, read without a group.

        Args:
            topic: The topic.
            count: Return as soon as there are so many.
            partition: Which one.
            settings: Of the consumer, in librdkafka's names with ``_`` for ``.``.

        Returns:
            Fewer than ``count`` if no more came within 20 seconds.
        """
        consumer = Consumer(self.consumer_settings(self.unique("reader"), **settings))
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            messages: list[Message] = []
            deadline = time.monotonic() + _READ_SECONDS_MAX
            while len(messages) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(messages), timeout=_POLL_SECONDS):
                    error = message.error()
                    if error is not None:
                        raise KafkaException(error)
                    messages.append(message)
            return messages
        finally:
            consumer.close()
