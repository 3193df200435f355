"""Which folder may import which: one order, lowest first, and what stands beside it.

A folder is a directory of modules; ``simhash_core.text`` counts with the directories in it. The
modules in the root of ``simhash_core`` are the folder ``root``; those in that of ``streams`` are in
``FOLDER_OF_MODULE``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tests.repository.import_rules import edges_of
from tests.repository.source_tree import Module

ROOT_FOLDER: Final = "root"

FOLDER_OF_MODULE: Final[Mapping[str, str]] = {
    "streams": "errors",
    "streams.errors": "errors",
    "streams.worker.process": "process",
}
"""Modules that do not count with the directory that they are in."""


class Layers(NamedTuple):
    """The rules of one package.

    ``order``: the path of a document; each folder may import those before it. ``beside``: other
    folders, each with those that it may import.
    """

    order: tuple[str, ...]
    beside: Mapping[str, frozenset[str]]

    def allowed(self, folder: str) -> frozenset[str]:
        """Return the folders that a folder may import; raises ``KeyError`` for an unknown one."""
        if folder in self.order:
            lower = frozenset(self.order[: self.order.index(folder)])
            return lower | self.beside.get(folder, frozenset())
        return self.beside[folder]


CORE_LAYERS: Final = Layers(
    order=("root", "fingerprints", "text", "index", "log"),
    beside={"analysis": frozenset({"root", "fingerprints", "text", "index"})},
)

_PATH: Final = (
    "errors",
    "documents",
    "settings",
    "registry",
    "kafka",
    "topics",
    "monitoring",
    "files",
    "store",
    "worker",
    "process",
)
_BELOW_PROCESS: Final = frozenset(_PATH[: _PATH.index("process")])
_OF_FILES: Final = frozenset({"errors", "documents", "settings", "files", "store"})

SHELL_LAYERS: Final = Layers(
    order=_PATH,
    beside={
        "schemas": frozenset(),
        "corpus": frozenset(),
        "terminal": frozenset({"errors", "documents", "settings", "registry", "kafka"}),
        "dead_letters": _BELOW_PROCESS | {"terminal"},
        "offline": _OF_FILES | {"corpus"},
        "evaluation": _OF_FILES | {"corpus", "offline", "offline.pages"},
        "offline.pages": frozenset(),
        "ops_page": _BELOW_PROCESS | {"offline", "offline.pages"},
        # A worker is put together here, its pages among the rest.
        "process": frozenset({"ops_page"}),
        "maintenance": _BELOW_PROCESS | {"offline", "terminal"},
        "demo": _BELOW_PROCESS | {"corpus", "terminal", "offline", "offline.pages"},
        "cli": frozenset(_PATH)
        | {
            "maintenance",
            "corpus",
            "dead_letters",
            "demo",
            "offline",
            "evaluation",
            "offline.pages",
            "ops_page",
            "schemas",
            "terminal",
        },
    },
)

LAYERS: Final[Mapping[str, Layers]] = {"simhash_core": CORE_LAYERS, "streams": SHELL_LAYERS}


class FolderImport(NamedTuple):
    """That a module of one folder imports a module of another."""

    importer: str
    imported: str
    modules: tuple[str, str]


def folder_of(module: Module) -> str:
    """Return the folder of a module, without the package: ``offline.evaluation``, or ``root``."""
    if module.name in FOLDER_OF_MODULE:
        return FOLDER_OF_MODULE[module.name]
    package, *parts = module.name.split(".")
    folders = parts if module.is_package else parts[:-1]
    if not folders:
        return ROOT_FOLDER
    return ".".join(folders[:1] if package == "simhash_core" else folders)


def folder_imports(modules: Iterable[Module]) -> list[FolderImport]:
    """Return the imports among ``modules`` that lead from one folder to another, in order."""
    by_name = {module.name: module for module in modules}
    found = []
    for name, module in sorted(by_name.items()):
        for imported in sorted(edges_of(module, by_name)):
            ends = folder_of(module), folder_of(by_name[imported])
            if ends[0] != ends[1]:
                found.append(FolderImport(*ends, (name, imported)))
    return found


def breaches_of_layers(modules: Iterable[Module], layers: Layers) -> list[str]:
    """Return what ``modules`` import from a folder that they may not."""
    breaches = []
    for importer, imported, (module, other) in folder_imports(modules):
        try:
            if imported not in layers.allowed(importer):
                breaches.append(f"{module} ({importer}) imports {other} ({imported})")
        except KeyError:
            breaches.append(f"{module}: the folder {importer} has no place in tests/repository")
    return breaches


def picture(modules: Iterable[Module]) -> str:
    """Return the imports by folders as text: a folder a line, those that it imports behind it.

    A folder comes after all that it imports. The number in brackets counts the imports.
    """
    modules = list(modules)
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for importer, imported, _ in folder_imports(modules):
        counts[importer][imported] = counts[importer].get(imported, 0) + 1
    lines: list[str] = []
    drawn: list[str] = []
    waiting = sorted({folder_of(module) for module in modules})
    while waiting:
        # Where there is a circle, its first folder is drawn all the same.
        ready = [each for each in waiting if counts[each].keys() <= set(drawn)] or waiting[:1]
        for folder in ready:
            imported = ", ".join(
                f"{other} ({counts[folder][other]})" for other in drawn if other in counts[folder]
            )
            lines.append(f"{folder:20}{imported}".rstrip())
        drawn += ready
        waiting = [each for each in waiting if each not in ready]
    return "\n".join(lines)
