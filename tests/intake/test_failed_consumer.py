"""A consumer that fails ends its worker, and says why once."""

from __future__ import annotations

import asyncio
import logging

import pytest

from simhash_core.errors import FirstseenError
from streams.committed_transport import CommittedConsumer
from streams.errors import BrokerUnavailableError
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_broker_that_does_not_tell_the_offsets_fails_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given partitions that were just shared out, and a broker that is silent; then the worker ends
    before Faust gives up and leaves it without work.
    """
    failures = asyncio.run(_seek_in_vain(monkeypatch))

    assert [type(each) for each in failures] == [BrokerUnavailableError]
    assert "within 0.08 s" in str(failures[0])


async def _seek_in_vain(monkeypatch: pytest.MonkeyPatch) -> list[FirstseenError]:
    failures: list[FirstseenError] = []
    thread = new_consumer_thread(asyncio.get_running_loop())
    consumer = thread.consumer
    assert isinstance(consumer, CommittedConsumer)
    consumer.transport.fail = failures.append
    consumer.app.conf.broker_request_timeout = 0.1
    monkeypatch.setattr(consumer, "seek_to_committed", asyncio.Event().wait)
    try:
        with pytest.raises(BrokerUnavailableError):
            await consumer.perform_seek()
    finally:
        thread.thread_loop.close()
    return failures
