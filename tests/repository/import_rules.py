"""The rules of who may import whom, as functions from modules to the breaches found in them.

`simhash_core` is pure: values in, values out. It may import the standard library, less what
reaches the world (clock, environment, files, network, threads, logs, randomness), and five
libraries that compute. `streams` is the shell and may import anything but the tests. In both,
imports form a directed acyclic graph, so that the tree can be read from its leaves upward.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from tests.repository.source_tree import Module, calls_of, imports_of

CORE_LIBRARIES = frozenset({"jieba", "msgspec", "numpy", "rjieba", "xxhash"})

IMPURE_MODULES = frozenset(
    {
        *("time", "sched", "random", "secrets", "uuid"),
        *("os", "platform", "shutil", "pathlib", "glob", "io", "tempfile", "fileinput", "mmap"),
        *("sqlite3", "dbm", "shelve", "socket", "socketserver", "ssl", "select", "selectors"),
        *("http", "urllib", "ftplib", "smtplib", "xmlrpc"),
        *("asyncio", "threading", "multiprocessing", "concurrent", "subprocess", "signal"),
        *("logging", "warnings", "importlib", "runpy"),
    }
)

# What an installed library ships is as fixed as its code, and so is its version.
PURE_PARTS = frozenset({"importlib.metadata", "importlib.resources"})

IMPURE_CALLS = frozenset(
    {
        *("open", "print", "input", "breakpoint", "exec", "eval", "__import__"),
        *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    }
)


def breaches_of_purity(modules: Iterable[Module], *, package: str) -> list[str]:
    """Imports and calls by which `modules` of the pure `package` would reach the world."""
    breaches = []
    for module in modules:
        for name in sorted(imports_of(module)):
            reason = _why_impure(name, package)
            if reason:
                breaches.append(f"{module.path} imports {name}: {reason}")
        breaches.extend(
            f"{module.path} calls {call}(): the core reads no clock, file or chance"
            for call in sorted(calls_of(module))
            if call in IMPURE_CALLS or call.startswith("random.")  # numpy.random
        )
    return breaches


def _why_impure(name: str, package: str) -> str | None:
    top, *rest = name.split(".")
    if top in IMPURE_MODULES and ".".join([top, *rest[:1]]) not in PURE_PARTS:
        return "it reaches the clock, the environment or the world; take a value as a parameter"
    if top == package or top in CORE_LIBRARIES or top in sys.stdlib_module_names:
        return None
    return f"only the standard library and {', '.join(sorted(CORE_LIBRARIES))} are allowed here"


def breaches_of_direction(modules: Iterable[Module], *, forbidden: frozenset[str]) -> list[str]:
    """Imports of a `forbidden` top-level package by `modules`."""
    return [
        f"{module.path} imports {name}"
        for module in modules
        for name in sorted(imports_of(module))
        if name.split(".")[0] in forbidden
    ]


def cycle_in(modules: Iterable[Module]) -> list[str]:
    """One cycle of imports among `modules`, first name repeated last, or [] where there is none."""
    by_name = {module.name: module for module in modules}
    graph = {name: edges_of(module, by_name) for name, module in by_name.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle[::-1]  # graphlib lists each after what imports it
    return []


def edges_of(module: Module, by_name: Mapping[str, Module]) -> set[str]:
    """The modules of `by_name` that `module` imports: a.b where that is one, else the a of a.b.

    `from a import b` with a module b is an edge to a.b alone: the file of the package a runs too,
    but gives nothing to the importer.
    """
    edges = set()
    for name in imports_of(module):
        for candidate in (name, name.rpartition(".")[0]):
            if candidate in by_name:
                edges.add(candidate)
                break
    return edges - ({module.name} if module.is_package else set())
