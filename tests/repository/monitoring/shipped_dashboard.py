"""The dashboard of deploy/grafana, as Grafana reads it."""

from __future__ import annotations

import json
from typing import Any

from tests.repository.source_tree import ROOT

GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARD = GRAFANA / "dashboards" / "firstseen.json"


def dashboard() -> dict[str, Any]:
    """All of it."""
    content: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return content


def panels() -> list[dict[str, Any]]:
    """Its panels, rows left out."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions() -> list[tuple[str, str]]:
    """Every query, with the title of its panel."""
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]
