"""The Dockerfile: what it names is there, and what it starts is what the command line takes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import click
import pytest
from packaging.specifiers import SpecifierSet

from streams.errors import ExitCode
from streams.settings.loader import load_settings
from streams.settings.settings import Settings
from tests.repository.deploy.shipped_files import (
    OURS,
    image_command,
    image_environment,
    instructions,
    of_image,
    parse_command,
    version,
)
from tests.repository.source_tree import ROOT
from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream
from tests.unit.cli.running import firstseen

STATE_DIR = "/var/lib/firstseen"


def test_the_base_is_a_pinned_python_that_the_project_takes() -> None:
    bases = {rest.split()[0] for name, rest in instructions() if name == "FROM"}
    (base,) = bases
    tag = re.fullmatch(r"python:(\d+\.\d+)(\.\d+)?-slim-\w+(@sha256:[0-9a-f]{64})?", base)
    assert tag is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert SpecifierSet(project["requires-python"]).contains(tag[1])
    assert f'base.name="docker.io/library/{base}"' in " ".join(of_image("LABEL"))


def test_the_label_has_the_version_of_the_project() -> None:
    labels = " ".join(of_image("LABEL"))
    assert f'org.opencontainers.image.version="{version()}"' in labels
    assert 'org.opencontainers.image.licenses="Apache-2.0"' in labels


def test_what_is_copied_is_there_and_reaches_the_builder() -> None:
    copied = {
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    ignore = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    assert copied == allowed
    assert "*" in ignore
    assert [path for path in copied if not (ROOT / path).exists()] == []


def test_it_installs_the_versions_that_are_tested() -> None:
    installs = [rest for name, rest in instructions() if name == "RUN" and "pip" in rest]
    assert any("PIP_CONSTRAINT=/build/constraints.txt" in line for line in installs)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needed = {project["project"]["readme"], *project["project"]["license-files"]}
    needed |= set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    copied = " ".join(rest for name, rest in instructions() if name == "COPY").split()
    assert needed <= set(copied)


def test_it_does_not_run_as_root() -> None:
    (user,) = of_image("USER")
    (run,) = of_image("RUN")
    uid, gid = user.split(":")
    assert min(int(uid), int(gid)) >= 10_000
    assert f"--owner={uid} --group={gid}" in run
    assert run.endswith(STATE_DIR)


def test_it_starts_a_worker() -> None:
    program, *arguments = image_command()
    assert program == "firstseen"
    assert parse_command(arguments).command_path == "firstseen worker"


def test_a_command_that_does_not_exist_is_noticed() -> None:
    for arguments in (["wroker"], ["topics", "make"], ["worker", "--prot"], ["load", "--rate=x"]):
        with pytest.raises(click.UsageError):
            parse_command(arguments)


def test_its_variables_are_settings() -> None:
    ours = {name: value for name, value in image_environment().items() if name.startswith(OURS)}
    settings = load_settings(environ=ours).settings
    assert str(settings.state_dir) == STATE_DIR
    assert of_image("VOLUME") == [f'["{STATE_DIR}"]']
    assert settings.web.host == "0.0.0.0"  # noqa: S104 - in a container
    assert not settings.web.serves_data
    assert of_image("EXPOSE") == [str(Settings().web.port)]


def health_check() -> list[str]:
    """The arguments of ``firstseen`` in HEALTHCHECK."""
    (check,) = of_image("HEALTHCHECK")
    program, *rest = json_list(check.partition("CMD")[2])
    assert program == "firstseen"
    return rest


def json_list(text: str) -> list[str]:
    """The exec form of an instruction."""
    return [str(part) for part in json.loads(text)]


def test_the_health_check_follows_the_worker(embedded_broker: Broker, tmp_path: Path) -> None:
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        environ = {"FIRSTSEEN_WEB__PORT": str(worker.port)}
        well = firstseen(*health_check(), environ=environ)
        assert well.returncode == ExitCode.OK, well.stderr
        worker.kill()
        assert firstseen(*health_check(), environ=environ).returncode != ExitCode.OK
