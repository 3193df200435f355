"""What a metric is defined by: its name, type, labels and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

_NO_LABELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class MetricKind(StrEnum):
    """What a metric is, as the text format has it. An info is a gauge at 1 that has labels."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    INFO = "info"


class MetricDefinition(NamedTuple):
    """One metric, by the name under which it is scraped (of a histogram, its series' stem).

    ``help`` stands in the exposition, ``answers`` in the documentation. ``labels`` has the closed
    list of the values of each; an empty one stands for values that are not known beforehand.
    """

    name: str
    kind: MetricKind
    help: str
    answers: str
    labels: Mapping[str, tuple[str, ...]] = _NO_LABELS
    buckets: tuple[float, ...] = ()


UNLISTED: Final[tuple[str, ...]] = ()
"""The values of a label that are not known beforehand."""


def counter(
    name: str, text: str, answers: str, labels: Mapping[str, tuple[str, ...]] = _NO_LABELS
) -> MetricDefinition:
    """Define a counter; ``name`` is without the prefix."""
    return MetricDefinition(f"firstseen_{name}", MetricKind.COUNTER, text, answers, labels)


def gauge(
    name: str, text: str, answers: str, labels: Mapping[str, tuple[str, ...]] = _NO_LABELS
) -> MetricDefinition:
    """Define a gauge; ``name`` is without the prefix."""
    return MetricDefinition(f"firstseen_{name}", MetricKind.GAUGE, text, answers, labels)


def histogram(
    name: str,
    text: str,
    answers: str,
    buckets: tuple[float, ...],
    labels: Mapping[str, tuple[str, ...]] = _NO_LABELS,
) -> MetricDefinition:
    """Define a histogram with these upper bounds; ``name`` is without the prefix."""
    kind = MetricKind.HISTOGRAM
    return MetricDefinition(f"firstseen_{name}", kind, text, answers, labels, buckets)


def info(name: str, text: str, answers: str, *labels: str) -> MetricDefinition:
    """Define an info, whose labels have values of their own; ``name`` is without the prefix."""
    names = dict.fromkeys(labels, UNLISTED)
    return MetricDefinition(f"firstseen_{name}", MetricKind.INFO, text, answers, names)
