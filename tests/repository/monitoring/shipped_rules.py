"""The rules of deploy/prometheus, and the metrics that an expression names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from streams.monitoring.metric_definitions import DEFINITIONS, MetricKind
from tests.repository.source_tree import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
RULE_FILES = sorted(PROMETHEUS.glob("*.rules.yml"))
RULE_TESTS = sorted((PROMETHEUS / "tests").glob("*.test.yml"))

# Of the client library and of Prometheus itself.
FOREIGN = frozenset(
    {
        "up",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    }
)

_NAME = re.compile(r"\b(firstseen[a-z0-9_:]*|process_[a-z_]+|up)\b(\{[^}]*\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


class Selector(NamedTuple):
    """A metric in an expression, with what it asks of labels: label, operator, value."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]
    text: str


def selectors(expression: str) -> list[Selector]:
    """The metrics that an expression names; texts in quotes are none."""
    return [
        Selector(
            found[1],
            tuple((m[1], m[2], m[3]) for m in _MATCHER.finditer(found[2] or "")),
            found[0],
        )
        for found in _NAME.finditer(expression)
    ]


def rules() -> Iterator[dict[str, Any]]:
    """All rules of all files."""
    for file in RULE_FILES:
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]:
            yield from group["rules"]


def alerts() -> list[dict[str, Any]]:
    """The rules that are alerts."""
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    """The names that recording rules make."""
    return {rule["record"] for rule in rules() if "record" in rule}


def series_names() -> set[str]:
    """Every name under which a worker exposes a series of ours."""
    names: set[str] = set()
    for each in DEFINITIONS:
        if each.kind is MetricKind.HISTOGRAM:
            names |= {f"{each.name}_bucket", f"{each.name}_sum", f"{each.name}_count"}
        elif each.kind is MetricKind.SUMMARY:
            names |= {f"{each.name}_sum", f"{each.name}_count"}
        else:
            names.add(each.name)
    return names


def trouble_with(selector: Selector) -> str | None:
    """What is wrong with a metric that is named: no such one, or no such label or value."""
    if selector.name in recorded() | FOREIGN:
        return None
    if selector.name not in series_names():
        return f"no such metric: {selector.name}"
    stems = {selector.name, re.sub(r"_(bucket|sum|count)$", "", selector.name)}
    labels: dict[str, tuple[str, ...]] = {"job": (), "instance": (), "namespace": ()}
    for each in DEFINITIONS:
        if each.name in stems:
            labels |= each.labels
            if each.buckets:
                labels["le"] = tuple(str(float(bound)) for bound in each.buckets)
    for label, operator, value in selector.matchers:
        if label not in labels:
            return f"{selector.name} has no label {label}"
        values = value.split("|") if operator in {"=~", "!~"} else [value]
        known = labels[label]
        if known and (missing := set(values) - set(known)):
            return f"{selector.name} has no {label} {sorted(missing)}"
    return None
