"""Reads the rules of deploy/prometheus and the dashboard of deploy/grafana, and their metrics."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NamedTuple

import yaml

from streams.monitoring.metrics import DEFINITIONS, MetricKind
from tests.repository.source_tree import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
RULE_FILES = sorted(PROMETHEUS.glob("*.rules.yml"))
DASHBOARD_FILE = ROOT / "deploy" / "grafana" / "dashboards" / "firstseen.json"

SUFFIXES = {
    MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
    MetricKind.SUMMARY: ("_sum", "_count"),
}
# Metrics of the client library and of Prometheus itself.
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
    """A metric in an expression, with its conditions on labels: label, operator, value."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]
    text: str


def selectors(expression: str) -> list[Selector]:
    """Return the metrics in an expression, without texts in quotes."""
    return [
        Selector(
            found[1],
            tuple((m[1], m[2], m[3]) for m in _MATCHER.finditer(found[2] or "")),
            found[0],
        )
        for found in _NAME.finditer(expression)
    ]


@cache
def rules() -> list[dict[str, Any]]:
    files = [yaml.safe_load(file.read_text("utf-8")) for file in RULE_FILES]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


@cache
def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(DASHBOARD_FILE.read_text("utf-8"))
    return content


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> list[tuple[str, str]]:
    """Yield every query of the dashboard, with the title of its panel."""
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]


def trouble_with(selector: Selector) -> str | None:
    """Return what is wrong with a named metric: it, its label or the label's value is unknown."""
    if selector.name in recorded() | FOREIGN:
        return None
    series = {
        f"{each.name}{suffix}": each
        for each in DEFINITIONS
        for suffix in SUFFIXES.get(each.kind, ("",))
    }
    if selector.name not in series:
        return f"no such metric: {selector.name}"
    metric = series[selector.name]
    labels = {"job": (), "instance": (), "namespace": (), **metric.labels}
    if metric.buckets:
        labels["le"] = tuple(str(float(bound)) for bound in metric.buckets)
    for label, operator, value in selector.matchers:
        if label not in labels:
            return f"{selector.name} has no label {label}"
        values = value.split("|") if operator in {"=~", "!~"} else [value]
        if labels[label] and (missing := set(values) - set(labels[label])):
            return f"{selector.name} has no {label} {sorted(missing)}"
    return None
