"""Waits for a condition: at once, in time, never, and what it raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from streams.kafka.errors import becomes_true, becomes_true_on_loop


def holds_from(number: int) -> Callable[[], bool]:
    """Return a condition that holds from its ``number``-th call on."""
    calls = iter(range(1, 1_000_000))
    return lambda: next(calls) >= number


@pytest.mark.parametrize("number", [1, 3])
def test_a_condition_that_holds_in_time(number: int) -> None:
    """Given one that holds at once or later, then the wait is True, after as many pauses."""
    pauses: list[float] = []

    assert becomes_true(holds_from(number), 60, 0.5, pause=pauses.append)
    assert pauses == [0.5] * (number - 1)


def test_a_condition_that_does_not_hold() -> None:
    """Given no time, then a condition is checked once, and the wait is False."""
    assert becomes_true(holds_from(1), 0, 0)
    assert not becomes_true(holds_from(2), 0, 0)


def test_an_error_of_the_condition_ends_the_wait() -> None:
    """Given a condition that raises, then its error is raised as it is."""

    def broken() -> bool:
        raise LookupError

    with pytest.raises(LookupError):
        becomes_true(broken, 60, 0)


def test_on_the_loop() -> None:
    """Given a condition that a callback makes true, then the loop runs it during the wait."""

    async def run() -> tuple[bool, bool]:
        event = asyncio.Event()
        asyncio.get_running_loop().call_soon(event.set)
        in_time = await becomes_true_on_loop(event.is_set, 60, 0)
        return in_time, await becomes_true_on_loop(lambda: False, 0, 0)

    assert asyncio.run(run()) == (True, False)
