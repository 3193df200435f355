"""Dashboard, rules and alerts on a real worker, scraped by a real Prometheus: what they ask for is
there.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from simhash_core.errors import ErrorReason
from streams.monitoring.metric_labels import Stage
from tests.repository.monitoring.loaded_worker import documents, loaded_worker
from tests.repository.monitoring.prometheus_server import PrometheusServer
from tests.repository.monitoring.shipped_dashboard import expressions
from tests.repository.monitoring.shipped_rules import alerts, recorded, selectors
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream

LOAD_SECONDS = 5.0
SECONDS = 90.0

# What Grafana would put in.
VARIABLES = {
    '"$job"': '".*"',
    '"$instance"': '".*"',
    "$__rate_interval": "30s",
    "$__range": "5m",
}

ONLY_IN_TROUBLE = frozenset({"firstseen_report_missing"})
"""Its series are the shards that the leader waits for: none, where all report."""


def asked(expression: str) -> str:
    """An expression as Grafana would send it."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def send_for(stream: Stream, seconds: float) -> None:
    """Send documents for some time, so that rates have something to rise by."""
    deadline = time.monotonic() + seconds
    seed = 2
    while time.monotonic() < deadline:
        stream.send(documents(seed, count=10))
        stream.settle()
        seed += 1


def without_data(server: PrometheusServer, queries: list[str]) -> list[str]:
    """Those queries that return nothing, after some time for those that need a few scrapes."""
    deadline = time.monotonic() + SECONDS
    while True:
        queries = [query for query in queries if not server.query(query)]
        if not queries or time.monotonic() > deadline:
            return queries
        time.sleep(1)


@pytest.mark.slow
def test_every_query_returns_data(kafka_broker: Broker, tmp_path: Path) -> None:
    with loaded_worker(kafka_broker, tmp_path) as (stream, worker):
        with PrometheusServer(tmp_path / "prometheus", worker.port) as server:
            send_for(stream, LOAD_SECONDS)
            panels = [asked(expression) for _, expression in expressions()]
            assert without_data(server, panels) == []
            assert without_data(server, sorted(recorded())) == []
            watched = {each.text for rule in alerts() for each in selectors(rule["expr"])}
            assert without_data(server, sorted(watched - ONLY_IN_TROUBLE)) == []
            assert {rule["health"] for rule in server.rules()} == {"ok"}
            errors = server.query("firstseen_errors_total")
            assert len(errors) == len(Stage) * len(ErrorReason)
            assert {value for _, value in errors} == {0.0}
        worker.stop_gently()
