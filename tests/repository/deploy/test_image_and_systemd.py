"""The Dockerfile and the systemd unit: what they name exists, and what they start is a command."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
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
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream
from tests.unit.cli.running import firstseen

STATE_DIR = "/var/lib/firstseen"
UNIT = ROOT / "deploy" / "systemd" / "firstseen.service"

# ---- the image


def test_both_stages_have_one_pinned_python_that_the_project_allows() -> None:
    (base,) = {rest.split()[0] for name, rest in instructions() if name == "FROM"}
    tag = re.fullmatch(r"python:(\d+\.\d+)(\.\d+)?-slim-\w+(@sha256:[0-9a-f]{64})?", base)
    assert tag is not None
    assert SpecifierSet(project()["requires-python"]).contains(tag[1])
    assert f'base.name="docker.io/library/{base}"' in " ".join(of_image("LABEL"))


def test_labels_have_the_version_and_the_licence() -> None:
    labels = " ".join(of_image("LABEL"))
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
    needed = {project()["readme"], *project()["license-files"]}
    needed |= set(hatch["build"]["targets"]["wheel"]["packages"])
    copied = " ".join(rest for name, rest in instructions() if name == "COPY").split()
    assert needed <= set(copied)


def test_the_user_is_a_number_and_owns_the_state() -> None:
    (user,) = of_image("USER")
    (run,) = of_image("RUN")
    uid, gid = user.split(":")
    assert min(int(uid), int(gid)) >= 10_000
    assert f"--owner={uid} --group={gid}" in run
    assert run.endswith(STATE_DIR)


def test_the_image_starts_a_worker() -> None:
    (entrypoint,), (command,) = of_image("ENTRYPOINT"), of_image("CMD")
    words: list[str] = json.loads(entrypoint) + json.loads(command)
    program, *arguments = words
    assert program == "firstseen"
    assert parse_command(arguments).command_path == "firstseen worker"


@pytest.mark.parametrize("arguments", ["wroker", "topics make", "worker --prot", "load --rate=x"])
def test_commands_that_do_not_exist_are_found(arguments: str) -> None:
    with pytest.raises(click.UsageError):
        parse_command(arguments.split())


def test_variables_of_the_image_are_settings() -> None:
    ours = {name: value for name, value in image_environment().items() if name.startswith(OURS)}
    settings = load_settings(environ=ours).settings
    assert str(settings.state_dir) == STATE_DIR
    assert of_image("VOLUME") == [f'["{STATE_DIR}"]']
    assert settings.web.host == "0.0.0.0"  # noqa: S104 - in a container
    assert not settings.web.serves_data
    assert of_image("EXPOSE") == [str(Settings().web.port)]


def test_the_health_check_follows_the_worker(embedded_broker: Broker, tmp_path: Path) -> None:
    (check,) = of_image("HEALTHCHECK")
    words: list[str] = json.loads(check.partition("CMD")[2])
    program, *arguments = words
    assert program == "firstseen"
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        environ = {"FIRSTSEEN_WEB__PORT": str(worker.port)}
        well = firstseen(*arguments, environ=environ)
        assert well.returncode == ExitCode.OK, well.stderr

        worker.kill()

        assert firstseen(*arguments, environ=environ).returncode != ExitCode.OK


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


def test_systemd_knows_every_line() -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("no systemd-analyze")
    run = subprocess.run(
        [systemd, "verify", UNIT], capture_output=True, text=True, timeout=60, check=False
    )
    found = [line for line in run.stderr.splitlines() if UNIT.name in line]
    assert [line for line in found if "is not executable" not in line] == []
