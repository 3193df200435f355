"""The source tree: its names and words, the length of modules, and where calls are allowed.

``pyproject.toml`` has the rules of linters: which folder imports which, and banned library names.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import PurePath

import pytest

from tests.repository.source_tree import PACKAGES, Module, modules_of

# ---- names and words

LINES_MAX = 700
# Tests are long lists of cases, and readers read them case by case, so they have no limit.
BOUNDED = (*PACKAGES, "benchmarks", "docs")
VAGUE_WORDS = frozenset({"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"})
REPLACED = frozenset(
    {"asked", "asker", "told", "tell", "tells", "say", "says", "said", "spoke", "heed", "heeds"}
    | {"whom", "mended", "lot", "lots", "portion", "portions", "outgoing"}
)
"""Words that CONTRIBUTING.md replaces: private dialect, each with a term of the field."""

SHARED_NAMES = {
    "Content": "of a document; of a CloudEvent",
    "Decided": "of the log; of a file's documents",
    "Progress": "of a shard; of the demo",
    "Refused": "of a file's line",
    "Removal": "in the log; in the store",
    "View": "of the index; a Protocol of the demo",
}
"""Names that two classes share, with the reason. A new one needs a reason; remove unused ones."""

PHRASES = (
    r"\b(?:anew|tak(?:es?|en) leave|shar(?:es?|ed) out|(?:is|are) told|portions?)\b"
    r"|\bat the (?:most|least)\b|\bthat cannot be[.:]|\bput(?:s|ting)? out\b|\blet(?:s|ting)? go\b"
    r"|\btak(?:es?|en|ing) no heed\b|\bleads no more\b|\ba(?:n| JSON)? (?:object|document) a line\b"
)
BANNED_TEXTS = {
    "a phrase that CONTRIBUTING.md replaces": (PACKAGES, PHRASES),
    "what runs code that is read back": (
        PACKAGES,
        r"allow_pickle\s*=\s*True|serializer\s*=\s*[\"'](?:raw\||json\|)?\w*pickle",
    ),
    # Ruff bans print, open, eval, exec and breakpoint; import-linter bans all impure modules.
    "what makes the core impure": (
        ("simhash_core",),
        r"\b(?:np|numpy)\.random|\bfrom numpy import random|\bimport_module\b|__import__|\binput\(",
    ),
}


def test_modules_are_short() -> None:
    long = [each.path for each in modules_of(*BOUNDED) if len(each.text.splitlines()) > LINES_MAX]
    assert long == [], f"over {LINES_MAX} lines: split each by idea"


def words_of(name: str) -> set[str]:
    return set(re.split(r"[_\W]+", name.lower()))


def test_files_are_named_for_their_one_idea() -> None:
    paths = [PurePath(each.path).with_suffix("") for each in modules_of(*BOUNDED, "tests")]
    assert [str(path) for path in paths if words_of(str(path)) & VAGUE_WORDS] == []


def test_a_class_name_is_that_of_one_class() -> None:
    found = defaultdict(list)
    for module in modules_of("simhash_core", "streams"):
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module.path)
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}

    assert {name: paths for name, paths in twice.items() if name not in SHARED_NAMES} == {}
    assert SHARED_NAMES.keys() - twice.keys() == set()


def names_in(module: Module) -> set[str]:
    """Return the names that a module defines: functions, parameters, variables, attributes."""
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


def test_names_have_no_word_that_contributing_replaces() -> None:
    found = {f"{each.path}: {name}" for each in modules_of(*PACKAGES) for name in names_in(each)}
    assert {each for each in found if words_of(each.rpartition(" ")[2]) & REPLACED} == set()


@pytest.mark.parametrize("what", BANNED_TEXTS)
def test_no_module_has_a_banned_text(what: str) -> None:
    packages, pattern = BANNED_TEXTS[what]
    assert [
        f"{module.path}: {found.group()}"
        for module in modules_of(*packages)
        for found in re.finditer(pattern, module.text)
    ] == []


# ---- calls

CALLERS = {
    "list_groups": {"streams/topics/consumer_group.py"},
    # Requests to a group's coordinator can end the process (librdkafka's pull request 5397), so a
    # child process makes one of them.
    "describe_consumer_groups": {"streams/topics/group_description.py"},
    "list_consumer_group_offsets": set(),
}


def test_groups_are_listed_in_one_place() -> None:
    modules = modules_of("streams", "benchmarks", "tests")
    assert {
        method: {
            module.path
            for module in modules
            if method in module.text  # few are parsed
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Attribute) and node.attr == method
        }
        for method in CALLERS
    } == CALLERS


# ---- what a worker keeps by partition

KEPT_BY_PARTITION = {
    "WorkerContext.shards": "the shards of the worker: the one mapping of the path",
    "OutputBatch.offsets": "what one commit sends, and gone with it",
    "OutputBatch.ends": "where one commit expects its records, and gone with it",
    "Leader._positions": "of all shards of the index, as their owners report",
    "StandbyStores._open": "copies of other workers' shards",
    "Standbys._filling": "copies of other workers' shards",
    "Standbys._filled": "copies of other workers' shards",
    "Standbys._wanted": "copies of other workers' shards",
    "DocumentTraces._open": "spans under way; a lost one is only not seen",
    "Fetched.ended": "what one fetch says, and gone with it",
    "Fetched.empty": "what one fetch says, and gone with it",
    "RawConsumer._owned": "of the client's thread: what the group has assigned",
    "RawConsumer._readings": "of the client's thread: what it fetches",
    "RawConsumer._unread": "of the client's thread: what it fetches",
    "RawConsumer._stopped": "of the client's thread: what it fetches",
    "RawConsumer._to_seek": "of the client's thread: what it fetches",
    "RawConsumer._paused": "of the client's thread: what it fetches",
    "Alignment._heard": "of all workers: when the log last had documents of it",
    "Alignment._awaited": "of all workers: those in ``_heard`` that are awaited after a move",
}
"""Attributes that are keyed by a raw partition, with the reason.

