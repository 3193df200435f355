"""The metrics of a worker, on its own registry, as ``metrics.toml`` defines them."""

from __future__ import annotations

import platform
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from importlib.metadata import version
from importlib.resources import files
from itertools import product
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from prometheus_client import (
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

from simhash_core.errors import ErrorReason, FirstseenError
from simhash_core.verdicts import VERDICT_NAMES, RejectionReason
from streams.registry.schemas import FetchOutcome

# ---- The values of labels: closed lists, so that every series begins at 0.
#
# An alert does not see the increase of a series that first appears at 1. No label holds an id, a
# key or a text of a document.

DEAD_LETTER: Final = "dead_letter"

OUTPUTS: Final = ("unique", "duplicate_of", "tagged", DEAD_LETTER)


class Stage(StrEnum):
    """The timed steps of the work, which also count errors."""

    READ = "read"  # takes raw records from the broker
    FINGERPRINT = "fingerprint"  # turns raw records into columns with fingerprints and sketches
    APPEND = "append"  # encodes packets and appends them to the log
    LOOKUP = "lookup"  # looks up packets of the log in this worker's shards
    DECIDE = "decide"  # turns reports into verdicts, at the leader
    OUTPUT = "output"  # turns verdicts into output records
    COMMIT = "commit"
    """Hands output records to the broker, until they are acknowledged or committed."""
    STORE = "store"  # writes to the disk after the commit
    RECOVER = "recover"  # brings a shard to the end of its changelog
    WATCH = "watch"  # asks the broker for the ends of partitions


class AcquisitionPhase(StrEnum):
    """The phases of a shard on the worker that acquires it, in this order."""

    REBALANCE = "rebalance"  # the group moves partitions, as far as this worker sees it
    OFFSETS = "offsets"  # until no earlier owner can commit any more
    OPENING = "opening"  # the changelog is read to its end, and the index is filled
    SESSION = "session"  # waits for other shards that open, and for the start of a session
    READING = "reading"  # the log is read to its end at the time; later rows are appended
    LEADING = "leading"  # of shard 0: until this worker decides
    OUTPUT = "output"  # until the first output is committed


class TransactionOutcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"
    UNANSWERED = "unanswered"


def reason_of(error: Exception) -> ErrorReason:
    if isinstance(error, FirstseenError):
        return error.reason
    client = sys.modules.get("confluent_kafka")  # without loading the client
    if client is not None and isinstance(error, client.KafkaException):
        return ErrorReason.BROKER
    if isinstance(error, TimeoutError):  # before OSError, because it is one
        return ErrorReason.TIMEOUT
    return ErrorReason.STORAGE if isinstance(error, OSError) else ErrorReason.INTERNAL


# ---- The definitions.

PREFIX: Final = "firstseen_"

_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "any": (),
    "errors": tuple(map(str, ErrorReason)),
    "fetches": tuple(map(str, FetchOutcome)),
    "internal topics": ("log", "reports", "changelog"),
    # A worker does not open a shard whose changelog has a foreign record.
    "internal topics without changelog": ("log", "reports"),
    "outputs": OUTPUTS,
    "phases": tuple(map(str, AcquisitionPhase)),
    "rejections": tuple(map(str, RejectionReason)),
    "removals": ("deleted", "expired"),
    "stages": tuple(map(str, Stage)),
    "transactions": tuple(map(str, TransactionOutcome)),
    "verdicts": (*VERDICT_NAMES, DEAD_LETTER),
}


