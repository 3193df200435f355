"""``make kafka-run``: runs the fetched Kafka for experiments, until ``make kafka-stop``.

::

    python -m tests.rigs.brokers.run_kafka start [PORT]   # returns when it answers
    python -m tests.rigs.brokers.run_kafka stop

The data stays in ``.kafka/run``, so that it fits the workers' state at the next start.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import click

from tests.rigs.brokers.kafka_broker import KafkaBroker, KafkaBrokerError, kafka_libs
from tests.rigs.brokers.loopback_ports import is_taken

PORT = 9092
_FOLDER = kafka_libs().parent / "run"
_PID_FILE = _FOLDER / "pid"
_START_SECONDS_MAX = 150.0
_STOP_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.1


def main(arguments: list[str]) -> int:
    match arguments:
        case ["start", *port]:
            return _start(int(port[0]) if port else PORT)
        case ["stop"]:
            return _stop()
        case ["serve", port]:
            return _serve(int(port))
    click.echo(__doc__, err=True)
    return 2


def _running() -> int | None:
    with suppress(FileNotFoundError, ValueError), _PID_FILE.open() as file:
        try:
            # After a restart of the machine the number may belong to any program; then the lock is
            # free.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read())
    return None


def _start(port: int) -> int:
    if _running() is not None:
        click.echo("Kafka runs already: make kafka-stop ends it")
        return 0
    if is_taken("localhost", port):
        click.echo(
            f"Kafka was not started: another program listens on localhost:{port}. End it, or use "
            "it as it is, if it is a Kafka of yours.",
            err=True,
        )
        return 1
    began = time.monotonic()
    _FOLDER.mkdir(parents=True, exist_ok=True)
    log = _FOLDER / "log"
    with log.open("wb") as output:
        serving = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "serve", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    while _running() is None:
        if serving.poll() is not None or time.monotonic() - began > _START_SECONDS_MAX:
            serving.kill()
            click.echo(f"Kafka did not start:\n{log.read_text('utf-8', 'replace')}", err=True)
            return 1
        time.sleep(_POLL_SECONDS)
    click.echo(f"Kafka answers at localhost:{port} ({time.monotonic() - began:.0f} s)")
    return 0


def _serve(port: int) -> int:
    """Run the broker until SIGTERM, and hold a lock on the file with this process's number."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with _PID_FILE.open("a") as file, KafkaBroker(_FOLDER, client_port=port) as broker:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            while broker.is_running():
                time.sleep(_POLL_SECONDS)
    except KafkaBrokerError as error:
        click.echo(error, err=True)
    return 1


def _stop() -> int:
    pid = _running()
    if pid is None:
        click.echo("Kafka does not run")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS_MAX
    while _running() is not None:
        if time.monotonic() > deadline:
            click.echo(f"Kafka (process {pid}) does not end", err=True)
            return 1
        time.sleep(_POLL_SECONDS)
    click.echo("Kafka has ended")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
