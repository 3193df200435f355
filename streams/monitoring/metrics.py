"""The metrics of a worker, on its own registry; ``metric_definitions`` explains them."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import product
from typing import Final, NamedTuple, TypeVar

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
from streams.monitoring.metric_definitions import MetricDefinition, MetricKind, defined
from streams.monitoring.metric_labels import (
    DEAD_LETTER,
    InternalTopic,
    Stage,
    TransactionOutcome,
    named,
    reason_of,
)
from streams.registry.schemas import FetchOutcome

# ---- From definitions to the client library's metrics, with every series at 0.

_Family = TypeVar("_Family", bound=MetricWrapperBase)


def counter(name: str, registry: CollectorRegistry) -> Counter:
    definition = defined(name, MetricKind.COUNTER)
    family = Counter(definition.name, definition.help, list(definition.labels), registry=registry)
    return _begun(family, definition)


def counters(name: str, registry: CollectorRegistry) -> dict[str, Counter]:
    """Return the counters of a metric with one label, by its values."""
    family = counter(name, registry)
    (values,) = defined(name, MetricKind.COUNTER).labels.values()
    return {value: family.labels(value) for value in values}


def gauge(name: str, registry: CollectorRegistry) -> Gauge:
    definition = defined(name, MetricKind.GAUGE)
    assert not definition.labels
    return Gauge(definition.name, definition.help, registry=registry)


def histogram(name: str, registry: CollectorRegistry) -> Histogram:
    definition = defined(name, MetricKind.HISTOGRAM)
    family = Histogram(
        definition.name,
        definition.help,
        list(definition.labels),
        buckets=definition.buckets,
        registry=registry,
    )
    return _begun(family, definition)


def info(name: str, registry: CollectorRegistry, values: Mapping[str, str]) -> None:
    definition = defined(name, MetricKind.INFO)
    assert values.keys() == definition.labels.keys()
    Info(definition.name.removesuffix("_info"), definition.help, registry=registry).info(
        dict(values)
    )


def _begun(family: _Family, definition: MetricDefinition) -> _Family:
    """Create every labelled series: an alert does not see one that first appears at 1."""
    if definition.labels:
        for values in product(*definition.labels.values()):
            family.labels(*values)
    return family


class TotalsSummary(Collector):
    """Sum and count of batches; the client library's ``Summary`` takes single values."""

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        self._definition = defined(name, MetricKind.SUMMARY)
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

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        self._definition = defined(name, MetricKind.HISTOGRAM)
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

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        self._definition = defined(name, MetricKind.GAUGE)
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


# ---- The metrics of the log, its leader, and documents in flight.


class OrderingMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._log_position = gauge("log_position_offset", registry)
        self._log_end = gauge("log_end_offset", registry)
        self._undecided_documents = gauge("undecided_documents", registry)
        self._undecided_age = gauge("undecided_oldest_seconds", registry)
        self._leader = gauge("leader", registry)
        self._report_missing = PartitionGauge("report_missing", registry)
        self._control_refused = counter("control_records_refused_total", registry)
        self._packets_skipped = counter("packets_skipped_total", registry)
        self._in_flight_documents = gauge("in_flight_documents", registry)
        self._in_flight_bytes = gauge("in_flight_bytes", registry)
        self._internal_bytes = counters("internal_bytes_total", registry)
        self._foreign = counters("foreign_records_total", registry)

    def log_position(self, position: int, end: int) -> None:
        self._log_position.set(position)
        self._log_end.set(max(position, end))

    def undecided(self, documents: int, oldest_seconds: float) -> None:
        self._undecided_documents.set(documents)
        self._undecided_age.set(oldest_seconds if documents else 0)

    def leader(self, is_leader: bool) -> None:  # noqa: FBT001 - the one thing that it says
        """A worker that does not lead waits for no report."""
        self._leader.set(is_leader)
        if not is_leader:
            self.reports_missing(())

    def reports_missing(self, shards: Collection[int]) -> None:
        self._report_missing.replace({(str(shard),): 1 for shard in shards})

    def control_refused(self, records: int = 1) -> None:
        self._control_refused.inc(records)

    def packet_skipped(self, packets: int = 1) -> None:
        self._packets_skipped.inc(packets)

    def foreign_record(self, topic: str) -> None:
        """``topic`` is of ``InternalTopic``."""
        self._foreign[named(InternalTopic, topic)].inc()

    def in_flight(self, documents: int, size_bytes: int) -> None:
        self._in_flight_documents.set(documents)
        self._in_flight_bytes.set(size_bytes)

    def internal_bytes(self, topic: str, size_bytes: int) -> None:
        self._internal_bytes[named(InternalTopic, topic)].inc(size_bytes)


# ---- The metrics of a worker's shards.

_MILLISECONDS: Final = 1000

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
"""Metrics by the fields of ``streams.store.rocksdb_store.StoreStatistics``."""


class ShardMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()
        self._recovering: dict[int, int] = {}
        self._store_documents = PartitionGauge("store_documents", registry)
        self._waiting_documents = PartitionGauge("waiting_documents", registry)
        self._deletes = counter("deletes_total", registry)
        self._removed = counters("removed_entries_total", registry)
        self._oldest_entry = gauge("oldest_entry_timestamp_seconds", registry)
        self._watermark = gauge("watermark_timestamp_seconds", registry)
        self._store_figures = {
            figure: gauge(name, registry) for figure, name in STORE_FIGURES.items()
        }
        self._disk_free = gauge("state_disk_free_bytes", registry)
        self._disk_size = gauge("state_disk_size_bytes", registry)
        self._assigned_shards = gauge("assigned_shards", registry)
        self._opening_shards = gauge("opening_shards", registry)
        self._standby_shards = gauge("standby_shards", registry)
        self._standby_lag = gauge("standby_lag_messages", registry)
        self._recovery_remaining = gauge("recovery_remaining_messages", registry)
        self._recovery_duration = BatchHistogram("recovery_duration_seconds", registry)

    def assigned_shards(self, shards: int) -> None:
        with self._lock:
            if shards == 0:
                self._store_documents.replace({})
                self._waiting_documents.replace({})
                self._recovering.clear()
                self._recovery_remaining.set(0)
            self._assigned_shards.set(shards)

    def shard_state(self, partition: int, entries: int, waiting: int) -> None:
        self._store_documents.set((str(partition),), entries)
        self._waiting_documents.set((str(partition),), waiting)

    def removed(self, deletes: int, deleted: int, expired: int) -> None:
        self._deletes.inc(deletes)
        self._removed["deleted"].inc(deleted)
        self._removed["expired"].inc(expired)

    def window(self, oldest_ms: int | None, watermark_ms: int | None) -> None:
        """Set the oldest entry's time and the watermark; 0 for none or before 1970."""
        self._oldest_entry.set(max(0, oldest_ms or 0) / _MILLISECONDS)
        self._watermark.set(max(0, watermark_ms or 0) / _MILLISECONDS)

    def forget_shard(self, partition: int) -> None:
        self._store_documents.remove((str(partition),))
        self._waiting_documents.remove((str(partition),))
        self.recovery_remaining(partition, 0)

    def open_shards(self, entries: Mapping[int, int]) -> None:
        """Replace the open shards; one without outputs does not report its state itself."""
        noted = {int(partition) for (partition,) in self._store_documents.labels()}
        for partition in noted - entries.keys():
            self.forget_shard(partition)
        for partition in entries.keys() - noted:
            self.shard_state(partition, entries[partition], waiting=0)

    def recovery_remaining(self, partition: int, messages: int) -> None:
        with self._lock:
            self._recovering[partition] = messages
            self._recovery_remaining.set(sum(self._recovering.values()))

    def opening_shards(self, shards: int) -> None:
        self._opening_shards.set(shards)

    def standbys(self, shards: int, lag: int) -> None:
        self._standby_shards.set(shards)
        self._standby_lag.set(lag)

    def recovered(self, seconds: float) -> None:
        self._recovery_duration.observe((seconds,))

    def store(self, figures: Mapping[str, int]) -> None:
        for name, figure in figures.items():
            self._store_figures[name].set(figure)

    def state_disk(self, free_bytes: int, size_bytes: int) -> None:
        self._disk_free.set(free_bytes)
        self._disk_size.set(size_bytes)


CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


_BITS_LIMIT: Final = 512


class IndexInfo(NamedTuple):
    """The labels of ``firstseen_index_info``; ``identity`` is the short name."""

    identity: str = ""
    application_id: str = ""
    profile: str = ""
    delivery: str = ""
    mode: str = ""


