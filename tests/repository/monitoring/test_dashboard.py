"""The dashboard: every panel explains itself, and asks for what there is."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
import yaml

from streams.monitoring.metric_definitions import DEFINITIONS
from tests.repository.deploy.shipped_files import services
from tests.repository.monitoring.shipped_dashboard import (
    GRAFANA,
    dashboard,
    expressions,
    panels,
)
from tests.repository.monitoring.shipped_rules import (
    PROMETHEUS,
    recorded,
    rules,
    selectors,
    trouble_with,
)

ROWS = [
    "Overview",
    "Throughput and verdicts",
    "Lag and freshness",
    "Ordering and deciding",
    "Latency",
    "Index quality",
    "State",
    "Recovery and rebalances",
    "Dead letters and errors",
    "Process",
]
UNITS = {"short", "s", "bytes", "Bps", "percentunit"}


def test_the_rows() -> None:
    """Given the dashboard, then it has these rows, in this order, each with panels."""
    kinds = [(panel["type"], panel["title"]) for panel in dashboard()["panels"]]

    assert [title for kind, title in kinds if kind == "row"] == ROWS
    assert all((one, other) != ("row", "row") for (one, _), (other, _) in pairwise(kinds))


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    """Given a panel, then it has a title, a sentence that says what it shows, and a unit."""
    assert panel["title"]
    assert panel["description"].endswith((".", "?"))
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["targets"]
    assert panel["datasource"]["uid"] == "${datasource}"


def test_panels_lie_side_by_side() -> None:
    """Given the places of panels, then no two overlap, and none stands out at the right."""
    taken: Counter[tuple[int, int]] = Counter()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                taken[x, y] += 1

    assert max(taken.values()) == 1
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


@pytest.mark.parametrize(("title", "expression"), expressions())
def test_queries_ask_for_what_there_is(title: str, expression: str) -> None:
    """Given a query, then every metric, label and value in it is exposed by a worker, rates are
    over Grafana's interval, and the job chosen above is asked for.
    """
    found = selectors(expression)
    assert found, title
    for selector in found:
        assert trouble_with(selector) is None
        assert ("job", "=~", "$job") in selector.matchers
        if selector.name not in recorded():
            assert ("instance", "=~", "$instance") in selector.matchers
    for function, window in re.findall(r"\b(rate|increase)\([^[]*\[([^]]*)\]", expression):
        allowed = {"rate": {"$__rate_interval"}, "increase": {"$__range", "15m"}}
        assert window in allowed[function]


def test_events_are_marked() -> None:
    """Given the dashboard, then rebalances and changes of the leader are marked in its panels, and
    their queries ask for what there is.
    """
    marked = {each["name"]: each["target"]["expr"] for each in dashboard()["annotations"]["list"]}

    assert marked.keys() == {"Rebalances", "Leaders"}
    for expression in marked.values():
        for selector in selectors(expression):
            assert trouble_with(selector) is None
            assert ("job", "=~", "$job") in selector.matchers


def test_links_lead_on() -> None:
    """Given the dashboard, then it links to the runbooks, at an address that can be chosen, and
    each panel by worker links to the worker's own page.
    """
    links = {link["title"]: link["url"] for link in dashboard()["links"]}
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert links["Runbooks"] == "${runbooks}"
    assert variables["runbooks"]["query"].endswith("/docs/operations.md")

    for panel in panels():
        by_worker = any("{{instance}}" in each["legendFormat"] for each in panel["targets"])
        urls = [each["url"] for each in panel["fieldConfig"]["defaults"].get("links", [])]
        assert urls == (["http://${__field.labels.instance}/"] if by_worker else [])


def test_every_metric_is_shown() -> None:
    """Given the metrics of a worker, then each stands in a panel, or in a rule that makes one."""
    asked = {
        selector.name
        for expression in [each for _, each in expressions()] + [rule["expr"] for rule in rules()]
        for selector in selectors(expression)
    }
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} | asked

    assert {each.name for each in DEFINITIONS} - names == set()


def test_what_grafana_is_given() -> None:
    """Given the provisioning, then it reads the dashboards where Compose puts them, asks the
    Prometheus of Compose, and knows how often that scrapes.
    """
    providers = yaml.safe_load((GRAFANA / "provisioning/dashboards/firstseen.yml").read_text())
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())
    (source,) = sources["datasources"]
    (provider,) = providers["providers"]
    grafana, prometheus = services()["grafana"], services()["prometheus"]
    scrapes = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))

    path = provider["options"]["path"]
    assert f"./deploy/grafana/dashboards:{path}:ro" in grafana["volumes"]
    assert "./deploy/grafana/provisioning:/etc/grafana/provisioning:ro" in grafana["volumes"]
    assert "./deploy/prometheus:/etc/prometheus:ro" in prometheus["volumes"]
    assert source["url"] == "http://prometheus:9090"
    assert source["jsonData"]["timeInterval"] == scrapes["global"]["scrape_interval"]
    (job,) = scrapes["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["worker:6066"]}]
