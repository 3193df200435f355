"""How long a broker may hold a fetch of the worker's consumer that finds nothing."""

from __future__ import annotations

import asyncio

import pytest

from streams.kafka_config import faust_fetch_wait_ms
from streams.settings import Settings
from tests.intake.consumer_threads import new_consumer_thread
from tests.settings.sources import load


@pytest.mark.parametrize(("assignments", "expected_ms"), [((), 100), (("7",), 7)])
def test_the_wait_is_short_and_can_be_set(assignments: tuple[str, ...], expected_ms: int) -> None:
    """Given ``fetch.wait.max.ms`` or nothing, then that is the wait, or a tenth of a second."""
    given = [f"kafka.fetch.wait.max.ms={value}" for value in assignments]

    assert faust_fetch_wait_ms(load(*given).settings) == expected_ms


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_consumer_gets_it() -> None:
    """Given an app made with a wait of 7 ms; when its transport makes a consumer; then it fetches
    with that wait, and reads what is committed alone.
    """
    consumer = asyncio.run(_consumer_of(load("kafka.fetch.wait.max.ms=7").settings))

    assert consumer == (7, "read_committed")


async def _consumer_of(settings: Settings) -> tuple[int, str]:
    loop = asyncio.get_running_loop()
    thread = new_consumer_thread(loop, faust_fetch_wait_ms(settings))
    made = thread._create_consumer(loop)
    try:
        return made._fetch_max_wait_ms, made._isolation_level
    finally:
        await made.stop()
        thread.thread_loop.close()
