"""A module holds one idea, and its name says which: bounds on length, and names that are banned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repository.source_tree import ROOT

LINES_MAX = 700
VAGUE_WORDS = frozenset({"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"})
# Tests are long lists of cases, and are read a case at a time: their length is not bounded.
BOUNDED = ("simhash_core", "streams", "benchmarks", "docs")
NAMED = (*BOUNDED, "tests")


def python_files(*directories: str) -> list[Path]:
    """Paths from the root of every Python file under `directories`."""
    found = [path for name in directories for path in (ROOT / name).rglob("*.py")]
    return sorted(path.relative_to(ROOT) for path in found)


def is_too_long(text: str) -> bool:
    """Whether a module's text has outgrown one idea."""
    return len(text.splitlines()) > LINES_MAX


def vague_words_in(path: Path) -> list[str]:
    """Words in the names of a file and its directories that say nothing of what is inside."""
    words = [word for part in path.with_suffix("").parts for word in re.split(r"[_\W]+", part)]
    return [word for word in words if word.lower() in VAGUE_WORDS]


def test_modules_are_short() -> None:
    """Every module of the packages fits a reader's head."""
    files = python_files(*BOUNDED)
    assert files, "no Python file found: have the packages moved?"

    long = [str(path) for path in files if is_too_long((ROOT / path).read_text("utf-8"))]

    assert long == [], f"over {LINES_MAX} lines: split each by idea"


def test_names_say_what_is_inside() -> None:
    """No file or directory is named for being left over."""
    vague = {str(path): words for path in python_files(*NAMED) if (words := vague_words_in(path))}

    assert vague == {}, "name each for its one idea"


@pytest.mark.parametrize(
    ("lines", "too_long"), [(0, False), (LINES_MAX, False), (LINES_MAX + 1, True)]
)
def test_length_bound_is_inclusive(lines: int, too_long: bool) -> None:
    """Given a module at the bound and one past it, then only the second is too long."""
    assert is_too_long("x = 1\n" * lines) is too_long


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("streams/utils.py", ["utils"]),
        ("streams/kafka_utils.py", ["utils"]),
        ("streams/common/records.py", ["common"]),
        ("streams/shard_manager.py", ["manager"]),
        ("simhash_core/base.py", ["base"]),
        ("simhash_core/database.py", []),
        ("simhash_core/fingerprints/fingerprint.py", []),
    ],
)
def test_vague_names_are_seen(path: str, words: list[str]) -> None:
    """Given a path, when its words are judged, then the banned ones and no others are named."""
    assert vague_words_in(Path(path)) == words
