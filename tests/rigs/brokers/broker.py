"""The interface of a broker for tests, embedded or real."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from confluent_kafka import Message, TopicPartition
from confluent_kafka.cimpl import NewTopic

from streams.kafka.clients import AdminClient, Consumer, Producer
from streams.kafka.embedded_broker import EmbeddedBroker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_cluster import KafkaCluster
from tests.rigs.waiting import await_that

_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Broker:
    """A running broker, which all tests of a session share.

    So tests use ``unique`` names of topics and groups, and leave the broker running.
    """

    name: Literal["embedded", "kafka"]
    server: EmbeddedBroker | KafkaBroker | KafkaCluster

    @property
    def bootstrap_servers(self) -> str:
        return self.server.bootstrap_servers

    @property
    def supports_transactions(self) -> bool:
        """Return whether transactions isolate and fence; the embedded broker only accepts them."""
        return self.name == "kafka"

    @property
    def supports_compaction(self) -> bool:
        """Return whether topics are compacted, and have more than 5 MiB in a partition."""
        return self.name == "kafka"

    def create_topics(
        self, topics: Mapping[str, int], config: Mapping[str, str] | None = None
    ) -> None:
        """Create topics with numbers of partitions; the embedded broker ignores ``config``."""
        if isinstance(self.server, EmbeddedBroker):
            for name, partitions in topics.items():
                self.server.create_topic(name, partitions)
            return
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        wanted = [NewTopic(*each, 1, config=dict(config or {})) for each in topics.items()]
        created = admin.create_topics(
            wanted, operation_timeout=_SECONDS_MAX, request_timeout=_SECONDS_MAX
        )
        for future in created.values():
            future.result(_SECONDS_MAX)
        # The controller has created them; the broker knows them a moment later.
        await_that(lambda: topics.keys() <= admin.list_topics(timeout=_SECONDS_MAX).topics.keys())

    def new_topic(
        self, prefix: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic that no other test has, and return its name."""
        topic = self.unique(prefix)
        self.create_topics({topic: partitions}, config)
        return topic

    def transactional_producer(
        self, open_seconds: int = 60, *, transactional_id: str | None = None
    ) -> Producer:
        """Return a producer whose transactions are aborted after ``open_seconds``.

        It has fenced all earlier producers of its id.
        """
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": transactional_id or self.unique("writer"),
                "transaction.timeout.ms": open_seconds * 1000,
            }
        )
        producer.init_transactions(_SECONDS_MAX)
        return producer

    def unique(self, prefix: str) -> str:
        """Return a name of a topic, a group or a transactional id that no other test has."""
        return f"{prefix}-{uuid.uuid4().hex[:12]}"

    def consumer_settings(self, group_id: str, **settings: str | float) -> dict[str, Any]:
        """Return settings of a group's consumer: it reads from the start, and commits explicitly.

        ``settings`` are further ones, by librdkafka's names with ``_`` for ``.``.
        """
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            # The embedded broker delays an empty answer for all of this time.
            "fetch.wait.max.ms": 20,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the first offset of a partition, and its end."""
        with closing(Consumer(self.consumer_settings(self.unique("watermarks")))) as consumer:
            place = TopicPartition(topic, partition)
            return consumer.get_watermark_offsets(place, timeout=_SECONDS_MAX)

    def read_partition(
        self, topic: str, count: int, *, partition: int = 0, **settings: str | float
    ) -> list[Message]:
        """Return a partition's first records, read without a group; fewer after a time-out."""
        messages: list[Message] = []
        deadline = time.monotonic() + _SECONDS_MAX
        with closing(
            Consumer(self.consumer_settings(self.unique("reader"), **settings))
        ) as consumer:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while len(messages) < count and time.monotonic() < deadline:
                messages += consumer.consume(count - len(messages), timeout=_POLL_SECONDS)
        for message in messages:
            assert message.error() is None, message.error()
        return messages
