"""Tests what this project needs of each broker, embedded and real, and the fixtures for them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from streams.kafka.clients import Producer
from tests.repository.source_tree import ROOT
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker, kafka_libs
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that

SECONDS_MAX = 60.0
RUN_SECONDS_MAX = 240.0

# ---- records


def send(broker: Broker, topic: str, value: bytes | None, **record: object) -> None:
    """Send one record to partition 0, and wait until the broker has it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    outcomes: list[KafkaError | None] = []
    producer.produce(
        topic,
        value=value,
        partition=0,
        on_delivery=lambda error, _message: outcomes.append(error),
        **record,  # type: ignore[arg-type]
    )
    assert producer.flush(SECONDS_MAX) == 0
    assert outcomes == [None]


def values(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    read = broker.read_partition(topic, count, isolation_level="read_committed")
    return [message.value() for message in read]


def test_a_record_comes_back_whole(broker: Broker) -> None:
    topic = broker.new_topic("contract", 4)
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("none", None)]
    send(broker, topic, "正文".encode(), key=b"id-1", headers=headers, timestamp=1_700_000_000_123)
    (message,) = broker.read_partition(topic, 1)
    assert message.value() == "正文".encode()
    assert message.key() == b"id-1"
    assert message.headers() == headers
    assert message.timestamp()[1] == 1_700_000_000_123


def test_a_tombstone_differs_from_an_empty_value(broker: Broker) -> None:
    topic = broker.new_topic("contract", 4)
    send(broker, topic, None, key=b"gone")
    send(broker, topic, b"", key=b"empty")
    assert values(broker, topic, 2) == [None, b""]


# ---- fixtures


def run_python(
    *arguments: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )


@pytest.mark.parametrize("required", [{}, {"FIRSTSEEN_REQUIRE_KAFKA": "1"}])
def test_without_kafka_its_tests_are_skipped_or_fail(
    tmp_path: Path, required: dict[str, str]
) -> None:
    cleared = {k: v for k, v in os.environ.items() if not k.startswith(("FIRSTSEEN_", "PYTEST_"))}
    run = run_python(
        *("-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-k", "tombstone or whole"),
        Path(__file__).relative_to(ROOT),
        env={**cleared, "FIRSTSEEN_KAFKA_LIBS": str(tmp_path), "COLUMNS": "400", **required},
    )
    output, why = run.stdout, f"no Apache Kafka in {tmp_path}: run make kafka"
    assert "2 passed" in output
    if required:
        assert (run.returncode, "2 errors" in output) == (1, True), output
        assert f"FIRSTSEEN_REQUIRE_KAFKA=1, but {why}" in output
    else:
        assert run.returncode == 0, output
        (reason,) = re.findall(r"^SKIPPED \[\d+\].*$", output, re.MULTILINE)
        assert reason.startswith("SKIPPED [2]")
        assert why in reason


STARTS_AND_DIES = """
import os, sys
from pathlib import Path
from tests.rigs.brokers.kafka_broker import KafkaBroker, kafka_libs
directory, client_port, controller_port = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
KafkaBroker(directory, client_port=client_port, controller_port=controller_port).start()
print('answers', flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_kafka_does_not_outlive_a_test_run_that_is_killed(own_kafka_broker: Broker) -> None:
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    server.stop()  # Its data and ports are used again: it is formatted once and started twice.
    directory = server.log_path.parent
    ports = [str(server.client_port), str(server.controller_port)]
    run = run_python("-c", STARTS_AND_DIES, directory, *ports)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert run.stdout == "answers\n"
    find = ["pgrep", "-f", str(directory / "server.properties")]
    await_that(lambda: subprocess.run(find, capture_output=True, check=False).returncode == 1)


def run_kafka(folder: Path, *arguments: str) -> tuple[int, str]:
    """Do as ``make kafka-run`` and ``make kafka-stop``, with the data in ``folder/run``."""
    libs = folder / "libs"
    if not libs.exists():
        libs.symlink_to(kafka_libs(), target_is_directory=True)
    run = run_python(
        *("-m", "tests.rigs.brokers.run_kafka", *arguments),
        env={**os.environ, "FIRSTSEEN_KAFKA_LIBS": str(libs)},
    )
    return run.returncode, run.stdout + run.stderr


def test_the_broker_of_another_is_not_reported_as_started(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    assert isinstance(kafka_broker.server, KafkaBroker)
    port = kafka_broker.server.client_port
    code, output = run_kafka(tmp_path, "start", str(port))
    assert code == 1, output
    assert f"another program listens on localhost:{port}" in output
    assert "answers" not in output
    # The other process may take the port only while ours starts.
    (tmp_path / "run").mkdir()
    code, output = run_kafka(tmp_path, "serve", str(port))
    assert code == 1
    assert f"another Kafka answers at 127.0.0.1:{port}" in output


def test_kafka_run_starts_one_that_kafka_stop_ends_and_no_other_process(
    kafka_required: None,  # noqa: ARG001 - skips
    tmp_path: Path,
) -> None:
    port = str(free_port())
    bystander = subprocess.Popen(["sleep", str(RUN_SECONDS_MAX)])
    try:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "pid").write_text(str(bystander.pid))  # from before a restart
        assert run_kafka(tmp_path, "stop") == (0, "Kafka does not run\n")
        code, output = run_kafka(tmp_path, "start", port)
        try:
            assert code == 0, output
            assert f"Kafka answers at localhost:{port}" in output
            assert run_kafka(tmp_path, "start", port)[1].startswith("Kafka runs already")
        finally:
            stopped = run_kafka(tmp_path, "stop")
        assert stopped == (0, "Kafka has ended\n")
        assert run_kafka(tmp_path, "stop") == (0, "Kafka does not run\n")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
