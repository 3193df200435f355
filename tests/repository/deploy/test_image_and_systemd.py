"""The Dockerfile and the systemd unit name files that exist, and start valid commands."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from streams.cli import worker_processes
from streams.errors import ExitCode
from streams.settings.loader import load_settings
from streams.settings.settings import Settings
from tests.repository.deploy.shipped_files import (
    OURS,
    image_environment,
    instructions,
    of_image,
    parse_command,
    project,
)
from tests.repository.source_tree import ROOT
from tests.rigs.brokers.loopback_ports import free_port
from tests.rigs.waiting import await_that
from tests.rigs.workers.stream_harness import Worker
from tests.unit.cli.running import firstseen

STATE_DIR = "/var/lib/firstseen"
UNIT = ROOT / "deploy" / "systemd" / "firstseen.service"

# ---- the image


def test_both_stages_have_one_pinned_python_that_the_project_allows() -> None:
    (base,) = {rest.split()[0] for name, rest in instructions() if name == "FROM"}
    tag = re.fullmatch(r"python:(\d+\.\d+)(\.\d+)?-slim-\w+(@sha256:[0-9a-f]{64})?", base)
    assert tag is not None
    assert SpecifierSet(project()["requires-python"]).contains(tag[1])
    labels = " ".join(of_image("LABEL"))
    assert f'base.name="docker.io/library/{base}"' in labels
    assert f'org.opencontainers.image.version="{project()["version"]}"' in labels
    assert 'org.opencontainers.image.licenses="Apache-2.0"' in labels


def test_dockerignore_lets_through_what_is_copied_and_nothing_else() -> None:
    copied = {
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    ignore = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert copied == {line[1:] for line in ignore if line.startswith("!")}
    assert "*" in ignore
    assert [path for path in copied if not (ROOT / path).exists()] == []


def test_the_builder_has_the_pins_and_all_that_the_build_needs() -> None:
    installs = [rest for name, rest in instructions() if name == "RUN" and "pip" in rest]
    assert any("PIP_CONSTRAINT=/build/constraints.txt" in line for line in installs)
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]
    fragments = hatch["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]
    needed = {*(each["path"] for each in fragments), *project()["license-files"]}
    needed |= set(hatch["build"]["targets"]["wheel"]["packages"])
    copied = " ".join(rest for name, rest in instructions() if name == "COPY").split()
    assert needed <= set(copied)


def test_the_standard_library_has_byte_code(tmp_path: Path) -> None:
    """Runs the image's command on a part of this machine's library without byte code."""
    compiles, *_ = of_image("RUN")
    (base,) = {rest.split()[0] for name, rest in instructions() if name == "FROM"}
    library = f"/usr/local/lib/python{base.removeprefix('python:')[:4]}"
    assert compiles.endswith(f" {library}")
    here, there = Path(sysconfig.get_path("stdlib")), tmp_path / "python3.11"
    for part in ("json", "lib2to3/fixes"):
        shutil.copytree(here / part, there / part, ignore=shutil.ignore_patterns("__pycache__"))
    command = shlex.split(compiles.replace(library, str(there)))
    run = subprocess.run(
        [sys.executable, *command[1:]], capture_output=True, text=True, timeout=60, check=False
    )
    assert (command[0], run.returncode, run.stdout) == ("python", 0, "")
    assert {path.parent.parent.name for path in there.rglob("*.pyc")} == {"json"}


def test_the_image_starts_a_worker_as_a_user_who_owns_the_state() -> None:
    (user,), (entrypoint,), (command,) = map(of_image, ("USER", "ENTRYPOINT", "CMD"))
    *_, run = of_image("RUN")
    uid, gid = user.split(":")
    assert min(int(uid), int(gid)) >= 10_000
    assert f"--owner={uid} --group={gid}" in run
    assert run.endswith(STATE_DIR)
    program, *arguments = json.loads(entrypoint) + json.loads(command)
    assert program == "firstseen"
    assert parse_command(arguments).command_path == "firstseen worker"
    ours = {name: value for name, value in image_environment().items() if name.startswith(OURS)}
    settings = load_settings(environ=ours).settings
    assert str(settings.state_dir) == STATE_DIR
    assert settings.web.host == "0.0.0.0"  # noqa: S104 - in a container
    assert not settings.web.serves_data
    assert of_image("EXPOSE") == [str(Settings().web.port)]


def health_check() -> list[str]:
    """Return the arguments of ``firstseen`` in the image's health check."""
    (check,) = of_image("HEALTHCHECK")
    words: list[str] = json.loads(check.partition("CMD")[2])
    program, *arguments = words
    assert program == "firstseen"
    return arguments


