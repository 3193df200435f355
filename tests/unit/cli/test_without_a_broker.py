"""Commands that need a broker: without one, and on one that lacks their topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ExitCode
from tests.rigs.brokers.broker import Broker
from tests.unit.cli.running import message_of, run_here

pytestmark = pytest.mark.usefixtures("empty_directory")


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "create", "--partitions", "1"),
        ("topics", "check"),
        ("consume",),
        ("produce", "documents.jsonl"),
    ],
    ids=" ".join,
)
def test_no_broker(command: tuple[str, ...]) -> None:
    """Given no broker, then the command ends with a code for that after the time it was given, and
    one line names the address, that time and the reason.
    """
    Path("documents.jsonl").write_text("{}")

    run = run_here(*command, "--broker", "127.0.0.1:1", "--timeout", "0.5")

    assert (run.returncode, run.stdout) == (ExitCode.BROKER_UNAVAILABLE, "")
    (line,) = run.stderr.splitlines()
    for part in ("127.0.0.1:1", "0.5 s", "refused"):
        assert part in line


@pytest.mark.parametrize(
    "command", [("consume", "--until-end"), ("produce", "documents.jsonl"), ("load",)], ids=" ".join
)
def test_a_missing_topic(kafka_broker: Broker, command: tuple[str, ...]) -> None:
    """Given a broker without the topic, then the message names it and what creates it."""
    Path("documents.jsonl").write_text("{}")
    topic = kafka_broker.unique("missing")
    options = ("--broker", kafka_broker.bootstrap_servers, "--set", f"topics.raw={topic}")
    named = ("--topic", topic) if command[0] == "consume" else ()

    message = message_of(ExitCode.RUNTIME, *command, *named, *options)

    assert f"topic {topic}" in message
    assert "firstseen topics create" in message
