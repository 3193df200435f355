"""Reading the files that are shipped to run Firstseen with, and what the code says of the same."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from streams.cli.main import cli
from tests.repository.source_tree import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"

IMAGE = "ghcr.io/firstseen/firstseen"
OURS = "FIRSTSEEN_"
VARIABLE = re.compile(r"\$\{\w+:-([^}]+)\}")


def version() -> str:
    """The version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def compose() -> dict[str, Any]:
    """docker-compose.yml, with its anchors resolved, and its variables by their defaults."""
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    content: dict[str, Any] = yaml.safe_load(VARIABLE.sub(r"\1", text))
    return content


def services() -> dict[str, dict[str, Any]]:
    """The services of docker-compose.yml by name."""
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile, an instruction and its arguments at a time; continued lines joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    parts = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in parts]


def of_image(name: str) -> list[str]:
    """The arguments of every such instruction of the Dockerfile's last stage."""
    lines = instructions()
    last = max(number for number, (each, _) in enumerate(lines) if each == "FROM")
    return [rest for each, rest in lines[last:] if each == name]


def image_command() -> list[str]:
    """What the image runs when nobody says anything else."""
    (entrypoint,), (command,) = of_image("ENTRYPOINT"), of_image("CMD")
    return [*json.loads(entrypoint), *json.loads(command)]


def image_environment() -> dict[str, str]:
    """The variables that the image sets."""
    pairs = [pair for rest in of_image("ENV") for pair in shlex.split(rest)]
    return dict(pair.split("=", 1) for pair in pairs)


def parse_command(arguments: Sequence[str]) -> click.Context:
    """Read the arguments of ``firstseen`` as the command line does, without running anything.

    Raises ``click.UsageError`` for what it does not take.
    """
    context = cli.make_context("firstseen", list(arguments))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    return context


def documents(path: Path) -> list[dict[str, Any]]:
    """The objects in one YAML file."""
    return [found for found in yaml.safe_load_all(path.read_text("utf-8")) if found is not None]


def scalars(content: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Every value in nested lists and tables, with the path to it."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from scalars(value, f"{place}.{key}")
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from scalars(value, f"{place}[{number}]")
    else:
        yield place, content
