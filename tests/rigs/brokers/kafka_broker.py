"""A real Apache Kafka broker for tests: one process, KRaft, no Docker.

``make kafka`` fetches it; ``docs/kafka.md`` explains its configuration.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException

from streams.kafka.clients import AdminClient
from tests.rigs.brokers import run_until_orphaned
from tests.rigs.brokers.kafka_configuration import (
    CONTROLLER_ID,
    JVM_OPTIONS,
    server_properties,
)
from tests.rigs.brokers.loopback_ports import free_port

_REPOSITORY = Path(__file__).resolve().parents[3]
_START_SECONDS_MAX = 120.0
_STOP_SECONDS_MAX = 60.0
_LOG_TAIL_LINES = 40
_CLUSTER_ID = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class KafkaBrokerError(RuntimeError):
    """The broker cannot run here, did not start, or did not stop; the message has its log's end."""


def kafka_libs() -> Path:
    """Return the directory of the jars: FIRSTSEEN_KAFKA_LIBS, or ``.kafka/libs`` here."""
    return Path(os.environ.get("FIRSTSEEN_KAFKA_LIBS") or _REPOSITORY / ".kafka" / "libs")


def _loaded_classes() -> Path:
    """Return the file in which the first format keeps the classes that it has loaded."""
    return kafka_libs().parent / "classes.jsa"


def why_kafka_cannot_run() -> str | None:
    """Return one line on what a real broker lacks here, and how to get it, or None."""
    if shutil.which("java") is None:
        return "no java on PATH: install Java 17, then run make kafka"
    if not any(kafka_libs().glob("kafka_2.13-*.jar")):
        return f"no Apache Kafka in {kafka_libs()}: run make kafka"
    return None


