"""The dependencies: pinned in one file, allowed by the project, and each with its reason."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.source_tree import ROOT

PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.!+]+)")


def declared() -> list[Requirement]:
    """What pyproject.toml asks for, to run and to develop."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [
        Requirement(line)
        for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    ]


def pin_lines() -> list[str]:
    """The lines of constraints.txt that are neither empty nor comments."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def test_constraints_are_exact_pins_and_nothing_else() -> None:
    assert [line for line in pin_lines() if not PIN.fullmatch(line)] == []


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_declared_requirement_is_pinned_within_its_bounds(requirement: Requirement) -> None:
    pins = {
        canonicalize_name(match["name"]): match["version"]
        for line in pin_lines()
        if (match := PIN.fullmatch(line))
    }
    version = pins.get(canonicalize_name(requirement.name))
    assert version is not None, f"{requirement.name} is not in constraints.txt: make lock"
    assert version in requirement.specifier


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_declared_requirement_has_a_reason(requirement: Requirement) -> None:
    rows = (ROOT / "docs" / "dependencies.md").read_text("utf-8").splitlines()
    assert any(row.startswith(f"| {requirement.name} |") for row in rows)
