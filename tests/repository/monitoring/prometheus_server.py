"""A Prometheus of a test's own, on loopback, that scrapes one worker every second."""

from __future__ import annotations

import http.client
import json
import math
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import yaml

from tests.repository.monitoring.shipped_rules import RULE_FILES
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.required_tools import give_up

HOST = "127.0.0.1"
START_SECONDS = 90.0
STOP_SECONDS = 30.0
ASK_SECONDS = 30.0

Series = dict[str, str]


class PrometheusServer:
    """Runs from ``__enter__`` to ``__exit__``, with the rules of deploy/prometheus.

    They are evaluated every second, which is all that differs. Where Prometheus is not installed
    the test is skipped, or fails where tools are required.
    """

    def __init__(self, directory: Path, worker_port: int) -> None:
        program = shutil.which("prometheus")
        if program is None:
            give_up("no prometheus: it is a package of Debian and Ubuntu")
        self._program = program
        self._directory = directory
        self._worker_port = worker_port
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir()
        for file in RULE_FILES:
            rules = yaml.safe_load(file.read_text("utf-8"))
            for group in rules["groups"]:
                group["interval"] = "1s"
            (self._directory / file.name).write_text(yaml.safe_dump(rules), "utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["*.rules.yml"],
            "scrape_configs": [
                {
                    "job_name": "firstseen",
                    "static_configs": [{"targets": [f"{HOST}:{self._worker_port}"]}],
                }
            ],
        }
        (self._directory / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
        with (self._directory / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    f"--config.file={self._directory / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._directory / 'data'}",
                    f"--web.listen-address={HOST}:{self._port}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
            )
        self._await_ready()
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)

    def query(self, expression: str) -> list[tuple[Series, float]]:
        """The labels and values that an expression has now; those without a value are left out."""
        found = self._ask(f"/api/v1/query?{urlencode({'query': expression})}")["result"]
        series = [(each["metric"], float(each["value"][1])) for each in found]
        return [(labels, value) for labels, value in series if not math.isnan(value)]

    def rules(self) -> list[dict[str, Any]]:
        """Every rule as Prometheus sees it: its health, and what it failed of."""
        return [rule for group in self._ask("/api/v1/rules")["groups"] for rule in group["rules"]]

    def _ask(self, path: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=ASK_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            content = json.loads(answer.read())
        finally:
            connection.close()
        assert content["status"] == "success", content
        data: dict[str, Any] = content["data"]
        return data

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self._process is not None
            log = (self._directory / "prometheus.log").read_text("utf-8")
            assert self._process.poll() is None, log
            assert time.monotonic() < deadline, log
            try:
                if self.query("up"):
                    return
            except (OSError, http.client.HTTPException, ValueError):
                pass
            time.sleep(0.2)
