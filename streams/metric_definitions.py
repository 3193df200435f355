"""The metrics of a worker: the closed list of all, with what each of them answers.

Names have the prefix ``firstseen_``, base units (seconds, bytes), ``_total`` for counters. Ratios
are left to the monitoring system, which can take them over any time. The page docs/operations.md
has this list as a table; dashboards, rules and alerts may name nothing else (tests hold both).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from streams.metric_labels import (
    MESSAGE_KINDS,
    REJECTION_REASONS,
    VERDICTS,
    ErrorReason,
    Stage,
    TransactionOutcome,
)

_NO_LABELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class MetricKind(StrEnum):
    """What a metric is, as the text format has it. An info is a gauge at 1 that bears labels."""

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


_OPEN: Final[tuple[str, ...]] = ()
_STAGES: Final = tuple(stage.value for stage in Stage)
# Up to a batch's wait: the pipeline's own time. Beyond: waiting for a broker or behind a backlog.
_LATENCY_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_STAGE_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
# To the classic profile's distance one by one, then up to the widest fingerprint's.
_DISTANCE_BITS: Final = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
_BUCKET_DOCUMENTS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20_000, 100_000)
# From a start beside an up-to-date table to a rebuild of a large shard.
_RECOVERY_SECONDS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400)


def _counter(
    name: str, text: str, answers: str, labels: Mapping[str, tuple[str, ...]] = _NO_LABELS
) -> MetricDefinition:
    return MetricDefinition(f"firstseen_{name}", MetricKind.COUNTER, text, answers, labels)


def _gauge(
    name: str, text: str, answers: str, labels: Mapping[str, tuple[str, ...]] = _NO_LABELS
) -> MetricDefinition:
    return MetricDefinition(f"firstseen_{name}", MetricKind.GAUGE, text, answers, labels)


def _histogram(
    name: str,
    text: str,
    answers: str,
    buckets: tuple[float, ...],
    labels: Mapping[str, tuple[str, ...]] = _NO_LABELS,
) -> MetricDefinition:
    kind = MetricKind.HISTOGRAM
    return MetricDefinition(f"firstseen_{name}", kind, text, answers, labels, buckets)


def _info(name: str, text: str, answers: str, *labels: str) -> MetricDefinition:
    names = dict.fromkeys(labels, _OPEN)
    return MetricDefinition(f"firstseen_{name}", MetricKind.INFO, text, answers, names)


# ---------------------------------------------------------------- throughput and verdicts

DOCUMENTS: Final = _counter(
    "documents_total",
    "Raw records decided.",
    "How many documents went where? Throughput, and the share of duplicates.",
    {"verdict": VERDICTS},
)
INPUT_BYTES: Final = _counter(
    "input_bytes_total", "Bytes of raw records read.", "How much comes in?"
)
INTERNAL_MESSAGES: Final = _counter(
    "internal_messages_total",
    "Messages to shards.",
    "What does the spread over partitions cost?",
    {"kind": MESSAGE_KINDS},
)

# ---------------------------------------------------------------- lag and freshness

CONSUMER_LAG: Final = _gauge(
    "consumer_lag_messages",
    "Messages from where this worker stands to the end that the broker tells.",
    "How far behind is it? Of raw records and probes, for the partitions that it has; asked of the "
    "broker every few seconds, so it is right while the consumer stands still.",
    {"topic": _OPEN, "partition": _OPEN},
)
STALLED_PARTITIONS: Final = _gauge(
    "stalled_partitions",
    "Partitions with messages to read and no progress for stall_seconds.",
    "Does it stand still? Above 0, /healthz fails.",
)
BROKER_UP: Final = _gauge(
    "broker_up",
    "Whether the broker answered the last question for lag.",
    "Is the broker there? While it is 0, lag is as it was last heard.",
)
SKIPPED: Final = _counter(
    "skipped_messages_total",
    "Offsets of a raw partition that were deleted before they were read.",
    "Did a worker stand still for longer than the raw topic keeps its records?",
    {"topic": _OPEN, "partition": _OPEN},
)
LAST_RECORD: Final = _gauge(
    "last_record_timestamp_seconds",
    "Newest record time decided, seconds since 1970.",
    "How fresh is the output? Now less this, where documents keep coming; 0 before the first.",
)
LATENCY: Final = _histogram(
    "end_to_end_latency_seconds",
    "From a record's time to its verdict.",
    "How long does a document take? The records' own times count, so old ones take long.",
    _LATENCY_SECONDS,
)
STAGE_DURATION: Final = _histogram(
    "stage_duration_seconds",
    "Time of one batch in one step.",
    "Where does the time go?",
    _STAGE_SECONDS,
    {"stage": _STAGES},
)

# ---------------------------------------------------------------- index quality

CANDIDATES: Final = MetricDefinition(
    "firstseen_candidates_per_lookup",
    MetricKind.SUMMARY,
    "Candidates that look-ups met.",
    "Do blocks still tell documents apart? Candidates are what a look-up pays for.",
)
DISTANCE: Final = _histogram(
    "distance_bits",
    "Distance of duplicates to their originals.",
    "Is the threshold in the right place? Duplicates heaped up below it say that it is low.",
    _DISTANCE_BITS,
)
BUCKET_DOCUMENTS: Final = _histogram(
    "bucket_documents",
    "Documents in each bucket that a look-up read, of one look-up in 32.",
    "Are there hot buckets?",
    _BUCKET_DOCUMENTS,
)
PARKED_DOCUMENTS: Final = _gauge(
    "parked_documents",
    "Documents behind an undecided one.",
    "Do documents wait for one another? At rest it is 0.",
)

# ---------------------------------------------------------------- state

STORE_DOCUMENTS: Final = _gauge(
    "store_documents",
    "Entries of documents in the block tables.",
    "How large is the index? A document has an entry in each shard that owns a bucket of it.",
)
STORE_BYTES: Final = _gauge(
    "store_bytes",
    "Bytes of the sorted files of the block tables.",
    "How large is it on the disk? Without the write-ahead log.",
)
BUCKET_INDEX_BYTES: Final = _gauge(
    "bucket_index_bytes",
    "Bytes of the segments of the bucket indexes.",
    "How large is what look-ups read? It lies beside the block tables, and is made again if lost.",
)
STATE_DISK_FREE: Final = _gauge(
    "state_disk_free_bytes",
    "Bytes free on the disk of the state directory.",
    "How long until it is full?",
)
STATE_DISK_SIZE: Final = _gauge(
    "state_disk_size_bytes", "Bytes of the disk of the state directory.", "How full is it?"
)
BLOCK_CACHE: Final = _gauge(
    "rocksdb_block_cache_bytes",
    "Bytes in the block cache of all shards.",
    "Is the cache full (block_cache_bytes)?",
)
BLOCK_CACHE_PINNED: Final = _gauge(
    "rocksdb_block_cache_pinned_bytes",
    "Bytes of the block cache in use by reads.",
    "Do reads hold on to blocks?",
)
BLOCK_CACHE_CAPACITY: Final = _gauge(
    "rocksdb_block_cache_capacity_bytes", "Size of the block cache.", "How large may it be?"
)
MEMTABLES: Final = _gauge(
    "rocksdb_memtable_bytes",
    "Memory of what is not in a sorted file yet.",
    "How much memory do writes take?",
)
TABLE_READERS: Final = _gauge(
    "rocksdb_table_reader_bytes",
    "Memory of filters and indexes outside the block cache.",
    "How much memory do open files take?",
)
PENDING_COMPACTION: Final = _gauge(
    "rocksdb_pending_compaction_bytes",
    "Bytes that compaction has yet to rewrite, estimated.",
    "Does compaction keep up with writes?",
)
RUNNING_COMPACTIONS: Final = _gauge(
    "rocksdb_running_compactions", "Compactions under way.", "Is the disk busy with compaction?"
)
LEVEL0_FILES: Final = _gauge(
    "rocksdb_level0_files",
    "Files that are not sorted into the rest yet, all shards together.",
    "What does a look-up have to search beside the sorted levels?",
)
STOPPED_WRITES: Final = _gauge(
    "rocksdb_stopped_shards", "Shards whose writes RocksDB has stopped.", "Is it at its limits?"
)
BACKGROUND_ERRORS: Final = _gauge(
    "rocksdb_background_errors",
    "Flushes and compactions that failed since the shards were opened.",
    "Does the disk refuse?",
)

# ---------------------------------------------------------------- recovery and rebalances

ASSIGNED_SHARDS: Final = _gauge(
    "assigned_shards", "Shards that this worker owns.", "Who does the work?"
)
OPENING_SHARDS: Final = _gauge(
    "opening_shards",
    "Shards of this worker that have yet to catch up with their changelog.",
    "Is it ready? At 0, with partitions assigned, /readyz says so.",
)
RECOVERY_REMAINING: Final = _gauge(
    "recovery_remaining_messages",
    "Changelog records that shards have yet to read.",
    "How long until a started worker works?",
)
RECOVERY_DURATION: Final = _histogram(
    "recovery_duration_seconds",
    "Time until a shard was open, from its assignment.",
    "How long does a move of a shard take?",
    _RECOVERY_SECONDS,
)
REBALANCES: Final = _counter(
    "rebalances_total", "Assignments of partitions received.", "Is the group at rest?"
)
TRANSACTIONS: Final = _counter(
    "transactions_total",
    "Transactions ended.",
    "Do commits go through?",
    {"outcome": tuple(outcome.value for outcome in TransactionOutcome)},
)

# ---------------------------------------------------------------- dead letters and errors

DEAD_LETTERS: Final = _counter(
    "dead_letters_total",
    "Raw records not readable.",
    "What is wrong with the records that cannot be read?",
    {"reason": REJECTION_REASONS},
)
ERRORS: Final = _counter(
    "errors_total",
    "Steps that failed.",
    "What fails in the service itself? Most failures end the worker, which starts again.",
    {"stage": _STAGES, "reason": tuple(reason.value for reason in ErrorReason)},
)

# ---------------------------------------------------------------- what runs

INDEX_INFO: Final = _info(
    "index_info",
    "The index and how it is kept.",
    "Do all workers have one index?",
    "identity",
    "application_id",
    "profile",
    "delivery",
    "shards",
)
BUILD_INFO: Final = _info(
    "build_info", "Versions.", "Which version runs where?", "version", "python_version"
)

DEFINITIONS: Final[tuple[MetricDefinition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, MetricDefinition)
)
"""All of them, in the order of this page."""
