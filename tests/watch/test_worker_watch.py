"""The watch on a real broker: what it finds goes to metrics, health and log; nothing ends it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry

from streams.broker_watermarks import BrokerWatermarks
from streams.health import Health
from streams.metrics import Metrics
from streams.read_order import Place
from streams.worker_watch import WorkerWatch
from tests.brokers.broker import Broker
from tests.brokers.loopback_ports import free_port

RECORDS = 5
SECONDS = 90.0


class Watching:
    """A watch, and what it is told of: positions of partitions, and whether shards catch up."""

    def __init__(self, brokers: str, state_path: Path, stall_seconds: float = 100) -> None:
        self.positions: dict[Place, int | None] = {}
        self.opening = False
        self.metrics = Metrics(CollectorRegistry())
        self.health = Health(stall_seconds, lambda: None)
        self.watch = WorkerWatch(
            lambda: self.positions,
            lambda: self.opening,
            BrokerWatermarks({"bootstrap.servers": brokers}, "no-group", 2.0),
            self.health,
            self.metrics,
            state_path,
            stall_seconds,
        )

    def value(self, name: str, **labels: str) -> float | None:
        """A sample of its metrics."""
        return self.metrics.registry.get_sample_value(f"firstseen_{name}", labels)

    def lag(self, topic: str) -> float | None:
        """The lag of partition 0 of a topic."""
        return self.value("consumer_lag_messages", topic=topic, partition="0")

    def lag_seen(self, topic: str) -> float | None:
        """The lag after another look."""
        self.watch.look_at_lag()
        return self.lag(topic)


def topic_with_records(broker: Broker) -> str:
    """A topic of one partition with ``RECORDS`` records."""
    topic = broker.unique("watched")
    broker.create_topics({topic: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(RECORDS):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(SECONDS) == 0
    return topic


def await_that(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_lag_from_where_a_worker_stands(embedded_broker: Broker, tmp_path: Path) -> None:
    """Given a partition that is done up to 2 of 5 records, then lag is 3; given one of which the
    worker knows nothing and the group has committed nothing, then it is all there are.
    """
    topic = topic_with_records(embedded_broker)
    watching = Watching(embedded_broker.bootstrap_servers, tmp_path)

    watching.positions = {(topic, 0): 2}
    await_that(lambda: watching.lag_seen(topic) == 3)
    watching.positions = {(topic, 0): None}
    watching.watch.look_at_lag()

    assert watching.lag(topic) == RECORDS
    assert watching.value("broker_up") == 1
    watching.positions = {}
    watching.watch.look_at_lag()
    assert watching.lag(topic) is None, "the partition has moved away"


def test_shards_that_catch_up_are_no_stall(embedded_broker: Broker, tmp_path: Path) -> None:
    """Given records that nobody reads, when shards catch up meanwhile, then it is no stall; when
    they are open, then it is one after the limit.
    """
    topic = topic_with_records(embedded_broker)
    watching = Watching(embedded_broker.bootstrap_servers, tmp_path, stall_seconds=1)
    watching.positions = {(topic, 0): 0}
    watching.opening = True
    await_that(lambda: watching.lag_seen(topic) == RECORDS)
    time.sleep(1.1)
    watching.watch.look_at_lag()
    assert watching.health.why_dead() is None

    watching.opening = False
    watching.watch.look_at_lag()
    time.sleep(1.1)
    watching.watch.look_at_lag()
    assert "stands at offset 0" in (watching.health.why_dead() or "")
    assert watching.value("stalled_partitions") == 1


def test_no_broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Given no broker, when it is asked twice, then the worker stays alive, the metric and one line
    of the log say so.
    """
    watching = Watching(f"127.0.0.1:{free_port()}", tmp_path)
    with caplog.at_level(logging.WARNING):
        watching.watch.look_at_lag()
        watching.watch.look_at_lag()

    assert watching.value("broker_up") == 0
    assert watching.value("errors_total", stage="watch", reason="broker") == 2
    assert watching.health.why_dead() is None
    assert caplog.text.count("the broker does not answer") == 1


def test_a_failure_of_its_own(
    embedded_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Given a state directory that is not there, when it is watched, then the log has it once, and
    lag is measured all the same.
    """
    topic = topic_with_records(embedded_broker)
    watching = Watching(embedded_broker.bootstrap_servers, tmp_path / "gone")
    watching.positions = {(topic, 0): 0}
    with caplog.at_level(logging.ERROR), watching.watch:
        await_that(lambda: watching.lag(topic) == RECORDS)
        watches = "stage_duration_seconds_count"
        await_that(lambda: (watching.value(watches, stage="watch") or 0) >= 2)

    assert caplog.text.count("the watch of this worker fails, and goes on") == 1
