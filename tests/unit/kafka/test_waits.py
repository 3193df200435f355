"""Waits for a condition, repeated requests, and the poll time of a client's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.kafka.errors import Retries, becomes_true, becomes_true_on_loop
from streams.kafka.thread_bridge import PollInterval
from tests.rigs.manual_clock import ManualClock


def holds_from(number: int) -> Callable[[], bool]:
    calls = iter(range(1, 1_000_000))
    return lambda: next(calls) >= number


@pytest.mark.parametrize("number", [1, 3])
def test_a_wait_pauses_until_the_condition_holds(number: int) -> None:
    pauses: list[float] = []
    assert becomes_true(holds_from(number), 60, 0.5, pause=pauses.append)
    assert pauses == [0.5] * (number - 1)


def test_without_time_a_condition_is_checked_once() -> None:
    assert becomes_true(holds_from(1), 0, 0)
    assert not becomes_true(holds_from(2), 0, 0)


def test_an_error_of_the_condition_ends_the_wait() -> None:
    def broken() -> bool:
        raise LookupError

    with pytest.raises(LookupError):
        becomes_true(broken, 60, 0)


@pytest.mark.parametrize("passing", [KafkaError._DESTROY_BROKER, KafkaError._TIMED_OUT_QUEUE])
def test_a_request_that_the_client_has_dropped_is_repeated(passing: int) -> None:
    """A killed broker leaves the cluster, or a suspended process has let its requests wait."""
    answers = iter([passing, None])

    def asks() -> str:
        if (code := next(answers)) is not None:
            raise KafkaException(KafkaError(code))
        return "answered"

    assert Retries(60, 0)(asks) == "answered"


@pytest.mark.parametrize(
    ("code", "seconds"),
    [(KafkaError._TRANSPORT, 0), (KafkaError.TOPIC_AUTHORIZATION_FAILED, 60)],
)
def test_a_request_without_time_or_with_a_permanent_error_is_not_repeated(
    code: int, seconds: float
) -> None:
    made = 0

    def asks() -> None:
        nonlocal made
        made += 1
        raise KafkaException(KafkaError(code))

    with pytest.raises(KafkaException):
        Retries(seconds, 0)(asks)
    assert made == 1


def test_repeats_end_after_their_time_with_the_last_error() -> None:
    made = 0

    def asks() -> None:
        nonlocal made
        made += 1
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, str(made)))

    with pytest.raises(KafkaException) as raised:
        Retries(0.05, 0.01)(asks)
    assert made > 1
    assert raised.value.args[0].str() == str(made)


async def test_the_loop_runs_on_during_a_wait() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    assert await becomes_true_on_loop(event.is_set, 60, 0)
    assert not await becomes_true_on_loop(lambda: False, 0, 0)


def test_polls_grow_longer_while_nothing_happens_and_short_again_after_an_event() -> None:
    clock = ManualClock()
    interval = PollInterval(clock)
    assert interval.seconds == 0.005
    clock.now += 1.5
    assert interval.seconds == 0.05
    clock.now += 2.0
    assert interval.seconds == 0.2
    interval.extend()
    assert interval.seconds == 0.005
