"""Delivers requests late, after their client has sent them again and begun the next transaction.

A proxy stands between the clients and their own Kafka, and keeps one request back. It delivers the
request while the next transaction runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.cimpl import NewTopic

from streams.errors import UnansweredError
from streams.kafka.clients import AdminClient, Consumer, Producer, committed_offsets, offset_range
from streams.kafka.errors import AbortedError
from streams.kafka.producers import ProducerRecord, RecordTooLargeError
from streams.kafka.transactions import TransactionalProducer
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import protocols
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.brokers.request_proxy import Request, RequestProxy

HOST = "127.0.0.1"
SECONDS = 30.0
LARGE_BYTES = 5_000
LIMIT_BYTES = 2_000
OUTPUTS, LIMITED, RAW = "outputs", "limited", "raw"


class KeptEpoch:
    """The control of the test: a producer of librdkafka that keeps the same epoch."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._producer = Producer({**config, "transactional.id": "control"})
        self._producer.init_transactions(SECONDS)

    def commit(
        self,
        records: list[ProducerRecord],
        offsets: list[TopicPartition],
        group: bytes,
        *,
        failures: int | None = None,
    ) -> None:
        del failures  # it does not look for them
        producer = self._producer
        producer.begin_transaction()
        producer.send_offsets_to_transaction(offsets, group, SECONDS)
        for record in records:
            producer.produce(record.topic, record.value, partition=0)
        producer.flush(SECONDS)
        try:
            producer.commit_transaction(SECONDS)
        except KafkaException as error:
            producer.abort_transaction(SECONDS)
            raise AbortedError(str(error)) from error

    def close(self) -> None:
        with suppress(KafkaException):  # the late request has broken its state
            self._producer.close()


class Scene:
    """A broker behind a proxy, three topics, and a producer of either kind."""

    def __init__(self, directory: Path) -> None:
        port, inner, controller = free_port(), free_port(), free_port()
        self.proxy = RequestProxy((HOST, port))
        listeners = f"INNER://{HOST}:{inner}"  # the broker's address for itself
        self._broker = KafkaBroker(
            directory,
            client_port=port,
            controller_port=controller,
            properties={
                **protocols(INNER="PLAINTEXT"),
                "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller},{listeners}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{self.proxy.port},{listeners}",
                "inter.broker.listener.name": "INNER",
            },
        )
        self.config: dict[str, Any] = {
            "bootstrap.servers": f"{HOST}:{self.proxy.port}",
            "log_level": 0,
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        self._broker.start()
        try:
            admin = AdminClient(self.config)
            topics = [
                NewTopic(OUTPUTS, 1, 1),
                NewTopic(RAW, 1, 1),
                NewTopic(LIMITED, 1, 1, config={"max.message.bytes": str(LIMIT_BYTES)}),
            ]
            for future in admin.create_topics(topics, operation_timeout=SECONDS).values():
                future.result(SECONDS)
            self._group = Consumer({**self.config, "group.id": "group"})
            self._metadata: bytes = self._group.consumer_group_metadata()
            yield
        finally:
            self._broker.kill()
            self._broker.remove_data()
            self.proxy.close()

    def producer(
        self, config: Mapping[str, Any] | None = None, changelog_topic: str = ""
    ) -> TransactionalProducer:
        return TransactionalProducer(
            {**self.config, **(config or {})},
            "firstseen",
            timeout_seconds=SECONDS,
            changelog_topic=changelog_topic,
        )

    def try_late(self, producer: TransactionalProducer | KeptEpoch, name: str) -> None:
        """Commit ``name``-first with an ``EndTxn`` that is sent twice.

        The late request comes before the end of the next transaction, which is aborted.
        """
        self.proxy.keep(Request.END_TXN)
        self.commit(producer, f"{name}-first")
        self.proxy.deliver_before(Request.END_TXN)
        # The broker refuses the large record, and so the transaction is aborted.
        with suppress(AbortedError, RecordTooLargeError, UnansweredError, KafkaException):
            self.commit(producer, f"{name}-torn", large=True)
            raise AssertionError("a transaction with a record that is too large was committed")
        assert not self.proxy.has_kept, "the late request did not arrive"

    def commit(
        self,
        producer: TransactionalProducer | KeptEpoch,
        value: str,
        offset: int = 0,
        *,
        large: bool = False,
        failures: int | None = None,
    ) -> None:
        records = [ProducerRecord(OUTPUTS, None, value.encode(), 0)]
        if large:
            # Too large for the topic: the client has a larger limit, and this cannot be compressed.
            records.append(ProducerRecord(LIMITED, None, os.urandom(LARGE_BYTES), 0))
        offsets = [TopicPartition(RAW, 0, offset)]
        producer.commit(records, offsets, self._metadata, failures=failures)

    def outputs(self) -> list[str]:
        """Return what a committed reader gets."""
        reader = Consumer(
            {
                **self.config,
                "group.id": "reader",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        reader.assign([TopicPartition(OUTPUTS, 0, 0)])
        values = []
        while (message := reader.poll(SECONDS)) is not None and message.error() is None:
            values.append((message.value() or b"").decode())
        assert message is not None, "the topic cannot be read to its end"
        reader.close()
        return values

    def ends(self) -> int:
        """Return the end of what a committed reader gets."""
        return offset_range(self._group, OUTPUTS, 0, SECONDS)[1]

    def committed(self) -> int:
        (found,) = committed_offsets(self._group, [TopicPartition(RAW, 0)], SECONDS)
        return int(found.offset)
