"""The metrics of a worker, on its own registry; ``metrics.toml`` explains them."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import product
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import (
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from simhash_core.errors import ErrorReason
from simhash_core.verdicts import RejectionReason
from streams.monitoring.metric_definitions import DEFINED, MetricDefinition, MetricKind
from streams.monitoring.metric_labels import (
    DEAD_LETTER,
    InternalTopic,
    Stage,
    TransactionOutcome,
    named,
    reason_of,
)
from streams.registry.schemas import FetchOutcome

# ---- What the client library lacks.


class TotalsSummary(Collector):
    """Sum and count of batches; the client library's ``Summary`` takes single values."""

    def __init__(self, definition: MetricDefinition, registry: CollectorRegistry) -> None:
        self._definition = definition
        self._sum = 0
        self._count = 0
        self._lock = threading.Lock()
        registry.register(self)

    def add(self, total: int, count: int) -> None:
        with self._lock:
            self._sum += total
            self._count += count

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            total, count = self._sum, self._count
        yield SummaryMetricFamily(
            self._definition.name, self._definition.help, count_value=count, sum_value=total
        )


class BatchHistogram(Collector):
    """A histogram of batches; the client library's takes single values, at a microsecond each."""

    def __init__(self, definition: MetricDefinition, registry: CollectorRegistry) -> None:
        self._definition = definition
        self._bounds = np.array(self._definition.buckets, dtype=np.float64)
        self._counts = np.zeros(len(self._bounds) + 1, dtype=np.int64)
        self._sum = 0.0
        self._lock = threading.Lock()
        registry.register(self)

    def observe(self, values: Collection[float]) -> None:
        if not values:
            return
        array = np.fromiter(values, dtype=np.float64, count=len(values))
        buckets = np.searchsorted(self._bounds, array, side="left")
        counts = np.bincount(buckets, minlength=len(self._counts))
        with self._lock:
            self._counts += counts
            self._sum += float(array.sum())

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            cumulative, total = np.cumsum(self._counts).tolist(), self._sum
        bounds = [*self._definition.buckets, float("inf")]
        text: Callable[[float], str] = floatToGoString
        buckets = [(text(bound), count) for bound, count in zip(bounds, cumulative, strict=True)]
        yield HistogramMetricFamily(
            self._definition.name, self._definition.help, buckets=buckets, sum_value=total
        )


class PartitionGauge(Collector):
    """A gauge whose series come and go, as of assigned partitions."""

    def __init__(self, definition: MetricDefinition, registry: CollectorRegistry) -> None:
        self._definition = definition
        self._series: dict[tuple[str, ...], float] = {}
        registry.register(self)

    def replace(self, series: Mapping[tuple[str, ...], float]) -> None:
        self._series = dict(series)

    def set(self, labels: tuple[str, ...], value: float) -> None:
        self._series[labels] = value

    def labels(self) -> list[tuple[str, ...]]:
        return list(self._series.copy())

    def remove(self, labels: tuple[str, ...]) -> None:
        self._series.pop(labels, None)

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            self._definition.name, self._definition.help, labels=list(self._definition.labels)
        )
        for labels, value in sorted(self._series.copy().items()):
            family.add_metric(labels, value)
        yield family


# ---- From definitions to metrics, with every series at 0.

Labels: TypeAlias = tuple[str, ...]


