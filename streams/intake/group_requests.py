"""What is asked of the group's coordinator, in the thread that has the consumer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.errors import BrokerRefusedError, BrokerUnavailableError, UnansweredError
from streams.kafka.commit_errors import STALE_GENERATION, AbortedError, StaleGenerationError
from streams.kafka.passing_errors import PASSING_ERRORS

_ANSWER_SECONDS: Final = 2.0
"""How long one question may keep the thread from polling.

More than a fetch may be held by a broker: what is asked on its connection waits behind it.
"""


def committed_offsets(
    consumer: Consumer, places: list[TopicPartition]
) -> tuple[dict[int, int] | None, str]:
    """Return the group's offsets by partition; None and the reason where there is no answer yet.

    A partition without a committed offset is left out. Raises ``BrokerRefusedError``.
    """
    try:
        answer = consumer.committed(places, timeout=_ANSWER_SECONDS)
    except KafkaException as failure:
        return None, _passing(failure.args[0])
    for place in answer:
        if place.error is not None:
            return None, _passing(place.error)
    return {place.partition: place.offset for place in answer if place.offset >= 0}, ""


def commit_offsets(consumer: Consumer, places: list[TopicPartition]) -> None:
    """Commit offsets outside of any transaction.

    Raises ``StaleGenerationError`` when the group has rebalanced without this member,
    ``AbortedError`` when it may be tried again, ``UnansweredError`` when nothing is known.
    """
    for error in _commit_errors(consumer, places):
        if error.code() in STALE_GENERATION:
            raise StaleGenerationError(f"offsets are not committed: {error.str()}")
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            raise AbortedError(f"offsets are not committed: {error.str()}")
        raise UnansweredError(f"it is not known whether offsets are committed: {error.str()}")


def log_start(consumer: Consumer, topic: str, partition: int) -> int:
    """Return the first offset that a partition has; raises ``BrokerUnavailableError``."""
    place = TopicPartition(topic, partition)
    try:
        found = consumer.get_watermark_offsets(place, timeout=_ANSWER_SECONDS, cached=False)
    except KafkaException as failure:
        raise BrokerUnavailableError(
            f"no broker tells where {topic}/{partition} begins: {failure.args[0].str()}"
        ) from failure
    return int(found[0])


def _commit_errors(consumer: Consumer, places: list[TopicPartition]) -> Sequence[KafkaError]:
    try:
        done = consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as failure:
        return [failure.args[0]]
    return [place.error for place in done or () if place.error is not None]


def _passing(error: KafkaError) -> str:
    """Return the reason of an error that passes; raise what any other means."""
    unstable = error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT
    if unstable or error.code() in PASSING_ERRORS or error.retriable():
        return error.str()
    raise BrokerRefusedError(f"the broker does not tell the group's offsets: {error.str()}")
