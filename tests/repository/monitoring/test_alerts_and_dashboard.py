"""Alert rules and dashboard: each is tested and explained, and uses metrics that a worker has.

In ``make check``, promtool checks that the rules are valid, and runs their tests.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
import yaml

from streams.monitoring.metrics import DEFINITIONS
from tests.repository.deploy.shipped_files import project
from tests.repository.monitoring.shipped_monitoring import (
    PROMETHEUS,
    Selector,
    alerts,
    dashboard,
    panels,
    queries,
    recorded,
    rules,
    selectors,
    trouble_with,
)
from tests.repository.source_tree import ROOT

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
MARKS = [(each["name"], each["target"]["expr"]) for each in dashboard()["annotations"]["list"]]
UNITS = {"short", "s", "bytes", "Bps", "percentunit"}

# ---- rules


def test_every_alert_is_tested_and_has_its_severity() -> None:
    fires: set[str] = set()
    rests: set[str] = set()
    for file in (PROMETHEUS / "tests").glob("*.test.yml"):
        for test in yaml.safe_load(file.read_text("utf-8"))["tests"]:
            for case in test["alert_rule_test"]:
                (fires if case["exp_alerts"] else rests).add(case["alertname"])
    assert fires == rests == {rule["alert"] for rule in alerts()}
    assert {rule["labels"]["severity"] for rule in alerts()} == {"critical", "warning"}


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_explains_itself_and_has_a_runbook(rule: dict[str, Any]) -> None:
    notes, anchor = rule["annotations"], rule["alert"].lower()
    assert notes.keys() == {"summary", "description", "runbook_url"}
    page = f"{project()['urls']['Repository']}/blob/main/docs/operations.md"
    chosen = f"{{{{ with $externalLabels.runbooks }}}}{{{{ . }}}}{{{{ else }}}}{page}{{{{ end }}}}"
    assert notes["runbook_url"] == f"{chosen}#{anchor}"
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    section = text.partition(f"### {rule['alert']}\n")[2].partition("\n#")[0]
    for word in (f"**Means** ({rule['labels']['severity']})", "**Confirm**", "**Do**"):
        assert word in section


@pytest.mark.parametrize(
    "selector",
    [found for rule in rules() for found in selectors(rule["expr"])],
    ids=lambda selector: str(selector.text)[:60],
)
def test_rules_ask_for_metrics_that_exist(selector: Selector) -> None:
    assert trouble_with(selector) is None


# ---- the dashboard


def test_rows_have_panels_and_their_order() -> None:
    kinds = [(panel["type"], panel["title"]) for panel in dashboard()["panels"]]
    assert [title for kind, title in kinds if kind == "row"] == ROWS
    assert all((one, other) != ("row", "row") for (one, _), (other, _) in pairwise(kinds))


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith((".", "?"))
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["targets"]
    assert panel["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize(("title", "expression"), [*queries(), *MARKS])
def test_queries_ask_for_metrics_that_exist_and_the_chosen_job(title: str, expression: str) -> None:
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


def test_panels_link_to_workers_and_the_dashboard_to_runbooks() -> None:
    links = {link["title"]: link["url"] for link in dashboard()["links"]}
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert links["Runbooks"] == "${runbooks}"
    assert variables["runbooks"]["query"].endswith("/docs/operations.md")
    for panel in panels():
        by_worker = any("{{instance}}" in each["legendFormat"] for each in panel["targets"])
        urls = [each["url"] for each in panel["fieldConfig"]["defaults"].get("links", [])]
        assert urls == (["http://${__field.labels.instance}/"] if by_worker else [])


def test_every_metric_is_shown() -> None:
    asked = {
        selector.name
        for expression in [each for _, each in queries()] + [rule["expr"] for rule in rules()]
        for selector in selectors(expression)
    }
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} | asked
    assert {each.name for each in DEFINITIONS} - names == set()
