"""Every Kafka client is one that ends without holding up its owner (``streams.kafka.clients``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.repository.source_tree import ROOT

CLIENTS = frozenset({"Consumer", "Producer", "AdminClient"})
LIBRARY = "confluent_kafka"
ITS_CLIENTS = "streams/kafka/clients.py"
CONNECTS_NOTHING = "streams/settings/kafka_properties.py"
"""Checks properties with a client that knows no broker; settings are below ``streams.kafka``."""


def foreign_clients(source: str) -> list[str]:
    """Return the clients that a module takes from the library itself, and how."""
    tree = ast.parse(source)
    modules = set(_names_of_library(tree))
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == LIBRARY:
                found += [alias.name for alias in node.names if alias.name in {*CLIENTS, "*"}]
            case ast.Attribute(attr=name, value=owner) if name in CLIENTS:
                if ast.unparse(owner).partition(".")[0] in modules:
                    found.append(ast.unparse(node))
    return found


def _names_of_library(tree: ast.Module) -> Iterator[str]:
    """Yield the names by which a module knows the library, or a module of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == LIBRARY:
                    yield alias.asname or LIBRARY
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(LIBRARY):
            yield from (alias.asname or alias.name for alias in node.names)


@pytest.mark.parametrize(
    "source",
    [
        "from confluent_kafka import Consumer",
        "from confluent_kafka import KafkaError, Producer as Sender",
        "from confluent_kafka.admin import AdminClient",
        "from confluent_kafka.cimpl import *",
        "import confluent_kafka\nconfluent_kafka.Producer({})",
        "import confluent_kafka.admin as managing\nmanaging.AdminClient({})",
        "from confluent_kafka import admin\nadmin.AdminClient({})",
    ],
)
def test_it_is_found(source: str) -> None:
    """Given a module that takes a client from the library, then that is found."""
    assert foreign_clients(source)


def test_other_names_are_none() -> None:
    """Given a module that takes errors alone from the library, then that is no finding."""
    source = "from confluent_kafka import KafkaError\nfrom streams.kafka.clients import Consumer"
    assert foreign_clients(source) == []


def test_no_client_is_the_library_s() -> None:
    """Given all modules but examples, which run alone, then only the classes themselves take a
    client from the library: its end could hang whoever drops it.
    """
    paths = [
        path
        for package in ("streams", "benchmarks", "tests", "deploy", "docs")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    found = {
        path.relative_to(ROOT).as_posix(): foreign_clients(path.read_text("utf-8"))
        for path in paths
    }
    assert {path for path, names in found.items() if names} == {ITS_CLIENTS, CONNECTS_NOTHING}


ENDS_THE_PROCESS = ("describe_consumer_groups", "list_consumer_group_offsets")
"""Requests of an admin client to a group's coordinator (librdkafka's pull request 5397)."""
LISTS_GROUPS = "list_groups"
LISTS = "streams/topics/consumer_group.py"


def calls_of(name: str) -> set[str]:
    """Return the modules that call a method of this name."""
    return {
        path.relative_to(ROOT).as_posix()
        for package in ("streams", "benchmarks", "tests")
        for path in sorted((ROOT / package).rglob("*.py"))
        if any(
            isinstance(node, ast.Attribute) and node.attr == name
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
        )
    }


def test_groups_are_listed_in_one_place() -> None:
    """Given all modules, then one asks who is in a group, and none by the call that ends the
    process when its time is over or a broker goes away: no command of the CLI either.
    """
    assert calls_of(LISTS_GROUPS) == {LISTS}
    assert {name: calls_of(name) for name in ENDS_THE_PROCESS if calls_of(name)} == {}
