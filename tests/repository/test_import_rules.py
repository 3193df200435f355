"""The direction of imports, held: `streams` imports `simhash_core`, which imports nothing impure.

The first half runs the rules over the tree; the second shows, on snippets, that each rule bites.
"""

from __future__ import annotations

import pytest

from tests.repository.import_rules import (
    breaches_of_direction,
    breaches_of_purity,
    cycle_in,
)
from tests.repository.source_tree import Module, modules_of

PACKAGES = ("simhash_core", "streams")


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_found(package: str) -> None:
    """The rules below judge real modules, not an empty list."""
    assert modules_of(package), f"no module in {package}/: has it moved?"


def test_core_is_pure() -> None:
    """`simhash_core` imports and calls nothing that reaches the world, and nothing of the shell."""
    assert breaches_of_purity(modules_of("simhash_core"), package="simhash_core") == []


def test_shell_does_not_import_tests() -> None:
    """An installed `streams` has no tests or benchmarks beside it."""
    forbidden = frozenset({"tests", "benchmarks", "docs", "firstseen"})
    assert breaches_of_direction(modules_of("streams"), forbidden=forbidden) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_form_no_cycle(package: str) -> None:
    """The modules of a package can be read in an order in which each needs only earlier ones."""
    assert cycle_in(modules_of(package)) == []


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import time", "imports time"),
        ("from time import monotonic", "imports time.monotonic"),
        ("import os.path", "imports os.path"),
        ("def f():\n    import logging", "imports logging"),
        (
            "from streams.settings.settings import Settings",
            "imports streams.settings.settings.Settings",
        ),
        ("import rocksdict", "imports rocksdict"),
        ("from ...streams import settings", "imports streams.settings"),
        ("text = open('corpus.txt').read()", "calls open()"),
        ("from datetime import datetime\nnow = datetime.now()", "calls datetime.now()"),
        ("import datetime\nnow = datetime.datetime.now()", "calls datetime.now()"),
        ("import numpy as np\nrng = np.random.default_rng()", "calls random.default_rng()"),
        ("m = __import__('os')", "calls __import__()"),
        ("from importlib import import_module", "imports importlib.import_module"),
    ],
)
def test_impurity_is_seen(source: str, complaint: str) -> None:
    """Given a core module that reaches out, when it is judged, then the breach is named."""
    module = Module.from_source("simhash_core.fingerprints.blocks", source)

    breaches = breaches_of_purity([module], package="simhash_core")

    assert len(breaches) == 1
    assert breaches[0].startswith(f"simhash_core/fingerprints/blocks.py {complaint}")


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nimport xxhash\nimport msgspec\nimport jieba.posseg\nimport rjieba",
        "from collections.abc import Iterable\nfrom datetime import UTC, datetime",
        "from importlib import resources\nfrom importlib.metadata import version",
        "from simhash_core.documents import Document\nfrom . import verdicts",
        "blocks.open_bucket(3)\nmoment = datetime.fromtimestamp(record_time, UTC)",
    ],
)
def test_purity_is_not_reproached(source: str) -> None:
    """Given a core module that only computes, when it is judged, then nothing is found."""
    module = Module.from_source("simhash_core.fingerprints.blocks", source)

    assert breaches_of_purity([module], package="simhash_core") == []


def test_wrong_direction_is_seen() -> None:
    """Given a shell module that imports a test's broker, then the import is named."""
    module = Module.from_source("streams.demo", "from tests.rigs.brokers import mock")

    breaches = breaches_of_direction([module], forbidden=frozenset({"tests"}))

    assert breaches == ["streams/demo.py imports tests.rigs.brokers.mock"]


def test_cycle_is_seen() -> None:
    """Given three modules that import each other in a ring, then the ring is named in order."""
    ring = [
        Module.from_source("core.a", "from core.b import x"),
        Module.from_source("core.b", "from core import c"),
        Module.from_source("core.c", "def f():\n    from .a import y"),
        Module.from_source("core.leaf", "import re"),
    ]

    cycle = cycle_in(ring)

    assert cycle[0] == cycle[-1]
    assert set(cycle) == {"core.a", "core.b", "core.c"}
    assert "core.a core.b" in " ".join(cycle + cycle[1:])


def test_cycle_through_a_package_is_seen() -> None:
    """Given a package that re-exports from a module that imports from it, then that is a ring."""
    ring = [
        Module.from_source("core", "from .a import x", is_package=True),
        Module.from_source("core.a", "from core import y"),
    ]

    assert set(cycle_in(ring)) == {"core", "core.a"}


def test_sibling_import_is_no_cycle() -> None:
    """Given `from package import submodule` beside a re-export, then only the submodule counts."""
    tree = [
        Module.from_source("core", "from .a import x", is_package=True),
        Module.from_source("core.a", "from core import b"),
        Module.from_source("core.b", "import re"),
    ]

    assert cycle_in(tree) == []
