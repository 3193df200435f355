"""The fixtures that give tests their brokers, looked at from outside: a pytest in a pytest."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.kafka_broker import KafkaBroker

SECONDS_MAX = 240.0

ON_BOTH = "tests/rigs/brokers/test_brokers.py"


def run_without_kafka(empty: Path, **environment: str) -> tuple[int, str]:
    """Run a few tests of both brokers where no jars are; returns exit code and output."""
    cleared = {k: v for k, v in os.environ.items() if not k.startswith(("FIRSTSEEN_", "PYTEST_"))}
    run = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-p", "no:cacheprovider"),
            *("--color=no", "-k", "tombstone or whole or zombie or kill_9", ON_BOTH),
        ],
        env={**cleared, "FIRSTSEEN_KAFKA_LIBS": str(empty), "COLUMNS": "400", **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return run.returncode, run.stdout


def test_without_kafka_its_tests_are_skipped_for_one_reason(tmp_path: Path) -> None:
    code, output = run_without_kafka(tmp_path)
    assert code == 0, output
    assert "2 passed" in output
    assert "4 skipped" in output
    reasons = re.findall(r"^SKIPPED \[\d+\].*$", output, re.MULTILINE)
    assert len(reasons) == 1
    assert "SKIPPED [4]" in reasons[0]
    assert f"no Apache Kafka in {tmp_path}: run make kafka" in reasons[0]


def test_where_kafka_is_required_its_tests_fail(tmp_path: Path) -> None:
    code, output = run_without_kafka(tmp_path, FIRSTSEEN_REQUIRE_KAFKA="1")
    assert code == 1, output
    assert "2 passed" in output
    assert "4 errors" in output
    assert f"FIRSTSEEN_REQUIRE_KAFKA=1, but no Apache Kafka in {tmp_path}: run make kafka" in output


def test_a_kafka_does_not_outlive_its_tests(own_kafka_broker: Broker, tmp_path: Path) -> None:
    server = own_kafka_broker.server
    assert isinstance(server, KafkaBroker)
    server.stop()  # Its data and ports serve again: formatted once, started twice.
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tests.rigs.brokers.kafka_broker import KafkaBroker\n"
        "directory, client_port, controller_port = sys.argv[1:]\n"
        "KafkaBroker(\n"
        "    Path(directory),\n"
        "    client_port=int(client_port),\n"
        "    controller_port=int(controller_port),\n"
        ").start()\n"
        "print('answers', flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ports = [str(server.client_port), str(server.controller_port)]
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "kafka"), *ports],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert run.stdout == "answers\n"

    def still_there() -> bool:
        found = subprocess.run(
            ["pgrep", "-f", str(tmp_path / "kafka" / "server.properties")],
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        return found.returncode == 0

    deadline = time.monotonic() + 60.0
    while still_there() and time.monotonic() < deadline:
        time.sleep(0.1)

    assert not still_there()
