"""The Kafka of docker-compose.yml, run without a container.

The image's own set-up, a class in Kafka's jar, makes a configuration of the environment and formats
the storage; then the broker is started on it, as the image does. Only addresses and the directory
of the data are others than in a container.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException

from streams.kafka.clients import AdminClient
from tests.repository.deploy.shipped_files import services
from tests.rigs.brokers import run_until_orphaned
from tests.rigs.brokers.kafka_broker import kafka_libs
from tests.rigs.brokers.kafka_configuration import JVM_OPTIONS
from tests.rigs.brokers.loopback_ports import free_port

_SET_UP_SECONDS = 120.0
_START_SECONDS = 120.0
_ENVIRONMENT = services()["kafka"]["environment"]


class ComposeKafka:
    """A broker as the service ``kafka`` has it, in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._configuration = directory / "configuration"
        self._log = directory / "kafka.log"
        self._configuration.mkdir(parents=True)
        (self._configuration / "server.properties").touch()
        ports = {"kafka:19092": free_port(), "localhost:9092": free_port()}
        controller = free_port()
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        inner, outer = self.addresses.values()
        self.environment = {name: str(value) for name, value in _ENVIRONMENT.items()} | {
            "KAFKA_LISTENERS": (
                f"INTERNAL://{inner},HOST://{outer},CONTROLLER://127.0.0.1:{controller}"
            ),
            "KAFKA_ADVERTISED_LISTENERS": f"INTERNAL://{inner},HOST://{outer}",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{controller}",
            "KAFKA_LOG_DIRS": str(directory / "data"),
        }

    def set_up(self) -> subprocess.CompletedProcess[str]:
        """Run the image's set-up."""
        directory = str(self._configuration)
        # It refuses arguments that are joined by spaces only.
        options = [f"--{name}-configs-dir={directory}" for name in ("default", "mounted", "final")]
        return subprocess.run(
            [*_java(), "kafka.docker.KafkaDockerWrapper", "setup", *options],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=_SET_UP_SECONDS,
            check=False,
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the broker; it answers on both listeners when this is entered."""
        properties = self._configuration / "server.properties"
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, run_until_orphaned.__file__),
                    *(*_java(), "kafka.Kafka", str(properties)),
                ],
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
            # Its end of the pipe: the broker is killed with it.
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)

    def _await(self, address: str, process: subprocess.Popen[bytes]) -> None:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:
                    return
        raise AssertionError(f"no answer on {address}: {self._log.read_text('utf-8')[-3000:]}")


def _java() -> list[str]:
    return ["java", *JVM_OPTIONS, "-cp", f"{kafka_libs()}{os.sep}*"]
