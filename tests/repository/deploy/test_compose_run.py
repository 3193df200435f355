"""Runs the services of docker-compose.yml without containers, by the same commands and variables.

Only the addresses, the ports of this machine and the state directory differ. For Kafka, a class in
Kafka's jar, which the image uses too, makes the configuration from the environment and formats the
storage; then the broker is started as in the image.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from streams.errors import ExitCode
from streams.kafka.clients import AdminClient
from tests.repository.deploy.shipped_files import image_environment, services
from tests.repository.deploy.test_compose import WORKER, arguments, environment
from tests.rigs.brokers import run_until_orphaned
from tests.rigs.brokers.kafka_broker import kafka_libs
from tests.rigs.brokers.kafka_configuration import JVM_OPTIONS
from tests.rigs.brokers.loopback_ports import free_port
from tests.unit.cli.running import clean_environment, firstseen

START_SECONDS = 120.0
READY_SECONDS = 180.0


class ComposeKafka:
    """A broker as in the service ``kafka``; ``addresses`` replace those in the containers."""

    def __init__(self, directory: Path) -> None:
        self._configuration = directory / "configuration"
        self._log = directory / "kafka.log"
        self._configuration.mkdir(parents=True)
        (self._configuration / "server.properties").touch()
        self._java = ["java", *JVM_OPTIONS, "-cp", f"{kafka_libs()}{os.sep}*"]
        inner, outer, controller = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.addresses = {"kafka:19092": inner, "localhost:9092": outer}
        given = services()["kafka"]["environment"]
        self._environment = {name: str(value) for name, value in given.items()} | {
            "KAFKA_LISTENERS": f"INTERNAL://{inner},HOST://{outer},CONTROLLER://{controller}",
            "KAFKA_ADVERTISED_LISTENERS": f"INTERNAL://{inner},HOST://{outer}",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@{controller}",
            "KAFKA_LOG_DIRS": str(directory / "data"),
        }

    def set_up(self) -> subprocess.CompletedProcess[str]:
        # The class refuses arguments that are joined only by spaces.
        names = ("default", "mounted", "final")
        options = [f"--{name}-configs-dir={self._configuration}" for name in names]
        return subprocess.run(
            [*self._java, "kafka.docker.KafkaDockerWrapper", "setup", *options],
            env={**os.environ, **self._environment},
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the broker; in the block it answers on both listeners."""
        command = [*self._java, "kafka.Kafka", str(self._configuration / "server.properties")]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, run_until_orphaned.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            for address in self.addresses.values():
                self._await(address, process)
            yield
        finally:
            # Close this end of the pipe, so that the broker is killed.
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)

    def _await(self, address: str, process: subprocess.Popen[bytes]) -> None:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:
                    return
        raise AssertionError(f"no answer on {address}: {self._log.read_text('utf-8')[-3000:]}")


@pytest.fixture
def kafka(kafka_required: None, tmp_path: Path) -> Iterator[ComposeKafka]:  # noqa: ARG001 - skips
    kafka = ComposeKafka(tmp_path)
    made = kafka.set_up()
    assert made.returncode == 0, made.stderr
    again = kafka.set_up()
    assert "already formatted" in again.stderr, "the image starts on, after these words alone"
    with kafka.running():
        yield kafka


def variables(service: str, kafka: ComposeKafka, **other: str) -> dict[str, str]:
    given = environment(service) | other
    given["FIRSTSEEN_BROKERS"] = kafka.addresses[given["FIRSTSEEN_BROKERS"]]
    return given


@contextmanager
def worker(kafka: ComposeKafka, directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
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
    kind, program, *check = WORKER["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "firstseen")
    environ = variables("worker", kafka, FIRSTSEEN_WEB__PORT=str(port))
    return firstseen(*check, environ=environ).returncode == ExitCode.OK


def outputs(kafka: ComposeKafka, *options: str) -> list[dict[str, object]]:
    """Return the records of the three outputs, read through the port of this machine."""
    run = firstseen(
        *("consume", "--from-beginning", "--json", *options),
        *("--broker", kafka.addresses["localhost:9092"]),
    )
    assert run.returncode == ExitCode.OK, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_from_an_empty_broker_to_verdicts(kafka: ComposeKafka, tmp_path: Path) -> None:
    """Topics are created once; the worker becomes healthy, decides documents, and ends in time."""
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
        assert process.wait(int(WORKER["stop_grace_period"].removesuffix("s"))) == ExitCode.OK
    lines = (tmp_path / "worker.log").read_text("utf-8").splitlines()
    assert all(json.loads(line) for line in lines), "the log is JSON, as Compose asks"
