"""A consumer whose thread has failed is stopped without a word."""

from __future__ import annotations

import asyncio
import logging

import pytest

from streams.committed_transport import CommittedConsumer
from tests.intake.consumer_threads import new_consumer_thread


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_thread_that_has_ended_can_be_stopped(caplog: pytest.LogCaptureFixture) -> None:
    """Given a thread that has closed its loop, as one does that fails, before its consumer is told
    to stop; when the consumer stops; then nothing is logged beside what made it fail.
    """
    with caplog.at_level(logging.WARNING):
        asyncio.run(_stop_with_a_closed_loop())

    assert not caplog.records, caplog.text


async def _stop_with_a_closed_loop() -> None:
    thread = new_consumer_thread(asyncio.get_running_loop())
    thread._started.set()
    thread.set_shutdown()
    thread.thread_loop.close()
    consumer = thread.consumer
    assert isinstance(consumer, CommittedConsumer)
    consumer.add_dependency(thread)
    await consumer._stop_children()
