"""The checker of links in the documentation: what it must find, and what it must let pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.check_links import anchor_of, dead_links, main
from tests.repository.source_tree import ROOT


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A small tree: a guide with headings, a source file, a directory, a page outside the root."""
    (tmp_path / "outside.md").write_text("# Outside\n", "utf-8")
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "guide.md").write_text(
        '# The guide\n\n## Set-up\n\n## Set-up\n\n## `make` & 中文标题\n\n<a id="old"></a>\n',
        "utf-8",
    )
    (root / "main.py").write_text("x = 1\n", "utf-8")
    return root


@pytest.mark.parametrize(
    "link",
    [
        "[guide](docs/guide.md)",
        "[a heading](docs/guide.md#set-up)",
        "[the second of that name](docs/guide.md#set-up-1)",
        "[code and Chinese](docs/guide.md#make--中文标题)",
        "[escaped](docs/guide.md#make--%E4%B8%AD%E6%96%87%E6%A0%87%E9%A2%98)",
        "[an anchor in HTML](docs/guide.md#old)",
        "[a directory](docs)",
        "[lines of source](main.py#L1-L2)",
        "[another host](https://example.org/nothing#here)",
        "[mail](mailto:someone@example.org)",
        "[by reference][guide]\n\n[guide]: docs/guide.md",
        "![an image](main.py)",
        "# Here\n\n[this page](#here)",
        "`[code](absent.md)`",
        "```\n[code](absent.md)\n```",
    ],
)
def test_live_links_pass(site: Path, link: str) -> None:
    (site / "README.md").write_text(link + "\n", "utf-8")
    assert dead_links(site) == []


@pytest.mark.parametrize(
    ("link", "report"),
    [
        ("[x](docs/absent.md)", "docs/absent.md: no such file"),
        ("[x](docs/guide.md#absent)", "docs/guide.md#absent: no such heading"),
        ("[x](docs/guide.md#set-up-2)", "docs/guide.md#set-up-2: no such heading"),
        ("[x](#absent)", "#absent: no such heading"),
        ("![x](absent.png)", "absent.png: no such file"),
        ("[x][r]\n\n[r]: absent.md", "absent.md: no such file"),
        ('<img src="absent.png">', "absent.png: no such file"),
        ("| a |\n| - |\n| [x](absent.md) |", "absent.md: no such file"),
        ("[x](main.py#x)", "main.py#x: an anchor into a file that has none"),
        ("[x](../outside.md)", "../outside.md: leads out of the repository"),
        ("[x](/docs/guide.md)", "/docs/guide.md: a path from the root of a host"),
    ],
)
def test_dead_links_are_named(site: Path, link: str, report: str) -> None:
    (site / "README.md").write_text(f"First line.\n\n{link}\n", "utf-8")
    dead = dead_links(site)
    assert len(dead) == 1
    name, line, reason = dead[0].split(":", 2)
    assert name == "README.md"
    assert int(line) >= 3
    assert reason.strip().startswith(report)


def test_hidden_directories_are_left_out(site: Path) -> None:
    (site / ".venv").mkdir()
    (site / ".venv" / "page.md").write_text("[x](absent.md)\n", "utf-8")
    assert dead_links(site) == []


def test_exit_codes(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(site)]) == 0
    (site / "README.md").write_text("[x](absent.md)\n", "utf-8")
    assert main([str(site)]) == 1
    assert capsys.readouterr().out == "README.md:1: absent.md: no such file\n"
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 2


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Exactly once", "exactly-once"),
        ("3. What must hold", "3-what-must-hold"),
        ("`firstseen dedup FILE`", "firstseen-dedup-file"),
        ("duplicate_of — why?", "duplicate_of--why"),
        ("去重", "去重"),
    ],
)
def test_anchors_are_githubs(heading: str, anchor: str) -> None:
    assert anchor_of(heading) == anchor


def test_documentation_has_no_dead_links() -> None:
    assert dead_links(ROOT) == []
