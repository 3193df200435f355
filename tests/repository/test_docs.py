"""The documentation: its links, and the files, commands, metrics and packages that it names.

README.zh-CN.md has the same headings, commands, tables and links as README.md.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hatchling.build import prepare_metadata_for_build_wheel
from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs.metrics_table import markdown_table, with_table
from simhash_core.text.profiles import profile_named
from streams.monitoring.metrics import DEFINITIONS
from streams.offline.index_plan import plan_index
from tests.repository.deploy.shipped_files import parse_command, pins_in, services
from tests.repository.source_tree import ROOT, modules_of

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# ---- links


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_stay_in_the_repository_and_name_lines_of_sources(page: Path) -> None:
    """Checks links that lychee accepts; lychee (``make check``) finds all other dead links."""
    for link in LINK.findall(prose(page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        if ":" not in path:
            assert (page.parent / path).resolve().is_relative_to(ROOT), link
            assert not anchor or path.endswith(".md") or not path or anchor.startswith("L"), link


def test_the_description_on_pypi_is_readme_with_absolute_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    metadata = tmp_path / prepare_metadata_for_build_wheel(str(tmp_path)) / "METADATA"
    wheel, _ = parse_email(metadata.read_bytes())
    here = wheel["project_urls"]["Repository"] + "/blob/main/"
    absolute = [link for link in LINK.findall(wheel["description"]) if link.startswith(here)]
    relative = [link for link in LINK.findall(README) if ":" not in link]

    assert [link.removeprefix(here) for link in absolute] == relative
    assert wheel["description"].replace(here, "") == README
    assert wheel["description_content_type"] == "text/markdown"


# ---- files, modules and functions

FILE_IN_PAGE = re.compile(r"`((?:streams|simhash_core|tests|deploy|benchmarks|docs)/[\w./-]+)`")
MODULE_IN_CODE = re.compile(r"``((?:streams|simhash_core)(?:\.\w+)+)``")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_files_that_pages_name_exist(page: Path) -> None:
    named = FILE_IN_PAGE.findall(page.read_text("utf-8"))
    assert [each for each in named if not (ROOT / each).exists()] == []


def is_module(dotted: str) -> bool:
    """Return whether a dotted name is a module, a name in a module, or one in its class."""
    parts = dotted.split(".")
    for kept in range(len(parts), max(1, len(parts) - 2) - 1, -1):
        path = ROOT.joinpath(*parts[:kept])
        if path.with_suffix(".py").is_file() or (path.is_dir() and kept == len(parts)):
            return True
    return False


def test_modules_that_docstrings_name_exist() -> None:
    assert [
        f"{module.path}: {name}"
        for module in modules_of("streams", "simhash_core")
        for name in MODULE_IN_CODE.findall(module.text)
        if not is_module(name)
    ] == []


def names_in(path: Path) -> set[str]:
    """Return the functions and classes of a module, and the methods as ``Class.method``."""
    names = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        for inner in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(f"{node.name}.{inner.name}")  # type: ignore[attr-defined]
    return names


def test_functions_in_the_walk_of_a_record_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named: list[tuple[str, str]] = []
    for row in page.partition("## A walk")[2].partition("\n## ")[0].splitlines():
        module = ""
        for name in re.findall(r"`([\w./]+)`", row.rpartition(" | ")[2] or row):
            if name.endswith(".py"):
                module = name
            elif module:
                named.append((module, name))
    assert len(named) > 10
    assert [each for each in named if each[1] not in names_in(ROOT / each[0])] == []


# ---- commands

SHIPPED = [ROOT / "docker-compose.yml", *sorted((ROOT / "deploy").rglob("*.yaml"))]
COMPOSE = re.compile(r"docker compose ([^`\n#;]+)")
MADE = re.compile(r"(?:`|^\$ )make ([a-z]+)\b|^make ([a-z]+) +#", re.MULTILINE)


def found_in_pages(pattern: re.Pattern[str], *pages: Path) -> set[str]:
    matches = [match for page in pages for match in pattern.finditer(page.read_text("utf-8"))]
    return {next(filter(None, match.groups())).strip() for match in matches}


def unknown_words(command: str) -> list[str]:
    """Return services and profiles of a ``docker compose`` command that the file does not have."""
    profiles = {name for each in services().values() for name in each.get("profiles", [])}
    words = shlex.split(command)
    wrong: list[str] = []
    if words[0] == "--profile":
        wrong += {words[1]} - profiles
        words = words[2:]
    wrong += {words[0]} - {"up", "run", "down", "build", "ps", "logs"}
    if words[0] == "run":
        service = next(word for word in words[1:] if not word.startswith("--"))
        wrong += {service} - services().keys()
    return wrong


def test_compose_commands_name_services_and_profiles_that_exist() -> None:
    parts = {
        part.strip().removeprefix("docker compose ")
        for command in found_in_pages(COMPOSE, *PAGES, *SHIPPED)
        for part in command.split("&&")
    }
    assert len(parts) > 3
    assert {part: wrong for part in parts if (wrong := unknown_words(part))} == {}


def test_commands_in_containers_are_those_of_the_command_line() -> None:
    found = [
        command.partition(" cli ")[2].partition(" < ")[0]
        for command in found_in_pages(COMPOSE, *PAGES, *SHIPPED)
        if " cli " in command
    ]
    runs = [shlex.split(arguments) for arguments in found if arguments != "--help"]
    assert len(runs) > 1
    for arguments in runs:
        assert parse_command(arguments).command_path.startswith("firstseen ")


def test_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = found_in_pages(MADE, *PAGES)
    assert {"check", "test", "sbom", "audit", "tools"} <= named
    assert named - set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE)) == set()


# ---- sizes


@pytest.mark.parametrize("page", ["README.md", "docs/operations.md", "docs/scale.md"])
def test_buckets_of_a_document_take_what_the_plan_says(page: str) -> None:
    plan = plan_index(100_000_000, profile_named("wide"))
    text = " ".join((ROOT / page).read_text("utf-8").split())
    assert f"{plan.memory_bytes_per_document} bytes" in text


# ---- metrics


def test_the_table_of_metrics_is_up_to_date() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert page == with_table(page), "run python docs/metrics_table.py docs/operations.md"
    rows = [line.split("|")[1].strip() for line in markdown_table().splitlines()[2:]]
    assert rows == [f"`{each.name}`" for each in DEFINITIONS]


# ---- dependencies


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_a_requirement_is_pinned_within_its_bounds_and_has_a_reason(
    requirement: Requirement,
) -> None:
    version = pins_in(ROOT / "constraints.txt").get(canonicalize_name(requirement.name))
    assert version is not None, f"{requirement.name} is not in constraints.txt: make lock"
    assert version in requirement.specifier
    assert f"\n| {requirement.name} |" in (ROOT / "docs" / "dependencies.md").read_text("utf-8")


def test_releases_in_which_tests_fail_are_outside_the_bounds() -> None:
    """With this one, tests/unit/ops_page finds clients that are idle for ever."""
    bounds = {each.name: each.specifier for each in requirements()}
    assert "3.14.3" not in bounds["aiohttp"]


# ---- the two languages

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)]+)\)")
README = (ROOT / "README.md").read_text("utf-8")
README_ZH = (ROOT / "README.zh-CN.md").read_text("utf-8")


def prose(text: str) -> str:
    return FENCE.sub("", text)


def sections(text: str) -> list[str]:
    return re.split(r"^#+ .*$", prose(text), flags=re.MULTILINE)


def headings(text: str) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(text), re.MULTILINE)]


def blocks(text: str) -> list[str]:
    return [re.sub(r"(?m)\s+# .*$", "", body) for _, body in FENCE.findall(text)]


def columns(text: str) -> list[int]:
    return [line.count("|") for line in prose(text).splitlines() if line.startswith("|")]


def links(text: str) -> Counter[str]:
    """Return the targets of the page's links, without the link to the other language."""
    each_other = {"README.md", "README.zh-CN.md"}
    return Counter(link for link in LINK.findall(prose(text)) if link not in each_other)


def items(text: str) -> list[int]:
    return [len(re.findall(r"^- ", each, re.MULTILINE)) for each in sections(text)]


def figures(text: str) -> list[set[str]]:
    """Return the numbers of each section, except one-digit ones, which one language spells out."""
    return [set(re.findall(r"\d[\d.,]*\d", LINK.sub("", each))) for each in sections(text)]


@pytest.mark.parametrize("part", [headings, blocks, columns, links, items, figures])
def test_both_languages_have_the_same(part: Any) -> None:  # noqa: ANN401
    assert part(README_ZH) == part(README)


def test_every_section_is_translated() -> None:
    for section in sections(README_ZH)[1:]:
        words = re.findall(r"[A-Za-z]{3,}", re.sub(r"`[^`]*`|\]\([^)]*\)", "", section))
        assert len(re.findall(r"[\u4e00-\u9fff]", section)) > len(words) or not words
