"""The containers of docker-compose.yml, run outside containers: the same commands and variables.

What differs is the addresses, the ports of this machine and the directory of the state.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams.errors import ExitCode
from tests.repository.deploy.compose_kafka import ComposeKafka
from tests.repository.deploy.shipped_files import image_environment, services
from tests.repository.deploy.test_compose import arguments, environment
from tests.rigs.brokers.loopback_ports import free_port
from tests.unit.cli.running import clean_environment, firstseen

READY_SECONDS = 180.0


@pytest.fixture
def kafka(kafka_required: None, tmp_path: Path) -> Iterator[ComposeKafka]:  # noqa: ARG001 - skips
    """The service ``kafka``, set up and running."""
    kafka = ComposeKafka(tmp_path)
    made = kafka.set_up()
    assert made.returncode == 0, made.stderr
    again = kafka.set_up()
    assert "already formatted" in again.stderr, "the image starts on, after these words alone"
    with kafka.running():
        yield kafka


def variables(service: str, kafka: ComposeKafka, **other: str) -> dict[str, str]:
    """The environment of a service of ours, with the addresses of this machine."""
    given = environment(service) | other
    given["FIRSTSEEN_BROKERS"] = kafka.addresses[given["FIRSTSEEN_BROKERS"]]
    return given


@contextmanager
def worker(kafka: ComposeKafka, directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The service ``worker``, in a process of its own."""
    given = variables(
        "worker",
        kafka,
        FIRSTSEEN_STATE_DIR=str(directory / "state"),
        FIRSTSEEN_WEB__HOST="127.0.0.1",
        FIRSTSEEN_WEB__PORT=str(port),
    )
    python = {k: v for k, v in image_environment().items() if k.startswith("PYTHON")}
    with (directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "streams.cli.main", *arguments("worker")],
            env=clean_environment() | python | given,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


def is_healthy(kafka: ComposeKafka, port: int) -> bool:
    """Run the health check of the service ``worker``, in the environment of the worker."""
    check = services()["worker"]["healthcheck"]["test"]
    assert check[:2] == ["CMD", "firstseen"]
    environ = variables("worker", kafka, FIRSTSEEN_WEB__PORT=str(port))
    return firstseen(*check[2:], environ=environ).returncode == ExitCode.OK


def outputs(kafka: ComposeKafka, *options: str) -> list[dict[str, object]]:
    """The records of the three outputs, read through the port that this machine has."""
    run = firstseen(
        *("consume", "--from-beginning", "--json", *options),
        *("--broker", kafka.addresses["localhost:9092"]),
    )
    assert run.returncode == ExitCode.OK, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_from_an_empty_broker_to_verdicts(kafka: ComposeKafka, tmp_path: Path) -> None:
    for state in ("created", "exists"):
        run = firstseen(*arguments("topics-init"), environ=variables("topics-init", kafka))
        assert run.returncode == ExitCode.OK, run.stderr
        assert [line.split()[0] for line in run.stdout.splitlines()] == [state] * 7

    port = free_port()
    with worker(kafka, tmp_path, port) as process:
        deadline = time.monotonic() + READY_SECONDS
        while not is_healthy(kafka, port):
            log = (tmp_path / "worker.log").read_text("utf-8")
            assert process.poll() is None, log
            assert time.monotonic() < deadline, log

        words = arguments("load")
        words[words.index("--documents") + 1] = "300"
        load = firstseen(*words, "--json", environ=variables("load", kafka))
        assert load.returncode == ExitCode.OK, load.stderr
        sent = json.loads(load.stdout)["documents"]
        assert len(outputs(kafka, "--limit", str(sent))) == sent
        found = Counter(str(record["topic"]) for record in outputs(kafka, "--until-end"))
        assert found.total() == sent
        assert set(found) == {"unique", "duplicate-of", "dlq.raw-documents"}

        process.send_signal(signal.SIGTERM)
        grace = int(services()["worker"]["stop_grace_period"].removesuffix("s"))
        assert process.wait(grace) == ExitCode.OK
    lines = (tmp_path / "worker.log").read_text("utf-8").splitlines()
    assert all(json.loads(line) for line in lines), "the log is JSON, as Compose asks"
