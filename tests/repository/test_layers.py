"""The order of the folders, held: no arrow upward and no circle; and light parts stay light."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter
from itertools import pairwise

import pytest

from tests.repository.layers import (
    CORE_LAYERS,
    LAYERS,
    SHELL_LAYERS,
    breaches_of_layers,
    folder_imports,
    folder_of,
    picture,
)
from tests.repository.source_tree import Module, modules_of

KAFKA = frozenset({"confluent_kafka", "faust", "mode"})
STORE = frozenset({"rocksdict"})
HEAVY = KAFKA | STORE | {"jieba", "rjieba", "numpy", "prometheus_client"}


@pytest.mark.parametrize("package", LAYERS)
def test_folders_import_lower_ones_only(package: str) -> None:
    """Each module imports from its own folder and from folders that are lower."""
    assert breaches_of_layers(modules_of(package), LAYERS[package]) == []


@pytest.mark.parametrize("package", LAYERS)
def test_the_rules_themselves_have_no_circle(package: str) -> None:
    """What the rules allow, taken together, has an order: no two folders may import each other."""
    layers = LAYERS[package]
    graph = {folder: layers.allowed(folder) for folder in {*layers.order, *layers.beside}}

    order = list(TopologicalSorter(graph).static_order())  # raises CycleError

    for lower, higher in pairwise(layers.order):
        assert order.index(lower) < order.index(higher)


@pytest.mark.parametrize(
    ("name", "source", "package", "breach"),
    [
        (
            "streams.kafka.connection",
            "from streams.store.row_codec import StoreIdentity",
            "streams",
            "streams.kafka.connection (kafka) imports streams.store.row_codec (store)",
        ),
        (
            "streams.worker.commit",
            "from streams.ops_page.duplicates import RecentDocuments",
            "streams",
            "streams.worker.commit (worker) imports streams.ops_page.duplicates (ops_page)",
        ),
        (
            "simhash_core.index.segment",
            "from simhash_core.log import records",
            "simhash_core",
            "simhash_core.index.segment (index) imports simhash_core.log.records (log)",
        ),
        (
            "streams.attic.old",
            "from streams.errors import Problem",
            "streams",
            "streams.attic.old: the folder attic has no place in tests/repository",
        ),
    ],
)
def test_an_arrow_upward_is_seen(name: str, source: str, package: str, breach: str) -> None:
    """Given a module that imports from a higher folder, then it is named with what it imports."""
    lower = [each for each in modules_of(package) if each.name != name]

    breaches = breaches_of_layers([*lower, Module.from_source(name, source)], LAYERS[package])

    assert breaches == [breach]


def test_the_worker_puts_its_pages_together() -> None:
    """Given the module that puts a worker together, then it may import its pages."""
    assert "ops_page" in SHELL_LAYERS.allowed("process")
    assert "ops_page" not in SHELL_LAYERS.allowed("worker")
    assert "log" not in CORE_LAYERS.allowed("index")


def test_a_folder_counts_with_those_in_it() -> None:
    """Given modules, then their folders are those of the tree; the core's text is one."""
    names = {
        "simhash_core.text.weighting": "text",
        "simhash_core.errors": "root",
        "streams.evaluation.evaluation": "evaluation",
        "streams.errors": "errors",
        "streams.worker.worker_log": "worker",
        "streams.worker.clients": "worker",
        "streams.worker.process": "process",
    }

    assert {name: folder_of(Module.from_source(name, "")) for name in names} == names


def test_the_picture_has_each_folder_below_what_it_imports() -> None:
    """Given the tree, when its picture is drawn, then each folder stands after its imports."""
    modules = modules_of("streams")

    lines = picture(modules).split("\n")

    drawn = [line.split()[0] for line in lines]
    assert set(drawn) == {folder_of(module) for module in modules}
    for importer, imported, _ in folder_imports(modules):
        assert drawn.index(imported) < drawn.index(importer)


def loaded_by(program: str) -> set[str]:
    """The top-level packages that a new interpreter has loaded after ``program``."""
    script = f"{program}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return {name.split(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    ("program", "left_out"),
    [
        pytest.param(
            "from streams.cli.main import main\nassert main(['--help']) == 0",
            HEAVY | {"aiohttp"},
            id="firstseen --help",
        ),
        pytest.param(
            "from streams.cli.main import main\nassert main(['version']) == 0",
            HEAVY - {"confluent_kafka"} | {"aiohttp"},  # it knows librdkafka's version
            id="firstseen version",
        ),
        pytest.param(
            "import simhash_core.log.participant, simhash_core.text.fingerprinter",
            KAFKA | STORE | {"prometheus_client"},
            id="the core",
        ),
        pytest.param(
            "import streams.worker.fingerprint", KAFKA | STORE, id="the fingerprint stage"
        ),
        pytest.param("import streams.offline.index_plan", KAFKA, id="firstseen plan"),
        pytest.param("import streams.errors", HEAVY | {"msgspec"}, id="exit codes"),
    ],
)
def test_light_parts_stay_light(program: str, left_out: frozenset[str]) -> None:
    """Given a part that starts often or is used alone, then it loads nothing heavy."""
    assert loaded_by(program) & left_out == set()
