"""Reads the modules of the source tree as text and syntax, without importing them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simhash_core", "streams", "firstseen")


class Module(NamedTuple):
    path: str  # relative to the root
    text: str
    tree: ast.Module

    @classmethod
    def of(cls, path: Path) -> Module:
        text = path.read_text("utf-8")
        return cls(path.relative_to(ROOT).as_posix(), text, ast.parse(text))


def modules_of(*places: str) -> list[Module]:
    """Return the Python files that are, or are in, one of ``places``."""
    found: list[Module] = []
    for place in places:
        path = ROOT / place
        paths = [path] if path.is_file() else sorted(path.rglob("*.py"))
        assert paths, f"no module in {place}: has it moved?"
        found += map(Module.of, paths)
    return found
