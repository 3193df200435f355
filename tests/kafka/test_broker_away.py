"""A worker whose broker goes away: it stops when it is told to, and says why it cannot start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streams.errors import BrokerUnavailableError
from streams.settings.loader import load_settings
from streams.worker import process
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.workers.stream_harness import Stream

NOTICED_SECONDS = 1.0
STOP_SECONDS = 30.0


@pytest.mark.slow
def test_a_worker_stops_while_its_broker_is_away(own_kafka_broker: Broker, tmp_path: Path) -> None:
    """Given a worker at rest whose broker was killed, when it gets SIGTERM, then it ends in good
    order within seconds: it does not wait for a fetch that nobody will answer.
    """
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    with Stream(own_kafka_broker, tmp_path) as stream:
        running = stream.started()
        server.kill()
        time.sleep(NOTICED_SECONDS)
        started = time.monotonic()
        running.stop_gently()
        assert time.monotonic() - started < STOP_SECONDS


def test_a_broker_that_goes_away_during_the_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a broker that answered and then went away, when a worker goes on starting, then it ends
    with an error whose exit code says "try again", and not with an internal one.
    """
    monkeypatch.setattr(process, "_await_topics", lambda _: None)
    settings = load_settings(
        flags={"--broker": f"127.0.0.1:{free_port()}"},
        assignments=[f"state_dir={tmp_path}", "web.enabled=false", "send_timeout_seconds=2"],
        environ={},
    ).settings
    with pytest.raises(BrokerUnavailableError, match="is it reachable"):
        process.run_worker(settings)
