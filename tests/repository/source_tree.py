"""Reading the source tree: which modules there are, and what each of them calls.

Everything here works on syntax alone: no module is imported, so a broken one is still judged.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("simhash_core", "streams", "firstseen")


class Module(NamedTuple):
    """One Python file: its path from the root, its text and its syntax."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def of(cls, path: Path) -> Module:
        text = path.read_text("utf-8")
        return cls(path.relative_to(ROOT).as_posix(), text, ast.parse(text))


def modules_of(*places: str) -> list[Module]:
    """Every Python file that is, or is in, one of ``places``; each has one."""
    found: list[Module] = []
    for place in places:
        path = ROOT / place
        paths = [path] if path.is_file() else sorted(path.rglob("*.py"))
        assert paths, f"no module in {place}: has it moved?"
        found += map(Module.of, paths)
    return found


def calls_of(module: Module) -> set[str]:
    """The last two names of what `module` calls: `open`, or `datetime.now`."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                names.add(name)
            case ast.Call(func=ast.Attribute(attr=name, value=owner)):
                holder = owner.attr if isinstance(owner, ast.Attribute) else ast.unparse(owner)
                names.add(f"{holder}.{name}")
    return names