def test_the_health_check_follows_the_worker_and_not_its_broker(tmp_path: Path) -> None:
    """A worker that waits for its broker can be stopped."""
    options = ["--broker", f"127.0.0.1:{free_port()}", "--set", f"state_dir={tmp_path}"]
    with Worker(options, tmp_path / "worker.log") as worker:
        environ = {"FIRSTSEEN_WEB__PORT": str(worker.port)}
        seen: list[subprocess.CompletedProcess[str]] = []

        def is_well() -> bool:
            worker.check()
            seen.append(firstseen(*health_check(), environ=environ))
            return seen[-1].returncode == ExitCode.OK

        await_that(is_well)
        ready = firstseen(*health_check(), "--ready", environ=environ)
        assert ready.returncode == ExitCode.RUNTIME
        assert "it waits for its broker" in ready.stderr
        worker.await_log("waiting for a Kafka broker at 127.0.0.1:")
        worker.stop_gently()
        assert "SIGTERM, before the worker had joined its group" in worker.log_text()
        assert firstseen(*health_check(), environ=environ).returncode != ExitCode.OK


# ---- the unit


@pytest.fixture
def service() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    parser.read(UNIT, "utf-8")
    return parser["Service"]


def test_the_unit_starts_a_worker_for_each_core_with_its_own_directory(
    service: configparser.SectionProxy,
) -> None:
    program, *arguments = service["ExecStart"].split()
    variables = dict(pair.split("=", 1) for pair in service["Environment"].split())
    assert program.endswith("/bin/firstseen")
    *command, config = arguments
    assert command == ["worker", "--processes", "auto", "--config"]
    assert parse_command(command[:-1]).command_path == "firstseen worker"
    credential = service["LoadCredential"].partition(":")[0]
    assert config == f"${{CREDENTIALS_DIRECTORY}}/{credential}"
    assert credential.endswith(".toml")
    ours = {name: value for name, value in variables.items() if name.startswith(OURS)}
    state_dir = load_settings(environ=ours).settings.state_dir
    assert str(state_dir) == f"/var/lib/{service['StateDirectory']}"


def test_systemd_restarts_what_a_restart_helps(service: configparser.SectionProxy) -> None:
    assert service["Restart"] == "on-failure"
    assert int(service["RestartPreventExitStatus"]) == ExitCode.CONFIGURATION
    assert int(service["SuccessExitStatus"]) == ExitCode.TERMINATED
    seconds = int(service["TimeoutStopSec"].removesuffix("s"))
    assert seconds > Settings().stop_seconds + worker_processes.KILL_SECONDS
    assert service["KillMode"] == "mixed", "each process gets SIGTERM once, from its supervisor"


def test_commands_in_the_documentation_name_the_unit_and_its_environment() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    units = re.findall(r"systemctl (?:re)?(?:start|stop) (\S+)|--unit (\S+)", page)
    assert units
    assert {name for pair in units for name in pair if name} == {UNIT.stem}
    (installed,) = re.findall(r"systemctl stop .* && (\S+)/pip install", page)
    assert f"ExecStart={installed}/firstseen " in UNIT.read_text("utf-8")


def test_systemd_knows_every_line() -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("no systemd-analyze")
    run = subprocess.run(
        [systemd, "verify", UNIT], capture_output=True, text=True, timeout=60, check=False
    )
    found = [line for line in run.stderr.splitlines() if UNIT.name in line]
    assert [line for line in found if "is not executable" not in line] == []
