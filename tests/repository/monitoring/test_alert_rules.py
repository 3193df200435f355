"""The rules of deploy/prometheus: they are tested, explained, and name what there is.

``make check`` lets promtool say that they are valid, and run their tests.
"""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import yaml

from docs.check_links import parse_page
from tests.repository.monitoring.shipped_rules import (
    RULE_TESTS,
    Selector,
    alerts,
    rules,
    selectors,
    trouble_with,
)
from tests.repository.source_tree import ROOT

ALERTS = {
    "LagGrowing": "warning",
    "Stalled": "critical",
    "HungTransaction": "critical",
    "NoLeader": "critical",
    "UndecidedTooLong": "critical",
    "ShardNotReporting": "critical",
    "RecordsSkipped": "critical",
    "OutputsExpire": "critical",
    "BrokerAway": "critical",
    "SchemaRegistryAway": "critical",
    "StepsFailing": "warning",
    "SeveralIdentities": "critical",
    "ForeignRecords": "warning",
    "EventLoopBlocked": "warning",
    "FreshnessSLO": "warning",
    "DeadLetters": "warning",
    "DuplicateRatioAnomaly": "warning",
    "CandidateExplosion": "warning",
    "RecoveryStuck": "critical",
    "RebalanceStorm": "warning",
    "StateDiskFillingUp": "critical",
    "TransactionsAborting": "warning",
    "WorkerDown": "critical",
}


def test_every_alert_has_its_tests() -> None:
    fires: set[str] = set()
    rests: set[str] = set()
    for file in RULE_TESTS:
        for test in yaml.safe_load(file.read_text("utf-8"))["tests"]:
            for case in test["alert_rule_test"]:
                (fires if case["exp_alerts"] else rests).add(case["alertname"])
    assert fires == rests == ALERTS.keys()


def test_the_list_of_alerts() -> None:
    assert {rule["alert"]: rule["labels"]["severity"] for rule in alerts()} == ALERTS


def repository() -> str:
    """The address of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["urls"]["Repository"])


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_explains_itself(rule: dict[str, Any]) -> None:
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url"}
    page = f"{repository()}/blob/main/docs/operations.md"
    chosen = f"{{{{ with $externalLabels.runbooks }}}}{{{{ . }}}}{{{{ else }}}}{page}{{{{ end }}}}"
    anchor = rule["alert"].lower()
    assert notes["runbook_url"] == f"{chosen}#{anchor}"
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert anchor in parse_page(text).anchors
    section = text.partition(f"### {rule['alert']}\n")[2].partition("\n#")[0]
    for word in (f"**Means** ({rule['labels']['severity']})", "**Confirm**", "**Do**"):
        assert word in section


@pytest.mark.parametrize(
    "selector",
    [found for rule in rules() for found in selectors(rule["expr"])],
    ids=lambda selector: str(selector.text)[:60],
)
def test_rules_name_what_there_is(selector: Selector) -> None:
    assert trouble_with(selector) is None


@pytest.mark.parametrize(
    ("expression", "trouble"),
    [
        ("rate(firstseen_documents_total[5m])", None),
        ("rate(firstseen_document_total[5m])", "no such metric"),
        ('firstseen_documents_total{verdict="uniq"}', "no verdict"),
        ('firstseen_documents_total{verdict=~"unique|nearby"}', "no verdict"),
        ('firstseen_documents_total{stage="output"}', "no label"),
        ('firstseen_end_to_end_latency_seconds_bucket{le="60"}', "no le"),
        ("firstseen_end_to_end_latency_seconds", "no such metric"),
    ],
)
def test_what_is_not_there_is_found(expression: str, trouble: str | None) -> None:
    (selector,) = selectors(expression)
    found = trouble_with(selector)
    assert found is None if trouble is None else trouble in (found or "")
