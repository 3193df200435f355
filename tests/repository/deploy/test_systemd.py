"""deploy/systemd: what the unit runs is what the command line takes, and ends as it expects."""

from __future__ import annotations

import configparser
import shutil
import subprocess

import pytest

from streams.errors import ExitCode
from streams.settings.loader import load_settings
from streams.settings.settings import Settings
from tests.repository.deploy.shipped_files import parse_command
from tests.repository.source_tree import ROOT

UNIT = ROOT / "deploy" / "systemd" / "firstseen.service"
VERIFY_SECONDS = 60.0


def service() -> configparser.SectionProxy:
    """The section ``Service`` of the unit."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    parser.read(UNIT, "utf-8")
    return parser["Service"]


def test_it_starts_a_worker_with_its_own_directory() -> None:
    program, *arguments = service()["ExecStart"].split()
    variables = dict(pair.split("=", 1) for pair in service()["Environment"].split())
    assert program.endswith("/bin/firstseen")
    assert arguments[:2] == ["worker", "--config"]
    assert parse_command(["worker"]).command_path == "firstseen worker"
    credential = service()["LoadCredential"].partition(":")[0]
    assert arguments[2] == f"${{CREDENTIALS_DIRECTORY}}/{credential}"
    assert credential.endswith(".toml")
    ours = {name: value for name, value in variables.items() if name.startswith("FIRSTSEEN_")}
    state_dir = load_settings(environ=ours).settings.state_dir
    assert str(state_dir) == f"/var/lib/{service()['StateDirectory']}"


def test_it_restarts_what_a_restart_helps() -> None:
    assert service()["Restart"] == "on-failure"
    assert int(service()["RestartPreventExitStatus"]) == ExitCode.CONFIGURATION
    assert int(service()["SuccessExitStatus"]) == ExitCode.TERMINATED
    seconds = int(service()["TimeoutStopSec"].removesuffix("s"))
    assert seconds >= 1.5 * Settings().send_timeout_seconds


def test_systemd_knows_every_line() -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("no systemd-analyze")
    run = subprocess.run(
        [systemd, "verify", str(UNIT)],
        capture_output=True,
        text=True,
        timeout=VERIFY_SECONDS,
        check=False,
    )
    said = [line for line in run.stderr.splitlines() if UNIT.name in line]
    assert [line for line in said if "is not executable" not in line] == []
