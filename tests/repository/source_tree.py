"""Reads the modules of the source tree as text and syntax, without importing them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simhash_core", "streams", "firstseen")


@dataclass(frozen=True)
class Module:
    path: str  # relative to the root
    text: str

    @classmethod
    def of(cls, path: Path) -> Module:
        return cls(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


def modules_of(*places: str) -> list[Module]:
    """Return the Python files that are, or are in, one of ``places``."""
    found: list[Module] = []
    for place in places:
        path = ROOT / place
        paths = [path] if path.is_file() else sorted(path.rglob("*.py"))
        assert paths, f"no module in {place}: has it moved?"
        found += map(Module.of, paths)
    return found
