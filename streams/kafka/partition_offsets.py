"""What a broker knows of the offsets of partitions: where they begin and end, what is committed.

Each function tries once, with a client that exists already; ``streams.kafka.retries`` tries again.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition


def committed_offsets(
    consumer: Consumer, partitions: Sequence[TopicPartition], seconds: float
) -> list[TopicPartition]:
    """Return what the consumer's group has committed; it need not be a member.

    A partition without a committed offset has a negative one. Raises ``KafkaException``, also for
    an error of a single partition.
    """
    committed = consumer.committed(list(partitions), timeout=seconds)
    for each in committed:
        if each.error is not None:
            raise KafkaException(each.error)
    return committed


def offset_range(consumer: Consumer, topic: str, partition: int, seconds: float) -> tuple[int, int]:
    """Return the offset of a partition's first record, and the one after its last.

    Raises ``KafkaException``, also where no answer came in time.
    """
    topic_partition = TopicPartition(topic, partition)
    watermarks = consumer.get_watermark_offsets(topic_partition, timeout=seconds, cached=False)
    if watermarks is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - a public code
    return watermarks


def is_read_to_end(consumer: Consumer, topic: str, partition: int, next_offset: int) -> bool:
    """Return whether the last fetch of a partition had no record from ``next_offset`` on.

    Asks no broker. The client's own sign of the end needs another fetch. Where a transaction ends
    with a marker, only that sign comes.
    """
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
    return bool(0 <= end <= next_offset)
