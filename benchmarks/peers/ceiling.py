"""The ceiling: only the work that every exactly-once filter in Python must do, without an index.

It consumes batches, decodes the JSON, makes the fingerprints of the profile ``wide``, and writes
every document to ``unique``, with one transaction per batch that has the offsets (KIP-447).
"""

from __future__ import annotations

from typing import Final

import msgspec
from confluent_kafka import KafkaException, Message

from benchmarks.peers.stream import Stream, stream_of_arguments
from simhash_core.text.fingerprinter import Fingerprinter
from simhash_core.text.profiles import profile_named
from streams.kafka.clients import Consumer, Producer

BATCH: Final = 500

_WAIT_SECONDS: Final = 1.0
_TRANSACTION_SECONDS: Final = 30.0


class _Document(msgspec.Struct):
    text: str


def main(stream: Stream) -> None:
    fingerprinter = Fingerprinter(profile_named("wide"))
    decode = msgspec.json.Decoder(_Document).decode
    consumer = Consumer(
        {
            "bootstrap.servers": stream.brokers,
            "group.id": stream.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": stream.brokers,
            "transactional.id": stream.name,
            # Otherwise a transaction that begins right after a commit waits 100 ms for its markers.
            "retry.backoff.ms": 2,
        }
    )
    producer.init_transactions(_TRANSACTION_SECONDS)
    consumer.subscribe([stream.raw])
    while True:
        batch = _next_batch(consumer)
        if not batch:
            continue
        values = [message.value() or b"" for message in batch]
        fingerprinter.fingerprint_batch([decode(value).text for value in values])
        producer.begin_transaction()
        for message, value in zip(batch, values, strict=True):
            producer.produce(stream.unique, value, message.key())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()),
            consumer.consumer_group_metadata(),
            _TRANSACTION_SECONDS,
        )
        producer.commit_transaction(_TRANSACTION_SECONDS)


def _next_batch(consumer: Consumer) -> list[Message]:
    """Return the available records, up to a batch; wait only for the first one."""
    first = consumer.poll(_WAIT_SECONDS)
    if first is None:
        return []
    batch = [first, *consumer.consume(BATCH - 1, 0)]
    for message in batch:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
    return batch


if __name__ == "__main__":
    main(stream_of_arguments())
