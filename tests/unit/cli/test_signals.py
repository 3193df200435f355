"""A signal ends a command with its code, also if it comes within a call of confluent-kafka."""

from __future__ import annotations

import importlib
import signal
from typing import Never

import pytest

from streams.cli.main import main
from streams.errors import ExitCode
from streams.worker import process


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (SystemExit(ExitCode.TERMINATED), ExitCode.OK),  # no work has begun
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (None, ExitCode.RUNTIME),
    ],
    ids=["SIGTERM", "SIGINT", "none"],
)
def test_a_signal_within_a_call_of_a_client(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException | None, code: ExitCode
) -> None:
    def run_worker(_settings: object) -> Never:
        raise SystemError("<method> returned a result with an exception set") from raised

    monkeypatch.setattr(process, "run_worker", run_worker)
    assert main(["worker"]) == code


@pytest.mark.parametrize(
    ("command", "code"),
    [("--debug worker", ExitCode.OK), ("topics check", ExitCode.TERMINATED)],
)
def test_sigterm_while_a_command_loads_its_code(
    monkeypatch: pytest.MonkeyPatch, command: str, code: ExitCode
) -> None:
    def import_module(_name: str) -> Never:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError

    monkeypatch.setattr(importlib, "import_module", import_module)
    assert main(command.split()) == code
