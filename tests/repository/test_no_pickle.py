"""Nothing that is read back can run code: no pickle, nor anything that is built on it."""

from __future__ import annotations

import ast

import pytest

from tests.repository.source_tree import ROOT

RUNS_CODE = frozenset({"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle",
                       "joblib", "jsonpickle"})  # fmt: skip
CALLS = frozenset({"eval", "exec"})


def dangers_in(source: str) -> list[str]:
    """What a module imports or does that would run what it reads."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [alias.name.partition(".")[0] for alias in node.names]
            case ast.ImportFrom():
                names = [(node.module or "").partition(".")[0]]
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                found.append(name)
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=True)):
                found.append("allow_pickle")
            case ast.keyword(
                arg="key_serializer" | "value_serializer" | "serializer",
                value=ast.Constant(value=str(serializer)),
            ):
                names = [serializer]
        found += [name for name in names if name in RUNS_CODE]
    return found


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from shelve import open",
        "import numpy\nnumpy.load(f, allow_pickle=True)",
        "app.topic('t', value_serializer='pickle')",
        "eval('1')",
    ],
)
def test_it_is_found(source: str) -> None:
    """Given a module that would run what it reads, then that is found."""
    assert dangers_in(source)


def test_nothing_read_back_runs() -> None:
    """No module of the packages unpickles, or evaluates what it was given."""
    modules = [path for name in ("simhash_core", "streams") for path in (ROOT / name).rglob("*.py")]
    assert modules, "no Python file found: have the packages moved?"

    found = {str(path.relative_to(ROOT)): dangers_in(path.read_text("utf-8")) for path in modules}

    assert {path: names for path, names in found.items() if names} == {}
