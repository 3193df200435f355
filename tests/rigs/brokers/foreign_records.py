"""Sends records that other clients can send, and librdkafka cannot.

librdkafka reads the time 0 as "now", and its Python client takes only names of headers that are
text. aiokafka's builder in Python writes any time, and any name that "encodes" itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

BATCH_BYTES = 1 << 20
NONE = -1  # as the id, epoch and sequence of a producer that is not idempotent
MAGIC = 2


class ForeignRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[bytes, bytes | None]] = ()


class Name(str):
    """The name of a header, of any bytes: UTF-8 cannot encode the text of others."""

    __slots__ = ()

    def encode(self, *_: object, **__: object) -> bytes:
        return super().encode("utf-8", "surrogateescape")


def send_foreign(brokers: str, topic: str, records: Iterable[ForeignRecord]) -> list[int]:
    """Send records to partition 0, and return their offsets."""
    return asyncio.run(_send(brokers, topic, records))


async def _send(brokers: str, topic: str, records: Iterable[ForeignRecord]) -> list[int]:
    producer = AIOKafkaProducer(bootstrap_servers=brokers, acks="all")
    await producer.start()
    try:
        offsets = []
        for record in records:
            batch = producer.create_batch()
            builder: Any = _DefaultRecordBatchBuilderPy(
                MAGIC, 0, 0, NONE, NONE, NONE, batch_size=BATCH_BYTES
            )
            batch._builder = builder
            headers = [
                (Name(name, "utf-8", "surrogateescape"), value) for name, value in record.headers
            ]
            batch.append(
                key=record.key, value=record.value, timestamp=record.timestamp_ms, headers=headers
            )
            batch.close()
            sent = await producer.send_batch(batch, topic, partition=0)
            offsets.append((await sent).offset)
        return offsets
    finally:
        await producer.stop()
