"""Trying again until a deadline, and the errors of librdkafka after which that is worth it.

Errors that pass: a connection is lost, or another broker leads or coordinates. The client recovers
from them by itself, or when it is called again; the caller sets the limit. Each rolling restart of
a cluster brings some.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, cast

from confluent_kafka import KafkaError, KafkaException
from tenacity import (
    AsyncRetrying,
    Retrying,
    retry_if_exception,
    retry_if_result,
    stop_after_delay,
    wait_fixed,
)

PASSING_ERRORS: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._RESOLVE,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._TIMED_OUT,  # noqa: SLF001 - a public code of librdkafka
        KafkaError._TRANSPORT,  # noqa: SLF001 - a public code of librdkafka
        # A partition that is led by none is not known to librdkafka for that time.
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
"""Says whether to try again after an error."""


def is_passing(error: BaseException) -> bool:
    """Return whether the Kafka client raised an error that passes."""
    return isinstance(error, KafkaException) and error.args[0].code() in PASSING_ERRORS


def is_of_client(error: BaseException) -> bool:
    """Return whether the Kafka client raised an error: whoever called has judged it already."""
    return isinstance(error, KafkaException)


def retrying(
    seconds: float,
    pause_seconds: float,
    passes: Passes = is_passing,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> Retrying:
    """Return what calls a function until it succeeds: ``retrying(10, 0.2)(function)``.

    An error that does not pass is raised at once, the last one once ``seconds`` are over.
    ``pause`` is called with ``pause_seconds`` between two tries.
    """
    return Retrying(
        stop=stop_after_delay(seconds),
        wait=wait_fixed(pause_seconds),
        retry=retry_if_exception(passes),
        sleep=cast("Callable[[float], None]", pause),
        reraise=True,
    )


def retrying_on_loop(
    seconds: float, pause_seconds: float, passes: Passes = is_passing
) -> AsyncRetrying:
    """Return what calls a coroutine function until it succeeds; see ``retrying``.

    Its result is awaited, and the event loop goes on between two tries.
    """
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
    """Return whether a condition holds before ``seconds`` are over; it is checked at once.

    What the condition raises ends the wait. ``pause`` may be what a client has to do meanwhile.
    """
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
    """Return whether a condition holds in time; the event loop goes on. See ``becomes_true``."""

    async def holds() -> bool:
        return condition()

    wait = AsyncRetrying(
        stop=stop_after_delay(seconds),
        wait=wait_fixed(pause_seconds),
        retry=retry_if_result(lambda held: not held),
        retry_error_callback=lambda _: False,
    )
    return await wait(holds)