class MetricKind(StrEnum):
    """The type in the text format; an info is a gauge at 1 with labels."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    INFO = "info"


class MetricDefinition(NamedTuple):
    name: str  # as scraped; of a histogram, without suffix
    kind: MetricKind
    help: str  # for the exposition
    answers: str  # for the documentation
    labels: Mapping[str, tuple[str, ...]]  # (): values are not known beforehand
    buckets: tuple[float, ...]


def _definitions() -> Iterator[MetricDefinition]:
    text = (files(__package__) / "metrics.toml").read_text("utf-8")
    for name, table in tomllib.loads(text).items():
        labels = {label: _VALUES[values] for label, values in table.get("labels", {}).items()}
        yield MetricDefinition(
            PREFIX + name,
            MetricKind(table["kind"]),
            table["help"],
            table["answers"],
            labels,
            tuple(table.get("buckets", ())),
        )


DEFINITIONS: Final = tuple(_definitions())


# ---- Types of metric that the client library lacks.


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
    """A histogram of batches; that of the client library takes a microsecond for each value."""

    def __init__(self, definition: MetricDefinition, registry: CollectorRegistry) -> None:
        self._definition = definition
        self._bounds = np.array(self._definition.buckets, dtype=np.float64)
        self._counts = np.zeros(len(self._bounds) + 1, dtype=np.int64)
        self._sum = 0.0
        self._lock = threading.Lock()
        registry.register(self)

    def observe(self, values: Collection[float]) -> None:
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
    """A gauge whose series come and go, as assigned partitions do."""

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


Labels: TypeAlias = tuple[str, ...]
_Family = TypeVar("_Family", bound=MetricWrapperBase)


def _children(family: _Family, definition: MetricDefinition) -> dict[Labels, _Family]:
    """Create every labelled series: an alert does not see one that first appears at 1.

    Without labels, or with values that are not known beforehand, return the family under ``()``.
    """
    if not definition.labels or () in definition.labels.values():
        return {(): family}
    return {labels: family.labels(*labels) for labels in product(*definition.labels.values())}


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
"""The metric of each figure of ``streams.store.rocksdb_store.statistics_of``."""

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
        """The number of duplicates by distance in bits; the metric's buckets are wider."""
        self._lock = threading.Lock()
        self._recovering: dict[int, int] = {}
        self._newest_ms = 0
        self._gauges: dict[str, Gauge] = {}
        self._series: dict[str, PartitionGauge] = {}
        self._counters: dict[str, dict[Labels, Counter]] = {}
        self._histograms: dict[str, BatchHistogram] = {}
        self._timers: dict[str, dict[Labels, Histogram]] = {}
        self._summaries: dict[str, TotalsSummary] = {}
        build = {"version": version("firstseen"), "python_version": platform.python_version()}
        infos = {"index_info": (index or IndexInfo())._asdict(), "build_info": build}
        for definition in DEFINITIONS:
            self._make(definition.name.removeprefix(PREFIX), definition, infos)
        self._documents = self._series["store_documents"]
        self._waiting = self._series["waiting_documents"]

    def _make(
        self, name: str, definition: MetricDefinition, infos: Mapping[str, dict[str, str]]
    ) -> None:
        full, text, labels = definition.name, definition.help, list(definition.labels)
        match definition.kind:
            case MetricKind.GAUGE if labels:
                self._series[name] = PartitionGauge(definition, self.registry)
            case MetricKind.GAUGE:
                self._gauges[name] = Gauge(full, text, registry=self.registry)
            case MetricKind.COUNTER:
                counter = Counter(full, text, labels, registry=self.registry)
                self._counters[name] = _children(counter, definition)
            case MetricKind.HISTOGRAM if labels:
                timer = Histogram(
                    full, text, labels, buckets=definition.buckets, registry=self.registry
                )
                self._timers[name] = _children(timer, definition)
            case MetricKind.HISTOGRAM:
                self._histograms[name] = BatchHistogram(definition, self.registry)
            case MetricKind.SUMMARY:
                self._summaries[name] = TotalsSummary(definition, self.registry)
            case MetricKind.INFO:
                assert infos[name].keys() == definition.labels.keys()
                info = Info(full.removesuffix("_info"), text, registry=self.registry)
                info.info(infos[name])

    def _set(self, name: str, value: float) -> None:
        self._gauges[name].set(value)

    def _count(self, name: str, amount: float = 1, *labels: str) -> None:
        """Add to a counter; raise ``KeyError`` for labels that are not in the list."""
        self._counters[name][labels].inc(amount)

    def _observe(self, name: str, values: Collection[float]) -> None:
        self._histograms[name].observe(values)

    def exposition(self) -> bytes:
        return generate_latest(self.registry)

    # ---- Records, verdicts, outputs.

    def input_bytes(self, size_bytes: int) -> None:
        self._count("input_bytes_total", size_bytes)

    def verdicts(self, documents: Mapping[str, int]) -> None:
        """Count documents by their verdict, of ``VERDICT_NAMES``."""
        for name, count in documents.items():
            self._count("documents_total", count, name)

    def dead_letter(self, reason: RejectionReason) -> None:
        self._count("dead_letters_total", 1, reason)
        self._count("documents_total", 1, DEAD_LETTER)

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
        self._summaries["candidates_per_lookup"].add(count, lookups)

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
        """Set whether this worker leads; if not, it waits for no report."""
        self._set("leader", is_leader)
        if not is_leader:
            self.reports_missing(())

    def reports_missing(self, shards: Collection[int]) -> None:
        missing = self._series["report_missing"]
        missing.replace({(str(shard),): 1 for shard in shards})

    def control_refused(self, records: int) -> None:
        self._count("control_records_refused_total", records)

    def packet_skipped(self, packets: int) -> None:
        self._count("packets_skipped_total", packets)

    def foreign_record(self, topic: str) -> None:
        """Count a record of another index, or an unreadable one, on the log or of reports."""
        self._count("foreign_records_total", 1, topic)

    def in_flight(self, documents: int, size_bytes: int) -> None:
        self._set("in_flight_documents", documents)
        self._set("in_flight_bytes", size_bytes)

    def internal_bytes(self, topic: str, size_bytes: int) -> None:
        self._count("internal_bytes_total", size_bytes, topic)

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

    def beyond_lateness(self, entries: int) -> None:
        self._count("entries_beyond_lateness_total", entries)

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

    def acquired(self, seconds: Mapping[AcquisitionPhase, float]) -> None:
        for phase, took in seconds.items():
            self._timers["acquisition_duration_seconds"][(phase,)].observe(took)

    def opening_shards(self, shards: int) -> None:
        self._set("opening_shards", shards)

    def standbys(self, shards: int, lag: int, missing: int) -> None:
        self._set("standby_shards", shards)
        self._set("standby_lag_messages", lag)
        self._set("shards_without_standby", missing)

    def store(self, figures: Mapping[str, int]) -> None:
        for name, figure in figures.items():
            self._set(STORE_FIGURES[name], figure)

    def state_disk(self, free_bytes: int, size_bytes: int) -> None:
        self._set("state_disk_free_bytes", free_bytes)
        self._set("state_disk_size_bytes", size_bytes)

    # ---- The group, the broker, the registry.

    def lag(self, messages: Mapping[tuple[str, int], int]) -> None:
        lags = self._series["consumer_lag_messages"]
        lags.replace({(topic, str(part)): lag for (topic, part), lag in messages.items()})

    def watched(self, topic: str, partition: int) -> None:
        """Begin to count skipped offsets of a raw partition, at 0."""
        self.skipped(topic, partition, 0)

    def skipped(self, topic: str, partition: int, offsets: int) -> None:
        counters = self._counters["skipped_messages_total"]
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
        """Count a failure in a step of ``Stage``, by its ``ErrorReason``."""
        self._count("errors_total", 1, stage, reason)

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Time a batch in a step of ``Stage``, and count its failure.

        CPU time is that of the calling thread, so a coroutine must not wait inside: see
        ``waiting``. Raises ``KeyError`` for another name.
        """
        return _Step(
            self.error,
            name,
            self._timers["stage_duration_seconds"][(name,)],
            self._counters["stage_cpu_seconds_total"][(name,)],
        )

    def waiting(self, name: str) -> AbstractContextManager[None]:
        """Like ``stage``, without CPU time, for a step that waits for others."""
        return _Step(self.error, name, self._timers["stage_duration_seconds"][(name,)])

    def failures(self, stage: str) -> AbstractContextManager[None]:
        """Count failures inside, but not an ``InterruptedError``."""
        return _Step(self.error, stage)


class _Step:
    """One run of a step. It is a class: three nested generators take twice as long, 8.5 µs."""

    __slots__ = ("_cpu", "_cpu_started", "_duration", "_name", "_on_error", "_started")

    def __init__(
        self,
        on_error: Callable[[str, ErrorReason], None],
        name: str,
        duration: Histogram | None = None,
        cpu: Counter | None = None,
    ) -> None:
        self._on_error, self._name, self._duration, self._cpu = on_error, name, duration, cpu
        self._started = self._cpu_started = 0.0

    def __enter__(self) -> None:
        if self._cpu is not None:
            self._cpu_started = time.thread_time()
        if self._duration is not None:
            self._started = time.perf_counter()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, InterruptedError):
            self._on_error(self._name, reason_of(error))
        if self._duration is not None:
            self._duration.observe(time.perf_counter() - self._started)
        if self._cpu is not None:
            self._cpu.inc(time.thread_time() - self._cpu_started)