class KafkaBroker:
    """One broker in one JVM, with its data in one directory; usually it is a controller too.

    The ports are chosen once and kept over restarts. The process ends when the process that started
    it ends in any way. A directory that an earlier broker used is opened as it is.

    Args:
        directory: Holds the configuration, the data and the log.
        properties: Server properties over those of ``kafka_configuration``.
        jvm_options: Arguments of java.
        client_settings: What a client needs beside the address (SASL, TLS), in librdkafka's names.
        client_port: The listener's port, if it must be known before; random otherwise.
        controller_port: The same for the controller.
        node_id: Its number; 1 is the controller, which others join at ``controller_port``.
        format_options: More arguments of ``StorageTool format``, such as users for SCRAM.
        host: The address at which it listens.
        controllers: The addresses of all controllers by number, if there are several.
        launcher: A command that runs the broker's command, such as ``ip netns exec NAME``.

    Raises:
        KafkaBrokerError: Java or the jars are missing.
    """

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = JVM_OPTIONS,
        client_settings: Mapping[str, Any] | None = None,
        client_port: int | None = None,
        controller_port: int | None = None,
        node_id: int = 1,
        format_options: Sequence[str] = (),
        host: str = "127.0.0.1",
        controllers: Mapping[int, str] | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        reason = why_kafka_cannot_run()
        if reason is not None:
            raise KafkaBrokerError(reason)
        self.client_port = client_port or free_port()
        self.controller_port = controller_port or free_port()
        self._directory = directory
        self.node_id = node_id
        self.host = host
        self._controllers = controllers or {CONTROLLER_ID: f"{host}:{self.controller_port}"}
        self._launcher = tuple(launcher)
        self._properties = dict(properties or {})
        # The JVM unpacks native libraries there, and they stay if it is killed.
        self._temporary = directory / "tmp"
        self._jvm_options = [*jvm_options, f"-Djava.io.tmpdir={self._temporary}"]
        self._jvm_options += ["-cp", f"{kafka_libs()}{os.sep}*"]
        self._client_settings = dict(client_settings or {})
        self._format_options = tuple(format_options)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.client_port}"

    @property
    def is_alone_controller(self) -> bool:
        return self._controllers.keys() == {self.node_id}

    @property
    def log_path(self) -> Path:
        return self._directory / "broker.log"

    @property
    def data(self) -> Path:
        return self._directory / "data"

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the broker and wait until it answers; format an empty directory first.

        Raises:
            KafkaBrokerError: It runs already, ended at once, or did not answer in time; or another
                Kafka has its port.
        """
        self.launch()
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def launch(self) -> None:
        """Start the broker without waiting until it answers; format an empty directory first.

        Raises:
            KafkaBrokerError: It runs already.
        """
        if self.is_running():
            raise KafkaBrokerError("the broker runs already")
        self._close()
        self._temporary.mkdir(parents=True, exist_ok=True)
        properties = server_properties(
            host=self.host,
            client_port=self.client_port,
            controllers=self._controllers,
            data=self.data,
            node_id=self.node_id,
            overrides=self._properties,
        )
        configuration = self._directory / "server.properties"
        configuration.write_text(
            "".join(f"{name}={value}\n" for name, value in properties.items()), "utf-8"
        )
        if not (self.data / "meta.properties").exists():
            self._format(configuration)
        command = [*self._launcher, *self._java(), "kafka.Kafka", str(configuration)]
        with self.log_path.open("ab") as log:
            # In its own group: kill ends both processes together, and Ctrl-C reaches neither.
            self._process = subprocess.Popen(
                [sys.executable, run_until_orphaned.__file__, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End the broker by SIGKILL, if it runs."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the broker by SIGTERM, if it runs.

        Raises:
            KafkaBrokerError: It had to be killed.
        """
        try:
            self._end(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._error(f"the broker did not stop in {_STOP_SECONDS_MAX:g} s") from None

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def remove_data(self) -> None:
        """Remove all files of a stopped broker except its configuration and its log."""
        for directory in ("data", self._temporary.name):
            shutil.rmtree(self._directory / directory, ignore_errors=True)

    def _java(self, new_archive: Path | None = None) -> list[str]:
        """Return a command to which only the class and its arguments are added.

        The JVM reads its classes from the archive of the first format, or makes it now. It starts
        without one that is of another JVM.
        """
        archive = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        if _loaded_classes().exists():
            archive += [f"-XX:SharedArchiveFile={_loaded_classes()}"]
        elif new_archive is not None:
            archive += [f"-XX:ArchiveClassesAtExit={new_archive}"]
        return ["java", *archive, *self._jvm_options]

    def _format(self, configuration: Path) -> None:
        written = _loaded_classes().with_suffix(f".{os.getpid()}")
        command = [*self._java(written), "kafka.tools.StorageTool", "format"]
        # One argument: an id may begin with a dash.
        command += [f"--cluster-id={_CLUSTER_ID}", "--config", str(configuration)]
        with self.log_path.open("ab") as log:
            formatted = subprocess.run(
                [*command, *self._format_options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=_START_SECONDS_MAX,
                check=False,
            )
        if formatted.returncode != 0:
            raise self._error(f"formatting ended with code {formatted.returncode}")
        if written.exists():
            written.replace(_loaded_classes())

    def _cluster_id(self) -> str:
        lines = (self.data / "meta.properties").read_text("utf-8").splitlines()
        return dict(line.partition("=")[::2] for line in lines)["cluster.id"]

    def _wait_until_it_answers(self) -> None:
        admin = AdminClient(
            {
                "bootstrap.servers": self.bootstrap_servers,
                # Connections are refused until the broker listens: do not log that, and do not wait
                # longer.
                "log_level": 0,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 100,
                **self._client_settings,
            }
        )
        deadline = time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            if not self.is_running():
                raise self._error("the broker ended while it started")
            with contextlib.suppress(KafkaException):
                metadata: Any = admin.list_topics(timeout=0.5)  # its fields have no types
                if metadata.cluster_id != self._cluster_id():
                    raise self._error(f"another Kafka answers at {self.bootstrap_servers}")
                if metadata.brokers:
                    return
        raise self._error(f"the broker did not answer in {_START_SECONDS_MAX:g} s")

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_running():
            self.send_signal(number)
            self._process.wait(_STOP_SECONDS_MAX)
        self._close()

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def _error(self, message: str) -> KafkaBrokerError:
        log = self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""
        tail = "\n".join(log.splitlines()[-_LOG_TAIL_LINES:])
        return KafkaBrokerError(f"{message}; the end of {self.log_path}:\n{tail}")
