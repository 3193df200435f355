"""A worker's metrics over the last minutes: rates and quantiles for the ops page.

The values are read from the registry, so the page and the metrics always agree.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from streams.monitoring.metrics import PREFIX, Labels, Metrics

EVERY_SECONDS: Final = 2.0
_SAMPLES: Final = 151  # five minutes

PROCESS_CPU: Final = "process_cpu_seconds_total"
PROCESS_MEMORY: Final = "process_resident_memory_bytes"

_NAMES: Final = """
documents_total end_to_end_latency_seconds duplicate_distance candidates_per_lookup
log_position_offset log_end_offset undecided_documents undecided_oldest_seconds report_missing
packets_skipped_total control_records_refused_total foreign_records_total in_flight_documents
in_flight_bytes broker_up state_disk_free_bytes state_disk_size_bytes
dead_letters_total errors_total rebalances_total transactions_total
"""
_SUFFIXES: Final = ("", "_total", "_bucket", "_sum", "_count")  # of series, for any metric type


def _series(names: Iterable[str]) -> frozenset[str]:
    families = [name.removesuffix("_total") for name in names]
    return frozenset(family + suffix for family in families for suffix in _SUFFIXES)


_SERIES: Final = _series((PROCESS_CPU, PROCESS_MEMORY, *(PREFIX + n for n in _NAMES.split())))
"""Collecting only these takes a quarter of the time."""

_OF_PARTITIONS: Final = _series(
    (PREFIX + "consumer_lag_messages", PREFIX + "skipped_messages_total")
)
"""These have a series for each raw partition, so only their latest values are read."""


class Sample(NamedTuple):
    """All values at one time (seconds of a monotonic clock), by name and labels."""

    at: float
    values: Mapping[tuple[str, Labels], float]

    def by_label(self, name: str) -> dict[Labels, float]:
        assert name in _SERIES | _OF_PARTITIONS, name
        return {labels: value for (each, labels), value in self.values.items() if each == name}

    def total(self, name: str) -> float:
        return sum(self.by_label(name).values())


class MetricHistory:
    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = metrics.registry
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque([self._read(_SERIES)], maxlen=_SAMPLES)

    def take(self) -> None:
        if self._clock() - self._samples[-1].at >= EVERY_SECONDS:
            sample = self._read(_SERIES)
            with self._lock:
                self._samples.append(sample)

    def samples(self) -> Sequence[Sample]:
        with self._lock:
            return list(self._samples)

    def of_partitions(self) -> Sample:
        """Return the values of now that have a series for each raw partition."""
        return self._read(_OF_PARTITIONS)

    def _read(self, series: Iterable[str]) -> Sample:
        return Sample(
            self._clock(),
            {
                (sample.name, tuple(sample.labels.values())): sample.value
                for family in self._registry.restricted_registry(series).collect()
                for sample in family.samples
            },
        )


def since(samples: Sequence[Sample], seconds: float) -> Sample:
    """Return the latest sample at least ``seconds`` older than the last, or the first one."""
    last = samples[-1].at
    return next((each for each in reversed(samples) if last - each.at >= seconds), samples[0])


def rates(samples: Sequence[Sample], name: str, wanted: Callable[[Labels], bool]) -> list[float]:
    """Return the increase per second of a counter's wanted series, from sample to sample."""
    sums = [
        (each.at, sum(v for labels, v in each.by_label(name).items() if wanted(labels)))
        for each in samples
    ]
    return [max(0.0, (b - a) / (end - begun)) for (begun, a), (end, b) in pairwise(sums)]


def counts(name: str, last: Sample, first: Sample) -> list[tuple[float, float]]:
    """Return each bucket's ``(upper bound, observations)``, not cumulative, since ``first``."""
    cumulative = sorted(
        (float(labels[0]), value - first.values.get((f"{name}_bucket", labels), 0.0))
        for labels, value in last.by_label(f"{name}_bucket").items()
    )
    befores = [0.0, *(value for _, value in cumulative)]
    return [
        (bound, value - before) for (bound, value), before in zip(cumulative, befores, strict=False)
    ]


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return the value below which ``share`` of the observations lie; None without observations.

    It interpolates linearly within a bucket, as Prometheus does; in the last bucket it returns the
    lower bound.
    """
    total = sum(count for _, count in buckets)
    if not total:
        return None
    wanted, below, lower = share * total, 0.0, 0.0
    for bound, count in buckets:
        if count and below + count >= wanted:
            if bound == float("inf"):
                return lower
            return lower + (bound - lower) * (wanted - below) / count
        below += count
        lower = bound
    return lower
