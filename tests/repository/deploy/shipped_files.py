"""Reads the files for deployment, and the facts in the code that they must match."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from packaging.utils import canonicalize_name

from streams.cli.main import cli
from tests.repository.source_tree import ROOT
from tests.rigs.required_tools import give_up

KUBERNETES = ROOT / "deploy" / "kubernetes"
IMAGE = "ghcr.io/firstseen/firstseen"
OURS = "FIRSTSEEN_"
TOOL_SECONDS = 120.0

Manifest = dict[str, Any]


def project() -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return dict(content["project"])


def pins_in(path: Path) -> dict[str, str]:
    """Return versions by name; each line must be an exact pin, without options or index addresses.

    So the file works with any user's settings of pip.
    """
    lines = path.read_text("utf-8").splitlines()
    pins: dict[str, str] = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            pin = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+]+)", line)
            assert pin is not None, line
            pins[canonicalize_name(pin[1])] = pin[2]
    return pins


def compose() -> dict[str, Any]:
    """Return docker-compose.yml, with anchors resolved and the defaults of its variables."""
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    content: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", text))
    return content


def services() -> dict[str, dict[str, Any]]:
    return dict(compose()["services"])


def instructions() -> list[tuple[str, str]]:
    """Yield each instruction of the Dockerfile with its arguments; continued lines are joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    parts = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in parts]


def of_image(name: str) -> list[str]:
    """Return the arguments of each instruction ``name`` in the Dockerfile's last stage."""
    lines = instructions()
    last = max(number for number, (each, _) in enumerate(lines) if each == "FROM")
    return [rest for each, rest in lines[last:] if each == name]


def image_environment() -> dict[str, str]:
    pairs = [pair for rest in of_image("ENV") for pair in shlex.split(rest)]
    return dict(pair.split("=", 1) for pair in pairs)


def parse_command(arguments: Sequence[str]) -> click.Context:
    """Parse the arguments of ``firstseen`` as the command line does, without running the command.

    Raises ``click.UsageError`` for invalid arguments.
    """
    context = cli.make_context("firstseen", list(arguments))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def rendered(name: str) -> list[Manifest]:
    """Return the objects of a rendered kustomization, without the hash in a ConfigMap's name."""
    text = (KUBERNETES / "rendered" / f"{name}.yaml").read_text("utf-8")
    for each in yaml.safe_load_all(text):
        if each["kind"] == "ConfigMap":
            generated = each["metadata"]["name"]
            text = text.replace(generated, generated.rpartition("-")[0])
    return list(yaml.safe_load_all(text))


def by_name(name: str) -> dict[tuple[str, str], Manifest]:
    return {(each["kind"], each["metadata"]["name"]): each for each in rendered(name)}


def run_tool(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a tool of ``.venv-tools``; if it is missing, skip the test, or fail if it is required."""
    path = ROOT / ".venv-tools" / "bin" / name
    if not path.exists():
        give_up(f"no {name}: run make tools")
    return subprocess.run(
        [path, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
