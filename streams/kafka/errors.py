"""The meaning of librdkafka's errors, and retries until a deadline."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar, cast

from confluent_kafka import KafkaError, KafkaException
from tenacity import (
    AsyncRetrying,
    Retrying,
    retry_if_exception,
    retry_if_result,
    stop_after_delay,
    wait_fixed,
)

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import BrokerRefusedError, UnansweredError
from streams.kafka.clients import Consumer

# ---- Retries until a deadline, after errors that pass.
#
# A temporary error comes from a lost connection, or from a new leader or coordinator; each rolling
# restart of a cluster causes some. The client recovers by itself or when it is called again; the
# caller sets the time limit.

PASSING_ERRORS: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - a public code of librdkafka
        # The library has removed a broker that the cluster no longer lists, and its requests.
        KafkaError._DESTROY_BROKER,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._RESOLVE,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._TIMED_OUT,  # noqa: SLF001 - a public code of librdkafka
        # A request waited in the client for too long, as in a process that was suspended.
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._TRANSPORT,  # noqa: SLF001 - a public code of librdkafka
        # librdkafka does not know a partition while the partition has no leader.
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - a public code of librdkafka
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
    }
)

Passes = Callable[[BaseException], bool]
_Result = TypeVar("_Result")


def is_passing(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() in PASSING_ERRORS


def is_of_client(error: BaseException) -> bool:
    return isinstance(error, KafkaException)


class Retries(NamedTuple):
    """Calls a function until it succeeds: ``Retries(10, 0.2)(function)``.

    It raises a permanent error at once, and the last temporary error after ``seconds``. ``pause``
    is called with ``pause_seconds`` between two tries.
    """

    seconds: float
    pause_seconds: float
    passes: Passes = is_passing
    pause: Callable[[float], object] = time.sleep

    def __call__(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        until = time.monotonic() + self.seconds
        try:
            return function(*arguments)
        except BaseException as error:
            if not self.passes(error) or time.monotonic() >= until:
                raise
        # Only now, because this takes longer than most calls. It also makes reference cycles, and
        # the garbage of a hundred per second stopped a worker for 40 ms at a time.
        self.pause(self.pause_seconds)
        again = Retrying(
            stop=stop_after_delay(until - time.monotonic()),
            wait=wait_fixed(self.pause_seconds),
            retry=retry_if_exception(self.passes),
            sleep=cast("Callable[[float], None]", self.pause),
            reraise=True,
        )
        return again(function, *arguments)


def retrying_on_loop(
    seconds: float, pause_seconds: float, passes: Passes = is_passing
) -> AsyncRetrying:
    return AsyncRetrying(
        stop=stop_after_delay(seconds),
        wait=wait_fixed(pause_seconds),
        retry=retry_if_exception(passes),
        reraise=True,
    )


def becomes_true(
    condition: Callable[[], bool],
    seconds: float,
    pause_seconds: float,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> bool:
    """Return whether a condition becomes true within ``seconds``; ``pause`` may serve a client."""
    wait = Retrying(
        stop=stop_after_delay(seconds),
        wait=wait_fixed(pause_seconds),
        retry=retry_if_result(lambda holds: not holds),
        sleep=cast("Callable[[float], None]", pause),
        retry_error_callback=lambda _: False,
    )
    return wait(condition)


async def becomes_true_on_loop(
    condition: Callable[[], bool], seconds: float, pause_seconds: float
) -> bool:
    async def holds() -> bool:
        return condition()

    wait = AsyncRetrying(
        stop=stop_after_delay(seconds),
        wait=wait_fixed(pause_seconds),
        retry=retry_if_result(lambda held: not held),
        retry_error_callback=lambda _: False,
    )
    return await wait(holds)


# ---- The errors of a commit of outputs and offsets.
#
# ::
#
#     FirstseenError
#     ├── AbortedError          nothing of it is visible; try it again
#     │   └── UnverifiedError   a connection has failed: look for the commits before it first
#     ├── StaleGenerationError  nothing of it is visible; the group has rebalanced
#     ├── FencedError           nothing of it is visible; another worker has this worker's name
#     ├── TransactionError      trying again does not help
#     └── UnansweredError       (streams.errors) unknown: read the group's offsets before going on
#
# ``RecordTooLargeError`` (``streams.kafka.producers``) may be raised as well.


class AbortedError(FirstseenError):
    """The transaction was aborted, and may be tried again after reading the committed state."""

    reason = ErrorReason.BROKER


class UnverifiedError(AbortedError):
    """A connection has failed, and the caller has not looked for its last commits since."""


class StaleGenerationError(FirstseenError):
    """The group has rebalanced; retry for partitions still owned, with fresh metadata."""

    reason = ErrorReason.FENCED


class FencedError(FirstseenError):
    """Another worker has this one's name; nothing of this commit is or will be visible."""

    reason = ErrorReason.FENCED


