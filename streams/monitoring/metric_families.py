"""From definitions to what the client library exposes: each on the registry, every series at 0."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product
from typing import TypeVar

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import (
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from streams.monitoring.metric_types import MetricDefinition, MetricKind

_Family = TypeVar("_Family", bound=MetricWrapperBase)


def counter(definition: MetricDefinition, registry: CollectorRegistry) -> Counter:
    """Return a counter with all its series."""
    assert definition.kind is MetricKind.COUNTER
    family = Counter(definition.name, definition.help, list(definition.labels), registry=registry)
    return _begun(family, definition)


def gauge(definition: MetricDefinition, registry: CollectorRegistry) -> Gauge:
    """Return a gauge without labels."""
    assert definition.kind is MetricKind.GAUGE
    assert not definition.labels
    return Gauge(definition.name, definition.help, registry=registry)


def histogram(definition: MetricDefinition, registry: CollectorRegistry) -> Histogram:
    """Return a histogram with all its series."""
    assert definition.kind is MetricKind.HISTOGRAM
    family = Histogram(
        definition.name,
        definition.help,
        list(definition.labels),
        buckets=definition.buckets,
        registry=registry,
    )
    return _begun(family, definition)


def info(
    definition: MetricDefinition, registry: CollectorRegistry, values: Mapping[str, str]
) -> None:
    """Expose values that do not change, one for each label."""
    assert definition.kind is MetricKind.INFO
    assert values.keys() == definition.labels.keys()
    name = definition.name.removesuffix("_info")
    Info(name, definition.help, registry=registry).info(dict(values))


def _begun(family: _Family, definition: MetricDefinition) -> _Family:
    """Begin every series, where there are labels: one that appears at 1 is a rise nobody sees."""
    if definition.labels:
        for values in product(*definition.labels.values()):
            family.labels(*values)
    return family


class TotalsSummary(Collector):
    """Sum and count, which together give the mean over any time.

    For values of which only the total of a batch is known: the client library's ``Summary`` takes
    one at a time.
    """

    def __init__(self, definition: MetricDefinition, registry: CollectorRegistry) -> None:
        """Begin at 0."""
        assert definition.kind is MetricKind.SUMMARY
        self._definition = definition
        self._sum = 0
        self._count = 0
        self._lock = threading.Lock()
        registry.register(self)

    def add(self, total: int, count: int) -> None:
        """Note ``count`` values that come to ``total``."""
        with self._lock:
            self._sum += total
            self._count += count

    def collect(self) -> Iterator[Metric]:
        """Give both."""
        with self._lock:
            total, count = self._sum, self._count
        yield SummaryMetricFamily(
            self._definition.name, self._definition.help, count_value=count, sum_value=total
        )


class BatchHistogram(Collector):
    """A histogram that takes a batch of values at once.

    The client library's takes one at a time, at a microsecond each.
    """

    def __init__(self, definition: MetricDefinition, registry: CollectorRegistry) -> None:
        """Begin at 0."""
        assert definition.kind is MetricKind.HISTOGRAM
        assert not definition.labels
        self._definition = definition
        self._bounds = np.array(definition.buckets, dtype=np.float64)
        self._counts = np.zeros(len(definition.buckets) + 1, dtype=np.int64)
        self._sum = 0.0
        self._lock = threading.Lock()
        registry.register(self)

    def observe(self, values: Collection[float]) -> None:
        """Note values, of which none may be NaN."""
        if not values:
            return
        array = np.fromiter(values, dtype=np.float64, count=len(values))
        buckets = np.searchsorted(self._bounds, array, side="left")
        counts = np.bincount(buckets, minlength=len(self._counts))
        with self._lock:
            self._counts += counts
            self._sum += float(array.sum())

    def collect(self) -> Iterator[Metric]:
        """Give the cumulative counts by upper bound, and the sum."""
        with self._lock:
            cumulative, total = np.cumsum(self._counts).tolist(), self._sum
        bounds = [*self._definition.buckets, float("inf")]
        name: Callable[[float], str] = floatToGoString
        buckets = [(name(bound), count) for bound, count in zip(bounds, cumulative, strict=True)]
        yield HistogramMetricFamily(
            self._definition.name, self._definition.help, buckets=buckets, sum_value=total
        )


class PartitionGauge(Collector):
    """A gauge whose series come and go, such as those of the partitions assigned."""

    def __init__(self, definition: MetricDefinition, registry: CollectorRegistry) -> None:
        """Begin without series."""
        assert definition.kind is MetricKind.GAUGE
        self._definition = definition
        self._series: dict[tuple[str, ...], float] = {}
        registry.register(self)

    def replace(self, series: Mapping[tuple[str, ...], float]) -> None:
        """Take these values, by label values, in place of all that there were."""
        self._series = dict(series)

    def set(self, labels: tuple[str, ...], value: float) -> None:
        """Set the value of one series."""
        self._series[labels] = value

    def labels(self) -> list[tuple[str, ...]]:
        """Return the label values of all series."""
        return list(self._series.copy())

    def remove(self, labels: tuple[str, ...]) -> None:
        """Remove one series, if it is there."""
        self._series.pop(labels, None)

    def collect(self) -> Iterator[Metric]:
        """Give all series."""
        family = GaugeMetricFamily(
            self._definition.name, self._definition.help, labels=list(self._definition.labels)
        )
        for labels, value in sorted(self._series.copy().items()):
            family.add_metric(labels, value)
        yield family
