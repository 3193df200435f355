"""Modules and files that the documentation and docstrings name are there: moves leave no trace."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.repository.source_tree import ROOT

_IN_PAGES = re.compile(r"`((?:streams|simhash_core|tests|deploy|benchmarks|docs)/[\w./-]+)`")
_IN_CODE = re.compile(r"``((?:streams|simhash_core)(?:\.\w+)+)``")


def pages() -> list[Path]:
    """Every page that is written by hand."""
    return sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def modules() -> list[Path]:
    """Every module of the packages."""
    return sorted(
        path for name in ("streams", "simhash_core") for path in (ROOT / name).rglob("*.py")
    )


def is_module(dotted: str) -> bool:
    """Whether a dotted name is a module or a package, or one of its names, or of a class there."""
    parts = dotted.split(".")
    for kept in range(len(parts), max(1, len(parts) - 2) - 1, -1):
        path = ROOT.joinpath(*parts[:kept])
        if path.with_suffix(".py").is_file() or (path.is_dir() and kept == len(parts)):
            return True
    return False


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.name)
def test_files_that_pages_name_are_there(page: Path) -> None:
    named = set(_IN_PAGES.findall(page.read_text("utf-8")))
    assert {each for each in named if not (ROOT / each).exists()} == set()


def names_in(module: Path) -> set[str]:
    """The names that a module defines, those in its classes with the class in front."""
    names = set()
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        for inner in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(f"{node.name}.{inner.name}")  # type: ignore[attr-defined]
    return names


def test_the_walk_names_what_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    walk = page.partition("## A walk")[2].partition("\n## ")[0]
    named: list[tuple[str, str]] = []
    for row in walk.splitlines():
        module = ""
        for name in re.findall(r"`([\w./]+)`", row.rpartition(" | ")[2] or row):
            if name.endswith(".py"):
                module = name
            elif module:
                named.append((module, name))
    assert len(named) > 10
    assert [each for each in named if each[1] not in names_in(ROOT / each[0])] == []


def test_modules_that_docstrings_name_are_there() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules()
        for name in _IN_CODE.findall(path.read_text("utf-8"))
        if not is_module(name)
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("streams.kafka.errors", True),
        ("streams.kafka", True),
        ("streams.kafka.errors.retrying", True),
        ("streams.kafka.passing_errors", False),
        ("streams.settings_rules", False),
    ],
)
def test_names_of_modules(name: str, exists: bool) -> None:
    assert is_module(name) is exists
