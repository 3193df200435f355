"""One word for one thing: names and phrases of the field, and no two classes of one name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest

from tests.repository.source_tree import ROOT, Module, modules_of

REPLACED = frozenset({"asked", "asker", "told", "lot", "lots", "portion", "portions", "outgoing"})
"""Words that CONTRIBUTING.md replaces: private dialect, each with a term of the field."""

PHRASES = re.compile(
    r"\banew\b|\btak(?:es?|en) leave\b|\bshar(?:es?|ed) out\b|\b(?:is|are) told\b"
    r"|\bportions?\b|\bat the (?:most|least)\b|\bthat cannot be[.:]"
)
"""Phrases that CONTRIBUTING.md replaces."""

SHARED_NAMES = {
    "Answer": "of the index; of the server of pages, which is about HTTP",
    "Candidates": "of a look-up; figures about them on the ops page",
    "Content": "of a document; of a CloudEvent",
    "Decided": "of the log; of a file's documents",
    "Group": "the worker's membership; the whole group on the ops page",
    "GroupWorker": "as it is read; as the ops page shows it",
    "LogCutError": "of reading; of care",
    "Progress": "of a shard; of the demo",
    "Refused": "of a file's line",
    "Removal": "in the log; in the store",
    "View": "of the index; a Protocol of the demo",
}
"""Names of two classes, with why. A new one needs a reason; those that are gone are taken out."""


def classes_of(modules: list[Module]) -> dict[str, list[str]]:
    """The public classes, by name, with the modules that define them."""
    found = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module.name)
    return found


ALL = classes_of([*modules_of("simhash_core"), *modules_of("streams")])


def test_a_name_is_that_of_one_class() -> None:
    """Whoever searches for a class finds one, but for the few that are explained here."""
    twice = {name: places for name, places in ALL.items() if len(places) > 1}

    assert {name: where for name, where in twice.items() if name not in SHARED_NAMES} == {}
    assert SHARED_NAMES.keys() - twice.keys() == set()


def names_in(module: Module) -> set[str]:
    """What a module names itself: its functions, parameters, variables and attributes."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case _:
                pass
    return names


def replaced_in(name: str) -> set[str]:
    """The words of a name that CONTRIBUTING.md replaces."""
    return set(name.lower().split("_")) & REPLACED


@pytest.mark.parametrize("package", ["simhash_core", "streams", "firstseen"])
def test_names_keep_to_the_table(package: str) -> None:
    """No function, parameter or variable is named by a word that CONTRIBUTING.md replaces."""
    modules = modules_of(package)

    assert modules, f"no module in {package}: has it moved?"
    assert {
        f"{module.name}: {name}"
        for module in modules
        for name in names_in(module)
        if replaced_in(name)
    } == set()


@pytest.mark.parametrize("package", ["simhash_core", "streams", "firstseen"])
def test_phrases_that_were_replaced_do_not_come_back(package: str) -> None:
    """No docstring, message or comment has a phrase that CONTRIBUTING.md replaces."""
    texts = {path: path.read_text("utf-8") for path in (ROOT / package).rglob("*.py")}

    assert texts, f"no module in {package}: has it moved?"
    assert {
        f"{path.relative_to(ROOT)}: {phrase.group()}"
        for path, text in texts.items()
        for phrase in PHRASES.finditer(text)
    } == set()


@pytest.mark.parametrize(
    ("name", "replaced"),
    [("_asked_at", {"asked"}), ("unasked", set()), ("offset", set())],
)
def test_words_of_a_variable(name: str, replaced: set[str]) -> None:
    """Given names with and without such a word, then only whole words count."""
    assert replaced_in(name) == replaced
