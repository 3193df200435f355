"""What the documentation tells people to type: the services, targets and directories are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.repository.deploy.shipped_files import parse_command, services
from tests.repository.source_tree import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHIPPED = [ROOT / "docker-compose.yml", *sorted((ROOT / "deploy").rglob("*.yaml"))]

COMPOSE = re.compile(r"docker compose ([^`\n#;]+)")
APPLIED = re.compile(r"kubectl apply -k ([\w./-]+)")
MADE = re.compile(r"(?:`|^\$ )make ([a-z]+)\b|^make ([a-z]+) +#", re.MULTILINE)


def names_in(pattern: re.Pattern[str], pages: list[Path]) -> set[str]:
    """What the pattern finds in the pages."""
    matches = [match for page in pages for match in pattern.finditer(page.read_text("utf-8"))]
    return {next(filter(None, match.groups())).strip() for match in matches}


def unknown_words(command: str) -> list[str]:
    """Services and profiles of a ``docker compose`` command that the file does not have."""
    profiles = {name for each in services().values() for name in each.get("profiles", [])}
    words = shlex.split(command)
    wrong: list[str] = []
    if words[0] == "--profile":
        wrong += [words[1]] if words[1] not in profiles else []
        words = words[2:]
    known = {"up", "run", "down", "build", "ps", "logs"}
    wrong += [] if words[0] in known else [words[0]]
    if words[0] == "run":
        named = [word for word in words[1:] if not word.startswith("--")]
        wrong += [name for name in named[:1] if name not in services()]
    return wrong


def test_compose_commands_name_services_that_are_there() -> None:
    parts = {
        part.strip().removeprefix("docker compose ")
        for command in names_in(COMPOSE, [*PAGES, *SHIPPED])
        for part in command.split("&&")
    }
    assert len(parts) > 3
    assert {part: wrong for part in parts if (wrong := unknown_words(part))} == {}


def test_commands_in_containers_are_those_of_the_command_line() -> None:
    found = [
        command.partition(" cli ")[2].partition(" < ")[0]
        for command in names_in(COMPOSE, [*PAGES, *SHIPPED])
        if " cli " in command
    ]
    runs = [shlex.split(arguments) for arguments in found if arguments != "--help"]
    assert len(runs) > 1
    for arguments in runs:
        assert parse_command(arguments).command_path.startswith("firstseen ")


@pytest.mark.parametrize("command", ["run --rm loader", "--profile tool up", "start"])
def test_others_are_noticed(command: str) -> None:
    assert unknown_words(command)


def test_targets_of_make_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = names_in(MADE, PAGES)
    assert {"check", "test", "sbom", "audit", "tools"} <= named
    assert named - targets == set()


def test_kustomizations_are_there() -> None:
    named = names_in(APPLIED, [*PAGES, *SHIPPED])
    assert len(named) > 1
    assert [name for name in named if not (ROOT / name / "kustomization.yaml").exists()] == []