A worker's state of a partition is in its ``Shard``. A second mapping must change together with the
first, and each severe fault of the path was a second mapping that did not.
"""
KEYED = re.compile(r"^\w*(?:dict|Dict|Counter|Mapping|set|Set)\[int\b")


def test_shards_are_the_only_mapping_by_partition() -> None:
    kept = set()
    for module in modules_of("streams/worker", "streams/kafka/raw_consumer.py"):
        for owner in (each for each in ast.walk(module.tree) if isinstance(each, ast.ClassDef)):
            for node in ast.walk(owner):
                if isinstance(node, ast.AnnAssign) and KEYED.match(ast.unparse(node.annotation)):
                    if isinstance(node.target, ast.Attribute):
                        kept.add(f"{owner.name}.{node.target.attr}")
                    elif isinstance(node.target, ast.Name) and node in owner.body:
                        kept.add(f"{owner.name}.{node.target.id}")
    assert kept == KEPT_BY_PARTITION.keys()


# ---- what a part loads

KAFKA = frozenset({"confluent_kafka", "faust", "mode"})
STORE = frozenset({"rocksdict"})
HEAVY = KAFKA | STORE | {"jieba", "rjieba", "numpy", "prometheus_client"}


@pytest.mark.parametrize(
    ("program", "left_out"),
    [
        ("from streams.cli.main import main\nassert main(['--help']) == 0", HEAVY | {"aiohttp"}),
        # It imports confluent_kafka for librdkafka's version.
        (
            "from streams.cli.main import main\nassert main(['version']) == 0",
            HEAVY - {"confluent_kafka"} | {"aiohttp"},
        ),
        (
            "import simhash_core.log.participant, simhash_core.text.fingerprinter",
            KAFKA | STORE | {"prometheus_client"},
        ),
        ("import streams.worker.fingerprint", KAFKA | STORE),
        ("import streams.offline.index_plan", KAFKA),
        ("import streams.errors", HEAVY | {"msgspec"}),
    ],
)
def test_light_parts_load_nothing_heavy(program: str, left_out: frozenset[str]) -> None:
    script = f"{program}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert {name.split(".")[0] for name in done.stderr.split()} & left_out == set()
