"""Delivers requests late, after their client has sent them again and begun the next transaction.

A proxy stands between the clients and its own Kafka. It reads the kind of each request
(https://kafka.apache.org/protocol), keeps one request back and cuts its connection. The client
connects again and repeats the request. The proxy delivers the one that it kept back while the next
transaction runs. A network does the same with a packet that takes a slower route.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.cimpl import NewTopic

from streams.errors import UnansweredError
from streams.kafka.clients import AdminClient, Consumer, Producer, committed_offsets
from streams.kafka.errors import AbortedError
from streams.kafka.producers import ProducerRecord, RecordTooLargeError
from streams.kafka.transactions import TransactionalProducer
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.kafka_configuration import protocols
from tests.rigs.brokers.loopback_ports import free_port

HOST = "127.0.0.1"
SECONDS = 30.0
LARGE_BYTES = 5_000
LIMIT_BYTES = 2_000
OUTPUTS, LIMITED, RAW = "outputs", "limited", "raw"


class Request(IntEnum):
    """Kinds by Kafka's numbers."""

    PRODUCE = 0
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Proxy:
    """Forwards connections to a broker on this machine, and keeps requests back."""

    def __init__(self, broker_port: int) -> None:
        self._broker = (HOST, broker_port)
        self._listener = socket.create_server((HOST, free_port()))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._kept: list[bytes] = []
        self._to_keep: Request | None = None
        self._before: tuple[Request, Callable[[], None]] | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):  # this wakes the thread that accepts; closing does not
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def keep(self, kind: Request) -> None:
        """Keep back the next request of the kind, and cut its connection."""
        with self._lock:
            self._to_keep = kind

    def forget(self) -> None:
        """Drop the request that was kept back."""
        with self._lock:
            assert self._kept, "nothing was kept back"
            self._kept = []

    def deliver_before(self, kind: Request) -> None:
        """When the next request of this kind comes, deliver the one kept back before it."""
        with self._lock:
            self._before = kind, self.deliver

    def deliver(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
        for frame in kept:
            with socket.create_connection(self._broker, SECONDS) as broker:
                broker.settimeout(SECONDS)
                broker.sendall(frame)
                assert _frame(broker), "the broker did not answer the late request"

    @property
    def has_kept(self) -> bool:
        return bool(self._kept)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(self._broker, SECONDS)
                except OSError:  # the broker is away, or has ended
                    client.close()
                    continue
                broker.settimeout(None)
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ends = ((self._requests, client, broker), (self._answers, broker, client))
                for run, *arguments in ends:
                    threading.Thread(target=run, args=arguments, daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with client, broker, suppress(OSError):
            while frame := _frame(client):
                (kind,) = struct.unpack_from(">h", frame, 4)
                if self._is_kept(kind, frame):
                    break
                if action := self._action_before(kind):
                    action()
                broker.sendall(frame)
            for each in (client, broker):
                each.shutdown(socket.SHUT_RDWR)

    def _is_kept(self, kind: int, frame: bytes) -> bool:
        with self._lock:
            if kind != self._to_keep:
                return False
            self._to_keep = None
            self._kept.append(frame)
            return True

    def _action_before(self, kind: int) -> Callable[[], None] | None:
        with self._lock:
            if self._before is None or self._before[0] != kind:
                return None
            (_, action), self._before = self._before, None
            return action

    @staticmethod
    def _answers(broker: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := broker.recv(65_536):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)


def _frame(connection: socket.socket) -> bytes:
    """Return a message with its length before it; empty at the end of the connection."""
    data, size = b"", 4
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return b""
        data += more
        if len(data) == 4:
            size = 4 + struct.unpack(">i", data)[0]
    return data


class KeptEpoch:
    """The control of the test: a producer of librdkafka that keeps the same epoch."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._producer = Producer({**config, "transactional.id": "control"})
        self._producer.init_transactions(SECONDS)

    def commit(
        self, records: list[ProducerRecord], offsets: list[TopicPartition], group: bytes
    ) -> None:
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
        self.proxy = Proxy(port)
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

    def producer(self, config: Mapping[str, Any] | None = None) -> TransactionalProducer:
        return TransactionalProducer(
            {**self.config, **(config or {})}, "firstseen", timeout_seconds=SECONDS
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
        if isinstance(producer, KeptEpoch):
            producer.commit(records, offsets, self._metadata)
        else:
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

    def committed(self) -> int:
        (found,) = committed_offsets(self._group, [TopicPartition(RAW, 0)], SECONDS)
        return int(found.offset)
