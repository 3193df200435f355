"""What a dashboard is made of: rows of panels, with titles, descriptions, units and queries.

Queries go by the variables ``$job`` and ``$instance``; what recording rules made has a job alone.
Rates are over ``$__rate_interval``, which Grafana fits to the time shown and the scrape interval.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """How a panel draws, by Grafana's names."""

    STAT = "stat"
    LINES = "timeseries"
    HEATMAP = "heatmap"
    BARS = "bargauge"
    TABLE = "table"


class Query(NamedTuple):
    """An expression, and the name of its series."""

    expression: str
    legend: str = ""


class Panel(NamedTuple):
    """One panel; ``unit`` is Grafana's id of it. ``red_from``: values from there on are trouble."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = Kind.LINES
    width: int = 8
    stacked: bool = False
    red_from: float | None = None


class Row(NamedTuple):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


OF: Final = 'job=~"$job", instance=~"$instance"'
RATE: Final = "[$__rate_interval]"


def rate(metric: str, by: str = "", matchers: str = "") -> str:
    """A rate summed over workers."""
    over = f" by ({by}) " if by else ""
    more = f", {matchers}" if matchers else ""
    return f"sum{over}(rate({metric}{{{OF}{more}}}{RATE}))"


def total(metric: str, by: str = "") -> str:
    """A gauge summed over workers."""
    over = f" by ({by}) " if by else ""
    return f"sum{over}({metric}{{{OF}}})"


def each(metric: str) -> str:
    """A gauge of each worker."""
    return f"{metric}{{{OF}}}"


def quantile(part: float, metric: str) -> str:
    """A quantile of a histogram, over all workers."""
    return f"histogram_quantile({part}, {rate(f'{metric}_bucket', 'le')})"


def recorded(name: str) -> str:
    """What a recording rule made, of a job."""
    return f'{name}{{job=~"$job"}}'