class Metrics(OrderingMetrics, ShardMetrics):
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
        OrderingMetrics.__init__(self, registry)
        ShardMetrics.__init__(self, registry)
        self.registry = registry
        self._newest_lock = threading.Lock()
        self._newest_ms = 0

        self._input_bytes = counter("input_bytes_total", registry)
        self._skipped = counter("skipped_messages_total", registry)
        self._lag = PartitionGauge("consumer_lag_messages", registry)
        self._stalled_partitions = gauge("stalled_partitions", registry)
        self._broker_up = gauge("broker_up", registry)
        self._open_transaction = gauge("open_transaction_seconds", registry)
        self._last_record = gauge("last_record_timestamp_seconds", registry)
        self._latency = BatchHistogram("end_to_end_latency_seconds", registry)
        self._event_loop_lag = histogram("event_loop_lag_seconds", registry)
        self._candidates = TotalsSummary("candidates_per_lookup", registry)
        self._distance = BatchHistogram("distance_bits", registry)
        self.distance_counts = [0] * (_BITS_LIMIT + 1)
        """Duplicates by distance in bits; the metric's buckets are wider."""
        self._bucket_documents = BatchHistogram("bucket_documents", registry)
        self._rebalances = counter("rebalances_total", registry)
        self._registry_waiting = gauge("registry_waiting", registry)
        info("index_info", registry, (index or IndexInfo())._asdict())
        build = {"version": version("firstseen"), "python_version": platform.python_version()}
        info("build_info", registry, build)

        self._by_verdict = counters("documents_total", registry)
        self._by_rejection = counters("dead_letters_total", registry)
        stages = histogram("stage_duration_seconds", registry)
        self._stage_cpu = counters("stage_cpu_seconds_total", registry)
        self._expired_by_output = counters("expired_outputs_total", registry)
        self._by_fetch = counters("schema_fetches_total", registry)
        self._by_outcome = counters("transactions_total", registry)
        self._errors = counter("errors_total", registry)
        self._stage_duration = {name: stages.labels(name) for name in Stage}

    def exposition(self) -> bytes:
        return generate_latest(self.registry)

    def verdict(self, name: str, documents: int = 1) -> None:
        self._by_verdict[name].inc(documents)

    def verdicts(self, documents: Mapping[str, int]) -> None:
        """Count documents by their verdict, of ``VERDICT_NAMES``."""
        for name, count in documents.items():
            self._by_verdict[name].inc(count)

    def dead_letter(self, reason: RejectionReason) -> None:
        self._by_rejection[reason].inc()
        self._by_verdict[DEAD_LETTER].inc()

    def input_bytes(self, size_bytes: int) -> None:
        self._input_bytes.inc(size_bytes)

    def error(self, stage: str, reason: str) -> None:
        """Count a failure; raise ``UnknownNameError`` unless of ``Stage`` and ``ErrorReason``."""
        self._errors.labels(named(Stage, stage), named(ErrorReason, reason)).inc()

    def last_record(self, timestamp_ms: int) -> None:
        with self._newest_lock:
            self._newest_ms = max(self._newest_ms, timestamp_ms)
            self._last_record.set(self._newest_ms / 1000)

    def latencies(self, seconds: Sequence[float]) -> None:
        """Observe latencies; a negative one, from clocks that disagree, counts as 0."""
        self._latency.observe([max(0.0, each) for each in seconds])

    def event_loop_lag(self, seconds: Collection[float]) -> None:
        for each in seconds:  # nearly always one: an array would cost more
            self._event_loop_lag.observe(each)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a batch in a step of ``Stage``, and count its failure.

        CPU time is that of the calling thread, so a coroutine must not wait inside: see
        ``waiting``. Raises ``UnknownNameError``.
        """
        cpu = self._stage_cpu[named(Stage, name)]
        started = time.thread_time()
        try:
            with self.waiting(name):
                yield
        finally:
            cpu.inc(time.thread_time() - started)

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Like ``stage``, without CPU time, for a step that waits for others."""
        duration = self._stage_duration[named(Stage, name)]
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

    def watched(self, topic: str, partition: int) -> None:
        """Begin to count skipped offsets of a raw partition, at 0."""
        self._skipped.labels(topic, str(partition))

    def skipped(self, topic: str, partition: int, offsets: int) -> None:
        self._skipped.labels(topic, str(partition)).inc(offsets)

    def expired_output(self, output: str) -> None:
        """Count a record that its topic deletes soon; ``output`` is of ``OUTPUTS``."""
        self._expired_by_output[output].inc()

    def candidates(self, count: int, lookups: int) -> None:
        self._candidates.add(count, lookups)

    def distances(self, bits: Sequence[int]) -> None:
        self._distance.observe(bits)
        for each in bits:
            self.distance_counts[each] += 1

    def bucket_documents(self, sizes: Collection[int]) -> None:
        self._bucket_documents.observe(sizes)

    def lag(self, messages: Mapping[tuple[str, int], int]) -> None:
        self._lag.replace({(topic, str(part)): lag for (topic, part), lag in messages.items()})

    def stalled_partitions(self, partitions: int) -> None:
        self._stalled_partitions.set(partitions)

    def broker_up(self, *, up: bool) -> None:
        self._broker_up.set(up)

    def open_transaction(self, seconds: float) -> None:
        """Set for how long the oldest transaction has been open; 0 for none."""
        self._open_transaction.set(seconds)

    def rebalance(self) -> None:
        self._rebalances.inc()

    def registry_waiting(self, *, waiting: bool) -> None:
        self._registry_waiting.set(waiting)

    def schema_fetch(self, outcome: FetchOutcome) -> None:
        self._by_fetch[outcome].inc()

    def transaction(self, outcome: TransactionOutcome) -> None:
        self._by_outcome[outcome].inc()
