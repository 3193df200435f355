"""Forward several topics into one, because a filter compares only documents on its raw topic.

python examples/forward_topics.py 127.0.0.1:9092 raw-documents feeds '^crawl-.*'

Each record is forwarded exactly once, even if this program is killed: records and offsets are in
one transaction. Key, value, headers and timestamp stay; the header ``forwarded-from`` names the
source of a record. Start as many processes as you like: they share the partitions. A process exits
at an error that it cannot repair; start it again, and it continues without losing a record.
"""

from __future__ import annotations

import re
import signal
import sys
import uuid
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, Message, Producer

GROUP = "forward-topics"
RECORDS = 500
SECONDS = 30.0


def forward(brokers: str, target: str, sources: Sequence[str]) -> None:
    """Forward until SIGTERM; a source with ^ before it is a pattern of names."""
    if any(re.match(source if source[0] == "^" else f"{source}$", target) for source in sources):
        sys.exit(f"{target} is among the sources: its records would be forwarded again and again")
    common = {"bootstrap.servers": brokers, "log_level": 2}
    consumer = Consumer(
        common
        | {
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 10_000,
        }
    )
    producer = Producer(
        common
        | {
            "transactional.id": f"{GROUP}.{uuid.uuid4()}",
            "transaction.timeout.ms": 10_000,
            "partitioner": "murmur2_random",  # as Kafka's own clients assign keys
            # The topic decides which records are too large; the client's default is less than it
            # takes by default, and would end each process at the same record.
            "message.max.bytes": 100_000_000,
        }
    )
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    try:
        producer.init_transactions(SECONDS)
        consumer.subscribe(list(sources))
        while not stopped:
            messages = consumer.consume(RECORDS, 0.2)
            if messages:
                _commit(consumer, producer, target, messages)
    finally:
        consumer.close()


def _commit(
    consumer: Consumer, producer: Producer, target: str, messages: Sequence[Message]
) -> None:
    """Forward records and commit their offsets, both or neither."""
    producer.begin_transaction()
    for message in messages:
        if (error := message.error()) is not None:
            raise KafkaException(error)
        source = f"{message.topic()}/{message.partition()}@{message.offset()}"
        producer.produce(
            target,
            message.value(),
            message.key(),
            headers=[*(message.headers() or []), ("forwarded-from", source)],
            timestamp=message.timestamp()[1],
        )
    read = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
    producer.send_offsets_to_transaction(read, consumer.consumer_group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)


if __name__ == "__main__":
    forward(sys.argv[1], sys.argv[2], sys.argv[3:])
