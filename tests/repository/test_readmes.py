"""README.zh-CN.md says what README.md says: the same headings, commands, tables and links."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from tests.repository.source_tree import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"\s+# .*$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)]+)\)")
EACH_OTHER = {"README.md", "README.zh-CN.md"}
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def blocks(text: str) -> list[str]:
    """The blocks of code, without comments."""
    return [COMMENT.sub("", body) for _, body in FENCE.findall(text)]


def prose(text: str) -> str:
    """What is not in a block of code."""
    return FENCE.sub("", text)


def headings(text: str) -> list[int]:
    """The levels of all headings, in their order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(text), re.MULTILINE)]


def sections(text: str) -> list[str]:
    """The prose between headings."""
    return re.split(r"^#+ .*$", prose(text), flags=re.MULTILINE)


def columns(text: str) -> list[int]:
    """How many cells each line of a table has."""
    return [line.count("|") for line in prose(text).splitlines() if line.startswith("|")]


def links(text: str) -> Counter[str]:
    """Where the page leads, without the link to the other language."""
    return Counter(link for link in LINK.findall(prose(text)) if link not in EACH_OTHER)


def items(text: str) -> list[int]:
    """How many items of lists each section has."""
    return [len(re.findall(r"^- ", each, re.MULTILINE)) for each in sections(text)]


@pytest.fixture(scope="module")
def pages() -> tuple[str, str]:
    """The page in English, and the one in Chinese."""
    return (
        (ROOT / "README.md").read_text("utf-8"),
        (ROOT / "README.zh-CN.md").read_text("utf-8"),
    )


@pytest.mark.parametrize("part", [headings, blocks, columns, links, items])
def test_both_have_the_same_parts(pages: tuple[str, str], part: Any) -> None:  # noqa: ANN401
    english, chinese = pages
    assert part(chinese) == part(english)


def test_numbers_are_the_same(pages: tuple[str, str]) -> None:
    for one, other in zip(*map(sections, pages), strict=True):
        assert figures(other) == figures(one)


def figures(text: str) -> set[str]:
    """Numbers of two digits and more; those below are written out in one language or the other."""
    return set(re.findall(r"\d[\d.,]*\d", LINK.sub("", text)))


def test_each_leads_to_the_other(pages: tuple[str, str]) -> None:
    english, chinese = pages
    assert "](README.zh-CN.md)" in english.partition("\n## ")[0]
    assert "](README.md)" in chinese.partition("\n## ")[0]


def test_every_section_is_translated(pages: tuple[str, str]) -> None:
    for section in sections(pages[1])[1:]:
        words = re.findall(r"[A-Za-z]{3,}", re.sub(r"`[^`]*`|\]\([^)]*\)", "", section))
        assert len(CHINESE.findall(section)) > len(words) or not words