class RecordsLostError(FirstseenError):
    """Brokers have lost records that they had acknowledged, and that this worker has read."""

    reason = ErrorReason.BROKER

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: brokers have lost records. What followed from them is not committed. Start "
            "the worker again, as a supervisor does: it begins with what is committed"
        )


class TransactionError(FirstseenError):
    reason = ErrorReason.BROKER


STALE_GENERATION: Final = frozenset(
    {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID}
)
"""The coordinator's errors for a commit from outside the current generation."""


# ---- The errors of a consumer: many pass, some end the worker.

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
# A fatal error may name its reason only in the text.
_FENCED, _NO_GROUP, _UNRELEASED, _UNSUPPORTED = (
    KafkaError(code).str()
    for code in (
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.UNRELEASED_INSTANCE_ID,
        KafkaError.UNSUPPORTED_VERSION,
    )
)
_NOT_ALLOWED: Final[Mapping[int, str]] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
}


class TopicDeletedError(FirstseenError):
    reason = ErrorReason.BROKER

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"{topic} no longer exists: it was deleted while a worker used it. Create it again "
            "('firstseen topics create') and restart"
        )


class MemberFencedError(FirstseenError):
    reason = ErrorReason.FENCED


def judge(error: KafkaError, topic: str) -> FirstseenError | None:
    """Return the error that ends the consumer; None for a temporary error."""
    code = error.code()
    if (refused := _refused_member(error)) is not None:
        return refused
    if code == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001 - a public code of librdkafka
        logger.warning("this worker was out of the group for a while: %s", error.str())
        return None
    if error.fatal() or code == KafkaError._FATAL:  # noqa: SLF001 - a public code of librdkafka
        return BrokerRefusedError(f"the consumer of {topic} has failed: {error.str()}")
    if code in PASSING_ERRORS or code in _GONE or error.retriable():
        return None
    if code in _NOT_ALLOWED:
        return BrokerRefusedError(
            f"this user may not read {topic}: {error.str()}. It needs Read on the "
            f"{_NOT_ALLOWED[code]}"
        )
    return BrokerRefusedError(f"cannot read {topic}: {error.str()}")


def _refused_member(error: KafkaError) -> FirstseenError | None:
    text = error.str()
    if error.code() == KafkaError.FENCED_INSTANCE_ID or _FENCED in text:
        return MemberFencedError(
            "another worker has joined the group with this worker's group_instance_id: give each "
            "worker its own id"
        )
    if _UNRELEASED in text:
        return UnansweredError(
            "the session of the worker that had this group_instance_id before has not ended: start "
            "this worker again later, or give it another id"
        )
    if f"{_NO_GROUP}: ConsumerGroupHeartbeat" in text:
        return BrokerRefusedError(
            "the group has workers with group_protocol=classic: stop all workers before you change "
            f"this setting ({text})"
        )
    if f"{_UNSUPPORTED}: ConsumerGroupHeartbeat" in text:
        return BrokerRefusedError(
            "the brokers do not support group_protocol=consumer, which needs Kafka 4 and consumer "
            f"in their group.coordinator.rebalance.protocols ({text}). Or set "
            "group_protocol=classic"
        )
    return None


def topic_is_deleted(error: KafkaError, consumer: Consumer, topic: str) -> bool:
    """Return whether the topic was deleted; a starting broker may not know it for a moment."""
    return error.code() in _GONE and is_absent(consumer, topic)


def is_absent(consumer: Consumer, topic: str) -> bool:
    try:
        metadata = consumer.list_topics(topic, timeout=_ANSWER_SECONDS).topics.get(topic)
    except KafkaException:
        return False
    return metadata is None or (metadata.error is not None and metadata.error.code() in _GONE)