class MetricFamilies:
    """All metrics of ``metrics.toml`` but the infos, by name, on one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.gauges: dict[str, Gauge] = {}
        self.series: dict[str, PartitionGauge] = {}
        self.counters: dict[str, dict[Labels, Counter]] = {}
        self.histograms: dict[str, BatchHistogram] = {}
        self.timers: dict[str, dict[Labels, Histogram]] = {}
        self.summaries: dict[str, TotalsSummary] = {}
        for name, definition in DEFINED.items():
            self._make(name, definition)

    def _make(self, name: str, definition: MetricDefinition) -> None:
        full, text, labels = definition.name, definition.help, list(definition.labels)
        match definition.kind:
            case MetricKind.GAUGE if labels:
                self.series[name] = PartitionGauge(definition, self.registry)
            case MetricKind.GAUGE:
                self.gauges[name] = Gauge(full, text, registry=self.registry)
            case MetricKind.COUNTER:
                counter = Counter(full, text, labels, registry=self.registry)
                self.counters[name] = _children(counter, definition)
            case MetricKind.HISTOGRAM if labels:
                timer = Histogram(
                    full, text, labels, buckets=definition.buckets, registry=self.registry
                )
                self.timers[name] = _children(timer, definition)
            case MetricKind.HISTOGRAM:
                self.histograms[name] = BatchHistogram(definition, self.registry)
            case MetricKind.SUMMARY:
                self.summaries[name] = TotalsSummary(definition, self.registry)

    def info(self, name: str, values: Mapping[str, str]) -> None:
        definition = DEFINED[name]
        assert values.keys() == definition.labels.keys()
        info = Info(definition.name.removesuffix("_info"), definition.help, registry=self.registry)
        info.info(dict(values))

    def set(self, name: str, value: float) -> None:
        self.gauges[name].set(value)

    def count(self, name: str, amount: float = 1, *labels: str) -> None:
        """Count; raise ``KeyError`` for labels that are not in the list."""
        self.counters[name][labels].inc(amount)

    def observe(self, name: str, values: Collection[float]) -> None:
        self.histograms[name].observe(values)


_Family = TypeVar("_Family", bound=MetricWrapperBase)


def _children(family: _Family, definition: MetricDefinition) -> dict[Labels, _Family]:
    """Create every labelled series: an alert does not see one that first appears at 1.

    Without labels, or with values that are not known beforehand, return the family under ``()``.
    """
    if not definition.labels or () in definition.labels.values():
        return {(): family}
    return {labels: family.labels(*labels) for labels in product(*definition.labels.values())}


CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

STORE_FIGURES: Final[Mapping[str, str]] = {
    "files_bytes": "store_bytes",
    "memtable_bytes": "rocksdb_memtable_bytes",
    "table_reader_bytes": "rocksdb_table_reader_bytes",
    "pending_compaction_bytes": "rocksdb_pending_compaction_bytes",
    "running_compactions": "rocksdb_running_compactions",
    "level0_files": "rocksdb_level0_files",
    "stopped_shards": "rocksdb_stopped_shards",
    "background_errors": "rocksdb_background_errors",
    "cache_bytes": "rocksdb_block_cache_bytes",
    "cache_pinned_bytes": "rocksdb_block_cache_pinned_bytes",
    "cache_capacity_bytes": "rocksdb_block_cache_capacity_bytes",
}
"""Metrics by the figures of ``streams.store.rocksdb_store.statistics_of``."""

_MILLISECONDS: Final = 1000
_BITS_LIMIT: Final = 512


class IndexInfo(NamedTuple):
    """The labels of ``firstseen_index_info``; ``identity`` is the short name."""

    identity: str = ""
    application_id: str = ""
    profile: str = ""
    delivery: str = ""
    mode: str = ""


class Metrics:
    """All metrics of one worker; thread-safe."""

    def __init__(
        self, registry: CollectorRegistry | None = None, *, index: IndexInfo | None = None
    ) -> None:
        """Without ``registry``, a new one also has the metrics of the process."""
        # A setting of the process: otherwise each counter has a second series, its time of
        # creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        if registry is None:
            # With names, so that ``metric_history`` can collect some metrics only.
            registry = CollectorRegistry(auto_describe=True)
            ProcessCollector(registry=registry)
        self.registry = registry
        self.distance_counts = [0] * (_BITS_LIMIT + 1)
        """Duplicates by distance in bits; the metric's buckets are wider."""
        self._lock = threading.Lock()
        self._recovering: dict[int, int] = {}
        self._newest_ms = 0
        families = self._families = MetricFamilies(registry)
        families.info("index_info", (index or IndexInfo())._asdict())
        build = {"version": version("firstseen"), "python_version": platform.python_version()}
        families.info("build_info", build)
        self._set, self._count = families.set, families.count
        self._observe = families.observe
        self._documents = families.series["store_documents"]
        self._waiting = families.series["waiting_documents"]

    def exposition(self) -> bytes:
        return generate_latest(self.registry)

    # ---- Records, verdicts, outputs.

    def input_bytes(self, size_bytes: int) -> None:
        self._count("input_bytes_total", size_bytes)

    def verdict(self, name: str, documents: int = 1) -> None:
        self._count("documents_total", documents, name)

    def verdicts(self, documents: Mapping[str, int]) -> None:
        """Count documents by their verdict, of ``VERDICT_NAMES``."""
        for name, count in documents.items():
            self.verdict(name, count)

    def dead_letter(self, reason: RejectionReason) -> None:
        self._count("dead_letters_total", 1, reason)
        self.verdict(DEAD_LETTER)

    def expired_output(self, output: str) -> None:
        """Count a record that its topic deletes soon; ``output`` is of ``OUTPUTS``."""
        self._count("expired_outputs_total", 1, output)

    def last_record(self, timestamp_ms: int) -> None:
        with self._lock:
            self._newest_ms = max(self._newest_ms, timestamp_ms)
            self._set("last_record_timestamp_seconds", self._newest_ms / _MILLISECONDS)

    def latencies(self, seconds: Sequence[float]) -> None:
        """Observe latencies; a negative one, from clocks that disagree, counts as 0."""
        self._observe("end_to_end_latency_seconds", [max(0.0, each) for each in seconds])

    # ---- The index: look-ups, buckets, distances.

    def candidates(self, count: int, lookups: int) -> None:
        self._families.summaries["candidates_per_lookup"].add(count, lookups)

    def distances(self, bits: Sequence[int]) -> None:
        self._observe("duplicate_distance", bits)
        for each in bits:
            self.distance_counts[each] += 1

    def bucket_documents(self, sizes: Collection[int]) -> None:
        self._observe("bucket_documents", sizes)

    # ---- The log, its leader, and documents in flight.

    def log_position(self, position: int, end: int) -> None:
        self._set("log_position_offset", position)
        self._set("log_end_offset", max(position, end))

    def undecided(self, documents: int, oldest_seconds: float) -> None:
        self._set("undecided_documents", documents)
        self._set("undecided_oldest_seconds", oldest_seconds if documents else 0)

    def leader(self, is_leader: bool) -> None:  # noqa: FBT001 - the one thing that it says
        """A worker that does not lead waits for no report."""
        self._set("leader", is_leader)
        if not is_leader:
            self.reports_missing(())

    def reports_missing(self, shards: Collection[int]) -> None:
        missing = self._families.series["report_missing"]
        missing.replace({(str(shard),): 1 for shard in shards})

    def control_refused(self, records: int = 1) -> None:
        self._count("control_records_refused_total", records)

    def packet_skipped(self, packets: int = 1) -> None:
        self._count("packets_skipped_total", packets)

    def foreign_record(self, topic: str) -> None:
        """``topic`` is of ``InternalTopic``."""
        self._count("foreign_records_total", 1, named(InternalTopic, topic))

    def in_flight(self, documents: int, size_bytes: int) -> None:
        self._set("in_flight_documents", documents)
        self._set("in_flight_bytes", size_bytes)

    def internal_bytes(self, topic: str, size_bytes: int) -> None:
        self._count("internal_bytes_total", size_bytes, named(InternalTopic, topic))

    def transaction(self, outcome: TransactionOutcome) -> None:
        self._count("transactions_total", 1, outcome)

    # ---- The worker's shards.

    def assigned_shards(self, shards: int) -> None:
        with self._lock:
            if shards == 0:
                self._documents.replace({})
                self._waiting.replace({})
                self._recovering.clear()
                self._set("recovery_remaining_messages", 0)
            self._set("assigned_shards", shards)

    def shard_state(self, partition: int, entries: int, waiting: int) -> None:
        self._documents.set((str(partition),), entries)
        self._waiting.set((str(partition),), waiting)

    def forget_shard(self, partition: int) -> None:
        self._documents.remove((str(partition),))
        self._waiting.remove((str(partition),))
        self.recovery_remaining(partition, 0)

    def open_shards(self, entries: Mapping[int, int]) -> None:
        """Replace the open shards; one without outputs does not report its state itself."""
        noted = {int(partition) for (partition,) in self._documents.labels()}
        for partition in noted - entries.keys():
            self.forget_shard(partition)
        for partition in entries.keys() - noted:
            self.shard_state(partition, entries[partition], waiting=0)

    def removed(self, deletes: int, deleted: int, expired: int) -> None:
        self._count("deletes_total", deletes)
        self._count("removed_entries_total", deleted, "deleted")
        self._count("removed_entries_total", expired, "expired")

    def window(self, oldest_ms: int | None, watermark_ms: int | None) -> None:
        """Set the oldest entry's time and the watermark; 0 for none or before 1970."""
        self._set("oldest_entry_timestamp_seconds", max(0, oldest_ms or 0) / _MILLISECONDS)
        self._set("watermark_timestamp_seconds", max(0, watermark_ms or 0) / _MILLISECONDS)

    def recovery_remaining(self, partition: int, messages: int) -> None:
        with self._lock:
            self._recovering[partition] = messages
            self._set("recovery_remaining_messages", sum(self._recovering.values()))

    def recovered(self, seconds: float) -> None:
        self._observe("recovery_duration_seconds", (seconds,))

    def opening_shards(self, shards: int) -> None:
        self._set("opening_shards", shards)

    def standbys(self, shards: int, lag: int) -> None:
        self._set("standby_shards", shards)
        self._set("standby_lag_messages", lag)

    def store(self, figures: Mapping[str, int]) -> None:
        for name, figure in figures.items():
            self._set(STORE_FIGURES[name], figure)

    def state_disk(self, free_bytes: int, size_bytes: int) -> None:
        self._set("state_disk_free_bytes", free_bytes)
        self._set("state_disk_size_bytes", size_bytes)

    # ---- The group, the broker, the registry.

    def lag(self, messages: Mapping[tuple[str, int], int]) -> None:
        lags = self._families.series["consumer_lag_messages"]
        lags.replace({(topic, str(part)): lag for (topic, part), lag in messages.items()})

    def watched(self, topic: str, partition: int) -> None:
        """Begin to count skipped offsets of a raw partition, at 0."""
        self.skipped(topic, partition, 0)

    def skipped(self, topic: str, partition: int, offsets: int) -> None:
        counters = self._families.counters["skipped_messages_total"]
        counters[()].labels(topic, str(partition)).inc(offsets)

    def stalled_partitions(self, partitions: int) -> None:
        self._set("stalled_partitions", partitions)

    def broker_up(self, *, up: bool) -> None:
        self._set("broker_up", up)

    def open_transaction(self, seconds: float) -> None:
        """Set for how long the oldest transaction has been open; 0 for none."""
        self._set("open_transaction_seconds", seconds)

    def rebalance(self) -> None:
        self._count("rebalances_total")

    def registry_waiting(self, *, waiting: bool) -> None:
        self._set("registry_waiting", waiting)

    def schema_fetch(self, outcome: FetchOutcome) -> None:
        self._count("schema_fetches_total", 1, outcome)

    # ---- Steps, their time and their failures.

    def event_loop_lag(self, seconds: Collection[float]) -> None:
        self._observe("event_loop_lag_seconds", seconds)

    def error(self, stage: str, reason: str) -> None:
        """Count a failure; raise ``UnknownNameError`` unless of ``Stage`` and ``ErrorReason``."""
        self._count("errors_total", 1, named(Stage, stage), named(ErrorReason, reason))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a batch in a step of ``Stage``, and count its failure.

        CPU time is that of the calling thread, so a coroutine must not wait inside: see
        ``waiting``. Raises ``UnknownNameError``.
        """
        stage = named(Stage, name)
        started = time.thread_time()
        try:
            with self.waiting(name):
                yield
        finally:
            self._count("stage_cpu_seconds_total", time.thread_time() - started, stage)

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Like ``stage``, without CPU time, for a step that waits for others."""
        duration = self._families.timers["stage_duration_seconds"][(named(Stage, name),)]
        started = time.perf_counter()
        try:
            with self.failures(name):
                yield
        finally:
            duration.observe(time.perf_counter() - started)

    @contextmanager
    def failures(self, stage: str) -> Iterator[None]:
        """Count failures inside, but not an ``InterruptedError``."""
        try:
            yield
        except InterruptedError:
            raise
        except Exception as error:
            self.error(stage, reason_of(error))
            raise
