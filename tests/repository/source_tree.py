"""Reading the source tree: which modules there are, and what each of them imports and calls.

Everything here works on syntax alone: no module is imported, so a broken one is still judged.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file: its dotted name, its path from the root, its syntax."""

    name: str
    path: Path
    tree: ast.Module
    is_package: bool = False

    @classmethod
    def from_source(cls, name: str, source: str, *, is_package: bool = False) -> Module:
        """Parse `source` as the module `name`; `is_package` where it stands for an __init__.py."""
        tail = "/__init__.py" if is_package else ".py"
        path = Path(name.replace(".", "/") + tail)
        return cls(name, path, ast.parse(source), is_package)


def modules_of(package: str, root: Path = ROOT) -> list[Module]:
    """Every module of the top-level package or directory `package`, in order of path."""
    found = []
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        tree = ast.parse(path.read_text("utf-8"), filename=str(path))
        found.append(Module(name, path.relative_to(root), tree, is_package))
    return found


def imports_of(module: Module) -> set[str]:
    """Dotted names that `module` imports, anywhere in it, relative ones resolved.

    `from a import b` gives `a.b`, which may be the module b of a or a name in a: syntax alone
    cannot tell. `from a import *` gives `a`.
    """
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _source_of(node, module)
            for alias in node.names:
                names.add(source if alias.name == "*" else f"{source}.{alias.name}")
    return names


def _source_of(node: ast.ImportFrom, module: Module) -> str:
    """The absolute name after `from`: one dot is the module's package, each more its parent."""
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    up = node.level - 1 if module.is_package else node.level
    package = parts[: len(parts) - up]
    return ".".join([*package, node.module] if node.module else package)


def calls_of(module: Module) -> set[str]:
    """Names of what `module` calls: `open` for open(...), `datetime.now` for datetime.now(...).

    Of a longer chain the last two names are given: `datetime.now` for datetime.datetime.now().
    """
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            names.add(node.func.id)
        elif isinstance(node.func, ast.Attribute):
            owner = node.func.value
            holder = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            names.add(f"{holder}.{node.func.attr}")
    return names
