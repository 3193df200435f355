"""One word for one thing: class names that are the field's, and no two classes of one name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest

from tests.repository.source_tree import Module, modules_of

LEFT_BEHIND = frozenset(
    {"Asker", "Confirmation", "Lot", "Outgoing", "Place", "Portion", "Standing", "Told"}
)
"""Names that CONTRIBUTING.md replaces."""

SHARED_NAMES = {
    "Answer": "of the index; of the server of pages, which is about HTTP",
    "Candidates": "of a look-up; figures about them on the ops page",
    "Content": "of a document; of a CloudEvent",
    "Decided": "of the log; of a file's documents",
    "Group": "the worker's membership; the whole group on the ops page",
    "GroupWorker": "as it is read; as the ops page shows it",
    "InFlight": "the limit; its figures on the ops page",
    "IndexOnKafka": "what a shard's opening needs of it is a Protocol",
    "LogCutError": "of reading; of care",
    "Observer": "a Protocol; the demo's",
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


def words_in(name: str) -> set[str]:
    """The words of a class name: ``TopicIdAsker`` is Topic, Id and Asker."""
    return set(re.findall(r"[A-Z][a-z]*", name))


ALL = classes_of([*modules_of("simhash_core"), *modules_of("streams")])


def test_a_name_is_that_of_one_class() -> None:
    """Whoever searches for a class finds one, but for the few that are explained here."""
    twice = {name: places for name, places in ALL.items() if len(places) > 1}

    assert {name: where for name, where in twice.items() if name not in SHARED_NAMES} == {}


@pytest.mark.parametrize("folder", ["kafka", "topics", "settings", "dead_letters", "monitoring"])
def test_words_that_were_replaced_do_not_come_back(folder: str) -> None:
    """No class is named by a word that CONTRIBUTING.md replaces."""
    names = classes_of(modules_of(f"streams/{folder}"))

    assert names, f"no class in streams/{folder}: has it moved?"
    assert {name for name in names if words_in(name) & LEFT_BEHIND} == set()


def test_words_of_a_name() -> None:
    """Given a name of three words, then each is found."""
    assert words_in("TopicIdAsker") == {"Topic", "Id", "Asker"}
