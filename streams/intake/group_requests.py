"""Requests to the group's coordinator, in the thread that has the consumer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.errors import BrokerRefusedError, BrokerUnavailableError, UnansweredError
from streams.kafka.commit_errors import STALE_GENERATION, AbortedError, StaleGenerationError
from streams.kafka.partition_offsets import committed_offsets, offset_range
from streams.kafka.retries import is_passing

_ANSWER_SECONDS: Final = 2.0
"""How long one question may keep the thread from polling.

More than a broker may hold a fetch: a request on the same connection waits behind it.
"""


def stable_offsets(consumer: Consumer, partitions: list[TopicPartition]) -> dict[int, int]:
    """Return the group's offsets by partition; one without a committed offset is left out.

    Raises ``KafkaException`` where there is no answer yet, ``BrokerRefusedError``.
    """
    try:
        committed = committed_offsets(consumer, partitions, _ANSWER_SECONDS)
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        unstable = error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT
        if unstable or is_passing(failure) or error.retriable():
            raise
        raise BrokerRefusedError(
            f"the broker does not return the group's offsets: {error.str()}"
        ) from failure
    return {
        partition.partition: partition.offset for partition in committed if partition.offset >= 0
    }


def commit_offsets(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Commit offsets outside of any transaction.

    Raises ``StaleGenerationError`` when the group has rebalanced without this member,
    ``AbortedError`` when it may be tried again, ``UnansweredError`` when nothing is known.
    """
    for error in _commit_errors(consumer, partitions):
        if error.code() in STALE_GENERATION:
            raise StaleGenerationError(f"offsets are not committed: {error.str()}")
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            raise AbortedError(f"offsets are not committed: {error.str()}")
        raise UnansweredError(f"unknown whether offsets are committed: {error.str()}")


def log_start(consumer: Consumer, topic: str, partition: int) -> int:
    """Return the first offset that a partition has; raises ``BrokerUnavailableError``."""
    try:
        return offset_range(consumer, topic, partition, _ANSWER_SECONDS)[0]
    except KafkaException as failure:
        raise BrokerUnavailableError(
            f"no broker returns the start of {topic}/{partition}: {failure.args[0].str()}"
        ) from failure


def _commit_errors(consumer: Consumer, partitions: list[TopicPartition]) -> Sequence[KafkaError]:
    try:
        done = consumer.commit(offsets=partitions, asynchronous=False)
    except KafkaException as failure:
        return [failure.args[0]]
    return [partition.error for partition in done or () if partition.error is not None]
