"""What a worker knows of a raw partition is in its ``Shard``: nothing else is kept by partition.

A second mapping has to be kept in step with the first, and each fault of the path that was severe
was one that was not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from tests.repository.source_tree import Module, modules_of

PATH = "streams/worker"
MEMBER = "streams.kafka.raw_consumer"

ALLOWED = {
    "Pipeline.shards": "the shards of the worker: the one mapping of the path",
    "OutputBatch.offsets": "what one commit sends, and gone with it",
    "Leader._positions": "of all shards of the index, as their owners report",
    "StandbyStores._stores": "copies of other workers' shards",
    "Standbys._filling": "copies of other workers' shards",
    "Standbys._filled": "copies of other workers' shards",
    "Standbys._wanted": "copies of other workers' shards",
    "Fetched.ended": "what one fetch says, and gone with it",
    "RawConsumer._owned": "of the client's thread: what the group has assigned",
    "RawConsumer._readings": "of the client's thread: what it fetches",
    "RawConsumer._stopped": "of the client's thread: what it fetches",
    "RawConsumer._to_seek": "of the client's thread: what it fetches",
    "RawConsumer._paused": "of the client's thread: what it fetches",
}
"""Attributes that are keyed by a raw partition all the same, with why."""

KEYED = frozenset(
    {
        *("dict", "defaultdict", "OrderedDict", "Counter", "Mapping", "MutableMapping"),
        *("set", "frozenset", "Set", "MutableSet"),
    }
)
_MADE = (ast.Dict, ast.DictComp, ast.Set, ast.SetComp)


def is_keyed_by_number(annotation: ast.expr) -> bool:
    """Whether an annotation has a mapping from, or a set of, integers in it."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).split(".")[-1] in KEYED:
            key = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            if ast.unparse(key) == "int":
                return True
    return False


def is_made_without_a_type(value: ast.expr) -> bool:
    """Whether a value is a new mapping or set, which mypy types by what is in it."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).split(".")[-1] in KEYED
    return isinstance(value, _MADE)


def kept_by_number(modules: Iterable[Module]) -> set[str]:
    """The attributes of classes that are keyed by integers, or by what cannot be seen."""
    kept = set()
    for module in modules:
        for owner in (each for each in ast.walk(module.tree) if isinstance(each, ast.ClassDef)):
            typed: dict[str, bool] = {}
            untyped: dict[str, bool] = {}
            for node in ast.walk(owner):
                match node:
                    case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
                        typed[name] = is_keyed_by_number(annotation)
                    case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                        if node in owner.body:
                            typed[name] = is_keyed_by_number(annotation)
                    case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                        untyped[name] = is_made_without_a_type(value)
                    case _:
                        pass
            names = {**untyped, **typed}
            kept |= {f"{owner.name}.{name}" for name, is_kept in names.items() if is_kept}
    return kept


def test_shards_are_the_only_mapping_by_partition() -> None:
    """No class of the path keeps anything by partition, but what is explained here; and what is
    explained is there.
    """
    modules = modules_of(PATH)
    members = [each for each in modules_of("streams/kafka") if each.name == MEMBER]

    assert modules
    assert members, f"{MEMBER} has moved"
    assert kept_by_number([*modules, *members]) == ALLOWED.keys()


@pytest.mark.parametrize(
    ("statement", "is_kept"),
    [
        ("self.stores: dict[int, Store] = {}", True),
        ("self.opening: set[int] = set()", True),
        ("self.starts: defaultdict[int, list[int]] = defaultdict(list)", True),
        ("self.pending: list[dict[int, str]] = []", True),
        ("self.interrupted = {p: Event() for p in partitions}", True),
        ("self.turned_back: dict[Shard, float] = {}", False),
        ("self.shards = shards", False),
        ("offsets: dict[int, int] = {}", False),
        ("self.names: dict[str, int] = {}", False),
    ],
)
def test_what_counts_as_a_mapping_by_partition(statement: str, is_kept: bool) -> None:
    """Given a statement of a method, then mappings and sets of integers are seen that stay."""
    source = f"class Owner:\n    def __init__(self):\n        {statement}\n"
    kept = kept_by_number([Module.from_source("streams.worker.owner", source)])
    assert bool(kept) == is_kept
