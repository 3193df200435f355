"""Writes ``dashboards/firstseen.json``: ``python -m deploy.grafana.generate``, or make dashboard.

Grafana is given the JSON; a test holds it to what this would write.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from deploy.grafana import flow_rows, ordering_rows, state_rows
from deploy.grafana.panels import OF, Kind, Panel, Row

DASHBOARD: Final = Path(__file__).resolve().parent / "dashboards" / "firstseen.json"
ROWS: Final[tuple[Row, ...]] = (
    *flow_rows.FLOW,
    *ordering_rows.ROWS,
    *flow_rows.QUALITY_ROWS,
    *state_rows.ROWS,
)

RUNBOOKS: Final = "https://github.com/firstseen/firstseen/blob/main/docs/operations.md"
_LINKS: Final[list[dict[str, Any]]] = [
    {
        "title": title,
        "type": "link",
        "icon": icon,
        "url": url,
        "targetBlank": True,
        "tooltip": tooltip,
    }
    for title, icon, url, tooltip in (
        ("Runbooks", "doc", "${runbooks}", "What each alert means, and what to do"),
        ("Alerts", "bolt", "/alerting/list?search=firstseen", "Which alerts fire now"),
    )
]
_OPS_PAGE: Final = {
    "title": "Ops page of ${__field.labels.instance}",
    "url": "http://${__field.labels.instance}/",
    "targetBlank": True,
}
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24
_HEIGHTS: Final = {Kind.STAT: 4}
_HEIGHT: Final = 8
_BUCKETS: Final = frozenset({Kind.HEATMAP, Kind.BARS})
_INSTANT: Final = frozenset({Kind.BARS, Kind.TABLE})
_HIDDEN: Final = ("Time", "Value", "__name__", "job")


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana takes it."""
    return {
        "uid": "firstseen",
        "title": "Firstseen",
        "description": "Workers of Firstseen: what they do, how late, how well, and on what.",
        "tags": ["firstseen"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables()},
        "annotations": {"list": list(_annotations())},
        "links": _LINKS,
        "panels": list(_panels()),
    }


def _variables() -> list[dict[str, Any]]:
    variables: list[dict[str, Any]] = [
        {
            "name": "datasource",
            "label": "Prometheus",
            "description": "Where the figures are",
            "type": "datasource",
            "query": "prometheus",
        },
        {
            "name": "runbooks",
            "label": "Runbooks",
            "description": "The address of docs/operations.md where you read it",
            "type": "textbox",
            "query": RUNBOOKS,
            "current": {"text": RUNBOOKS, "value": RUNBOOKS},
            "hide": 2,
        },
    ]
    for name, label, query in (
        ("job", "Job", "label_values(firstseen_build_info, job)"),
        ("instance", "Worker", 'label_values(firstseen_build_info{job=~"$job"}, instance)'),
    ):
        variables.append(
            {
                "name": name,
                "label": label,
                "type": "query",
                "datasource": _SOURCE,
                "query": {"query": query, "refId": name},
                "refresh": 2,
                "sort": 1,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            }
        )
    return variables


def _annotations() -> Iterator[dict[str, Any]]:
    """Yield the events that are marked in all panels over time."""
    for name, colour, expression, text_format in (
        (
            "Rebalances",
            "orange",
            f"changes(firstseen_rebalances_total{{{OF}}}[1m]) > 0",
            "{{instance}} was assigned partitions",
        ),
        (
            "Leaders",
            "blue",
            f"changes(firstseen_leader{{{OF}}}[1m]) > 0 and firstseen_leader{{{OF}}} == 1",
            "{{instance}} leads",
        ),
    ):
        yield {
            "name": name,
            "datasource": _SOURCE,
            "enable": True,
            "iconColor": colour,
            "target": {"refId": "Anno", "expr": expression, "interval": "60s"},
            "titleFormat": name,
            "textFormat": text_format,
            "tagKeys": "job",
        }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in ROWS:
        number += 1
        position = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": position,
            "panels": [],
        }
        top += 1
        left = height = 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                top, left, height = top + height, 0, 0
            number += 1
            position = {"x": left, "y": top, "w": panel.width, "h": _height(panel)}
            yield {"id": number, "gridPos": position, **_panel(panel)}
            left, height = left + panel.width, max(height, _height(panel))
        top += height


def _height(panel: Panel) -> int:
    return _HEIGHTS.get(panel.kind, _HEIGHT)


def _panel(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    definition: dict[str, Any] = {
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "format": _format(panel.kind),
                "instant": panel.kind in _INSTANT,
                "range": panel.kind not in _INSTANT,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
    if any("{{instance}}" in query.legend for query in panel.queries):
        definition["fieldConfig"]["defaults"]["links"] = [_OPS_PAGE]
    return definition | _drawn(panel, definition["fieldConfig"]["defaults"])


def _format(kind: Kind) -> str:
    if kind in _BUCKETS:
        return "heatmap"
    return "table" if kind is Kind.TABLE else "time_series"


def _drawn(panel: Panel, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the panel's kind; those of its fields go into ``defaults``."""
    match panel.kind:
        case Kind.LINES:
            defaults["custom"] = {
                "lineWidth": 1,
                "fillOpacity": 30 if panel.stacked else 5,
                "showPoints": "never",
                "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "off" if panel.red_from is None else "line"},
            }
            return {
                "options": {
                    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                    "tooltip": {"mode": "multi", "sort": "desc"},
                }
            }
        case Kind.STAT:
            return {
                "options": {
                    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                    "colorMode": "value",
                    "graphMode": "area",
                }
            }
        case Kind.HEATMAP:
            return {
                "options": {
                    "calculate": False,
                    "yAxis": {"unit": panel.unit},
                    "color": {"mode": "scheme", "scheme": "Blues", "steps": 64},
                    "cellGap": 1,
                    "tooltip": {"mode": "single"},
                }
            }
        case Kind.BARS:
            return {
                "options": {
                    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                    "displayMode": "basic",
                    "orientation": "vertical",
                }
            }
        case Kind.TABLE:
            hide = dict.fromkeys(_HIDDEN, True)
            return {
                "options": {"showHeader": True, "cellHeight": "sm"},
                "transformations": [{"id": "organize", "options": {"excludeByName": hide}}],
            }


def text() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write it."""
    DASHBOARD.write_text(text(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
