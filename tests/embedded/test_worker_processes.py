"""``firstseen worker --processes``: real processes are killed, refused, stopped and orphaned."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from streams.errors import ExitCode
from tests.embedded.test_embedded_broker import is_alive
from tests.rigs.brokers.broker import Broker
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that
from tests.rigs.workers.short_documents import keyed_documents
from tests.rigs.workers.stream_harness import Stream, Worker

PROCESSES = 2
DOCUMENTS = 60


def supervised(worker: Worker) -> Worker:
    """Start workers under a supervisor with the options of one; its pages are the supervisor's."""
    worker.port = free_ports(1 + PROCESSES)
    assert worker._options[-1].startswith("web.port=")
    worker._options[-1] = f"web.port={worker.port}"
    command = [sys.executable, "-m", "streams.cli.main", "worker", "--processes", str(PROCESSES)]
    worker.start_as(command)
    return worker


def free_ports(count: int) -> int:
    while True:
        first = free_port()
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first


def processes(machine: Worker) -> list[dict[str, Any]]:
    status, body = machine._get("/")
    assert status == HTTPStatus.OK, body
    found: list[dict[str, Any]] = json.loads(body)["processes"]
    return found


def pids(machine: Worker) -> list[int]:
    return [each["pid"] for each in processes(machine)]


def await_none_of(pids: list[int], seconds: float = 30.0) -> None:
    await_that(lambda: not any(map(is_alive, pids)), seconds, shows=lambda: f"alive of {pids}")


@pytest.fixture
def without_broker(tmp_path: Path) -> Iterator[Worker]:
    """Start processes that will wait for a broker."""
    (tmp_path / "settings.toml").write_text("include_body = true\n")
    options = ["--broker", f"127.0.0.1:{free_port()}", "--set", f"state_dir={tmp_path / 'state'}"]
    options += ["--config", str(tmp_path / "settings.toml")]
    options += ["--set", "send_timeout_seconds=1"]
    machine = supervised(Worker(options, tmp_path / "worker.log"))
    for number in range(PROCESSES):
        machine.await_log(f"process {number} (pid ")
    yield machine
    if machine.runs:
        machine.kill()


@pytest.mark.slow
def test_a_killed_process_is_restarted_while_the_others_go_on(
    embedded_broker: Broker, tmp_path: Path
) -> None:
    with Stream(embedded_broker, tmp_path) as stream:
        machine = supervised(stream.worker())
        machine.await_ready()
        killed, other = processes(machine)
        assert [killed["restarts"], other["restarts"]] == [0, 0]
        stream.send(keyed_documents(1, DOCUMENTS))
        stream.settle()

        os.kill(killed["pid"], signal.SIGKILL)
        await_that(lambda: machine._get("/readyz")[0] != HTTPStatus.OK, shows=machine.log_text)
        stream.send(keyed_documents(2, DOCUMENTS))
        outputs = stream.settle()
        machine.await_ready()

        restarted, same = processes(machine)
        assert (restarted["restarts"], restarted["last_exit_code"]) == (1, 137)
        assert restarted["pid"] != killed["pid"]
        assert (same["pid"], same["restarts"]) == (other["pid"], 0)
        assert machine._get("/healthz") == (HTTPStatus.OK, "ok\n")
        targets = [f"127.0.0.1:{machine.port + 1 + number}" for number in range(PROCESSES)]
        assert json.loads(machine._get("/targets")[1]) == [{"targets": targets}]
        assert all(Path(each["state_dir"]).is_dir() for each in (restarted, same))

        machine.stop_gently()

        await_none_of([restarted["pid"], same["pid"]], 0)
        outputs.read_to_ends()
        stream.judge.conserved(stream.sent, outputs, repeats_allowed=True)
        log = machine.log_text()
        assert f"process 0 (pid {killed['pid']}) ended with exit code 137; restarting it" in log
        assert "Traceback" not in log
        assert log.splitlines()[-1].endswith("stopped: all processes have ended, exit code 0")


@pytest.mark.slow
def test_no_process_outlives_its_supervisor(embedded_broker: Broker, tmp_path: Path) -> None:
    """/healthz names a suspended process, which ends as soon as it continues."""
    with Stream(embedded_broker, tmp_path) as stream:
        machine = supervised(stream.worker("send_timeout_seconds=3", "stall_seconds=4"))
        machine.await_ready()
        running, suspended = pids(machine)
        os.kill(suspended, signal.SIGSTOP)
        try:
            await_that(
                lambda: f"process 1 (pid {suspended}): its pages" in machine._get("/healthz")[1]
            )
            assert machine._get("/healthz")[0] == HTTPStatus.SERVICE_UNAVAILABLE
            assert is_alive(running)

            machine.kill()

            await_none_of([running])
        finally:
            os.kill(suspended, signal.SIGCONT)
        await_none_of([suspended])


def test_settings_that_a_restarted_process_refuses_end_all(
    without_broker: Worker, tmp_path: Path
) -> None:
    found = pids(without_broker)
    (tmp_path / "settings.toml").write_text("inclued_body = true\n")
    os.kill(found[0], signal.SIGKILL)

    assert without_broker.await_end() == ExitCode.CONFIGURATION
    await_none_of(found, 0)
    said = without_broker.log_text()
    assert "did you mean include_body?" in said
    assert "ended with exit code 78: correct the error in its log first" in said


@pytest.fixture
def waiting(without_broker: Worker) -> list[int]:
    """Return the numbers of processes that wait for a broker."""
    for number in range(PROCESSES):
        without_broker.await_log(f"process {number}: streams.worker.process: waiting for a")
    return pids(without_broker)


@pytest.mark.slow
def test_what_does_not_end_in_time_is_killed(without_broker: Worker, waiting: list[int]) -> None:
    os.kill(waiting[1], signal.SIGSTOP)
    assert without_broker._process is not None
    without_broker._process.terminate()
    without_broker.await_log("stopping all processes: SIGTERM")
    without_broker._process.terminate()
    await_that(lambda: not is_alive(waiting[0]))

    assert without_broker.await_end() == ExitCode.TERMINATED
    await_none_of(waiting, 0)
    assert f"process 1 (pid {waiting[1]}) did not end in time" in without_broker.log_text()


@pytest.mark.slow
def test_ctrl_c_ends_all_in_order(without_broker: Worker, waiting: list[int]) -> None:
    assert without_broker._process is not None
    without_broker._process.send_signal(signal.SIGINT)

    assert without_broker.await_end() == ExitCode.INTERRUPTED
    await_none_of(waiting, 0)
    assert "Traceback" not in without_broker.log_text()
