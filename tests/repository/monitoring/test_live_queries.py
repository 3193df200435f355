"""All queries of dashboard, rules and alerts return data from a real worker and Prometheus."""

from __future__ import annotations

import http.client
import json
import math
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
import yaml

from simhash_core.errors import ErrorReason
from streams.monitoring.metrics import Stage
from tests.repository.monitoring.loaded_worker import loaded_worker
from tests.repository.monitoring.shipped_monitoring import (
    RULE_FILES,
    alerts,
    queries,
    recorded,
    selectors,
)
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.required_tools import give_up
from tests.rigs.waiting import await_that
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream

HOST = "127.0.0.1"
LOAD_SECONDS = 5.0
SECONDS = 90.0

# The values that Grafana would insert.
VARIABLES = {
    '"$job"': '".*"',
    '"$instance"': '".*"',
    "$__rate_interval": "30s",
    "$__range": "5m",
}

ONLY_ON_ERRORS = frozenset({"firstseen_report_missing"})
"""Its series are the shards for which the leader waits: none if all report."""


class Prometheus(NamedTuple):
    port: int

    def query(self, expression: str) -> list[float]:
        found = self.get(f"/api/v1/query?{urlencode({'query': expression})}")["result"]
        values = [float(each["value"][1]) for each in found]
        return [value for value in values if not math.isnan(value)]

    def rules(self) -> list[dict[str, Any]]:
        """Return the state of every rule in Prometheus: its health, and the last error."""
        return [rule for group in self.get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def get(self, path: str) -> dict[str, Any]:
        with closing(http.client.HTTPConnection(HOST, self.port, timeout=30)) as connection:
            connection.request("GET", path)
            content = json.loads(connection.getresponse().read())
        assert content["status"] == "success", content
        return dict(content["data"])


@contextmanager
def prometheus(directory: Path, worker_port: int) -> Iterator[Prometheus]:
    """Scrape a worker, and evaluate the rules of deploy/prometheus, every second.

    If Prometheus is not installed, the test is skipped, or fails if tools are required.
    """
    program = shutil.which("prometheus")
    if program is None:
        give_up("no prometheus: it is a package of Debian and Ubuntu")
    directory.mkdir()
    for file in RULE_FILES:
        rules = yaml.safe_load(file.read_text("utf-8"))
        for group in rules["groups"]:
            group["interval"] = "1s"
        (directory / file.name).write_text(yaml.safe_dump(rules), "utf-8")
    targets = [{"targets": [f"{HOST}:{worker_port}"]}]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["*.rules.yml"],
        "scrape_configs": [{"job_name": "firstseen", "static_configs": targets}],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    server, log = Prometheus(free_port()), directory / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={HOST}:{server.port}",
                "--log.level=warn",
            ],
            stdout=output,
            stderr=output,
        )

    def answers() -> bool:
        assert process.poll() is None, log.read_text("utf-8")
        with suppress(OSError, http.client.HTTPException, ValueError):
            return bool(server.query("up"))
        return False

    try:
        await_that(answers, shows=lambda: log.read_text("utf-8"))
        yield server
    finally:
        process.kill()
        process.wait(SECONDS)


def asked(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def send_for(stream: Stream, seconds: float) -> None:
    """Send documents for some time, so that rates are not 0."""
    deadline = time.monotonic() + seconds
    for seed in count(2):
        if time.monotonic() > deadline:
            return
        stream.send(keyed_documents(seed, 10))
        stream.settle()


def without_data(server: Prometheus, queries: list[str]) -> list[str]:
    """Return the queries without data, after some time, because some need a few scrapes."""
    deadline = time.monotonic() + SECONDS
    while True:
        queries = [query for query in queries if not server.query(query)]
        if not queries or time.monotonic() > deadline:
            return queries
        time.sleep(1)


@pytest.mark.slow
def test_every_query_returns_data(kafka_broker: Broker, tmp_path: Path) -> None:
    """The value of an event that has not happened is 0, not missing."""
    with loaded_worker(kafka_broker, tmp_path) as (stream, worker):
        with prometheus(tmp_path / "prometheus", worker.port) as server:
            send_for(stream, LOAD_SECONDS)
            panels = [asked(expression) for _, expression in queries()]
            assert without_data(server, panels) == []
            assert without_data(server, sorted(recorded())) == []
            watched = {each.text for rule in alerts() for each in selectors(rule["expr"])}
            assert without_data(server, sorted(watched - ONLY_ON_ERRORS)) == []
            assert {rule["health"] for rule in server.rules()} == {"ok"}
            errors = server.query("firstseen_errors_total")
            assert len(errors) == len(Stage) * len(ErrorReason)
            assert set(errors) == {0.0}
        worker.stop_gently()
