"""What the errors of a consumer mean: many pass, some end the worker."""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import BrokerRefusedError
from streams.kafka.retries import PASSING_ERRORS

logger = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 1.0
_GONE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - a public code of librdkafka
    }
)
_FENCED: Final = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
_NOT_ALLOWED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
)


class TopicGoneError(FirstseenError):
    """A topic was deleted while it was read."""

    reason = ErrorReason.BROKER

    def __init__(self, topic: str) -> None:
        """Say what to do."""
        super().__init__(
            f"{topic} no longer exists: it was deleted while a worker read it. Create it again "
            "('firstseen topics create') and restart"
        )


class MemberFencedError(FirstseenError):
    """Another worker has joined the group with the same ``group_instance_id``."""

    reason = ErrorReason.FENCED


def judge(error: KafkaError, topic: str) -> FirstseenError | None:
    """Return what ends the consumer, None for what passes by itself."""
    code = error.code()
    # Of a fatal error the reason may be in the text alone.
    if code == KafkaError.FENCED_INSTANCE_ID or _FENCED in error.str():
        return MemberFencedError(
            "another worker has joined the group with this worker's group_instance_id: give each "
            "worker its own id"
        )
    if code == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001 - a public code of librdkafka
        logger.warning("this worker was out of the group for a while: %s", error.str())
        return None
    if error.fatal() or code == KafkaError._FATAL:  # noqa: SLF001 - a public code of librdkafka
        return BrokerRefusedError(f"the consumer of {topic} has failed: {error.str()}")
    if code in PASSING_ERRORS or code in _GONE or error.retriable():
        return None
    if code in _NOT_ALLOWED:
        return BrokerRefusedError(
            f"this user may not read {topic} as a member of its group: {error.str()}. It needs "
            "Read on both"
        )
    return BrokerRefusedError(f"cannot read {topic}: {error.str()}")


def topic_is_gone(error: KafkaError, consumer: Consumer, topic: str) -> bool:
    """Return whether an error says that the topic was deleted, and the broker confirms it.

    A broker that has just started may not know a topic for a moment.
    """
    return error.code() in _GONE and is_absent(consumer, topic)


def is_absent(consumer: Consumer, topic: str) -> bool:
    """Return whether a broker says that a topic does not exist."""
    try:
        metadata = consumer.list_topics(topic, timeout=_ANSWER_SECONDS).topics.get(topic)
    except KafkaException:
        return False
    return metadata is None or (metadata.error is not None and metadata.error.code() in _GONE)
