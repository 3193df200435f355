"""All metrics of a worker; dashboards and alerts may use no others (tests check).

Names have the prefix ``firstseen_``, base units (seconds, bytes), and ``_total`` for counters.
Ratios are left to the monitoring system, which can take them over any time. docs/operations.md has
this list as a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from simhash_core.errors import ErrorReason
from streams.monitoring.metric_labels import (
    OUTPUTS,
    REJECTION_REASONS,
    VERDICTS,
    InternalTopic,
    Stage,
    TransactionOutcome,
)
from streams.registry.schemas import FetchOutcome

# ---- The definition of a metric.

_NO_LABELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


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
    labels: Mapping[str, tuple[str, ...]] = _NO_LABELS  # (): values are not known beforehand
    buckets: tuple[float, ...] = ()


UNLISTED: Final[tuple[str, ...]] = ()


def counter(
    name: str, text: str, answers: str, labels: Mapping[str, tuple[str, ...]] = _NO_LABELS
) -> MetricDefinition:
    return MetricDefinition(f"firstseen_{name}", MetricKind.COUNTER, text, answers, labels)


def gauge(
    name: str, text: str, answers: str, labels: Mapping[str, tuple[str, ...]] = _NO_LABELS
) -> MetricDefinition:
    return MetricDefinition(f"firstseen_{name}", MetricKind.GAUGE, text, answers, labels)


def histogram(
    name: str,
    text: str,
    answers: str,
    buckets: tuple[float, ...],
    labels: Mapping[str, tuple[str, ...]] = _NO_LABELS,
) -> MetricDefinition:
    kind = MetricKind.HISTOGRAM
    return MetricDefinition(f"firstseen_{name}", kind, text, answers, labels, buckets)


def info(name: str, text: str, answers: str, *labels: str) -> MetricDefinition:
    names = dict.fromkeys(labels, UNLISTED)
    return MetricDefinition(f"firstseen_{name}", MetricKind.INFO, text, answers, names)


# ---- The state of a worker: entries, disk, and RocksDB's own figures.

STORE_DOCUMENTS: Final = gauge(
    "store_documents",
    "Entries of the index in each shard of this worker.",
    "How large is the index, and which worker has which shard? One entry for each unique document.",
    {"partition": UNLISTED},
)
REMOVED_ENTRIES: Final = counter(
    "removed_entries_total",
    "Entries that left the index: taken out by a tombstone or by a later document of their id, or "
    "expired.",
    "Does space come back? With a window, expired entries follow new ones at the same rate.",
    {"reason": ("deleted", "expired")},
)
DELETES: Final = counter(
    "deletes_total",
    "Tombstones of documents read.",
    "How many deletes come in? One that finds no entry takes nothing out.",
)
OLDEST_ENTRY: Final = gauge(
    "oldest_entry_timestamp_seconds",
    "Time of the first entry in the order of the log, seconds since 1970, of all shards of this "
    "worker; 0: there is none.",
    "How far back does the index reach? With a window it follows the watermark.",
)
WATERMARK: Final = gauge(
    "watermark_timestamp_seconds",
    "Watermark of the log, seconds since 1970; 0 without a window, or before the first document.",
    "What time is it in the stream? Entries older than window and lateness before it expire.",
)
WAITING_DOCUMENTS: Final = gauge(
    "waiting_documents",
    "Raw records of each shard that were read but have no output yet.",
    "Which shard is behind?",
    {"partition": UNLISTED},
)
STORE_BYTES: Final = gauge(
    "store_bytes",
    "Bytes of the sorted files of the shards.",
    "How large is the state on the disk? Without the write-ahead log.",
)
STATE_DISK_FREE: Final = gauge(
    "state_disk_free_bytes",
    "Bytes free on the disk of the state directory.",
    "How long until it is full?",
)
STATE_DISK_SIZE: Final = gauge(
    "state_disk_size_bytes", "Bytes of the disk of the state directory.", "How full is it?"
)
BLOCK_CACHE: Final = gauge(
    "rocksdb_block_cache_bytes",
    "Bytes in the block cache of all shards.",
    "Is the cache full (block_cache_bytes)?",
)
BLOCK_CACHE_PINNED: Final = gauge(
    "rocksdb_block_cache_pinned_bytes",
    "Bytes of the block cache in use by reads.",
    "Do reads hold on to blocks?",
)
BLOCK_CACHE_CAPACITY: Final = gauge(
    "rocksdb_block_cache_capacity_bytes", "Size of the block cache.", "How large may it be?"
)
MEMTABLES: Final = gauge(
    "rocksdb_memtable_bytes",
    "Memory of writes that are not in a sorted file yet.",
    "How much memory do writes take?",
)
TABLE_READERS: Final = gauge(
    "rocksdb_table_reader_bytes",
    "Memory of filters and indexes outside the block cache.",
    "How much memory do open files take?",
)
PENDING_COMPACTION: Final = gauge(
    "rocksdb_pending_compaction_bytes",
    "Bytes that compaction has yet to rewrite, estimated.",
    "Does compaction keep up with writes?",
)
RUNNING_COMPACTIONS: Final = gauge(
    "rocksdb_running_compactions", "Compactions under way.", "Is the disk busy with compaction?"
)
LEVEL0_FILES: Final = gauge(
    "rocksdb_level0_files",
    "Files not yet merged into the sorted levels, all shards together.",
    "What does a look-up have to search beside the sorted levels?",
)
STOPPED_WRITES: Final = gauge(
    "rocksdb_stopped_shards", "Shards whose writes RocksDB has stopped.", "Is it at its limits?"
)
BACKGROUND_ERRORS: Final = gauge(
    "rocksdb_background_errors",
    "Flushes and compactions that failed since the shards were opened.",
    "Does the disk refuse?",
)


_STAGES: Final = tuple(stage.value for stage in Stage)
_INTERNAL_TOPICS: Final = tuple(topic.value for topic in InternalTopic)
# Up to 0.25: the worker's own time. Beyond: waiting for a broker, or for the end of a backlog.
_LATENCY_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_STAGE_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
# Each distance of the classic profile, then up to the widest fingerprint.
_DISTANCE_BITS: Final = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128)
_BUCKET_DOCUMENTS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20_000, 100_000)
# A step of the loop must end within 0.05. Beyond 10 s a group member loses its session.
_LOOP_LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
# From a start with up-to-date state to a rebuild of a large shard.
_RECOVERY_SECONDS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400)


# ---------------------------------------------------------------- throughput and verdicts

DOCUMENTS: Final = counter(
    "documents_total",
    "Raw records decided.",
    "How many documents of each verdict? Gives throughput and the share of duplicates.",
    {"verdict": VERDICTS},
)
INPUT_BYTES: Final = counter(
    "input_bytes_total", "Bytes of raw records read.", "How much comes in?"
)
IN_FLIGHT_DOCUMENTS: Final = gauge(
    "in_flight_documents",
    "Raw records that were read but have no output yet.",
    "How much does this worker hold? At the limit it stops reading until some have an output.",
)
IN_FLIGHT_BYTES: Final = gauge(
    "in_flight_bytes",
    "Bytes of raw records that were read but have no output yet.",
    "How much memory do they take?",
)
INTERNAL_BYTES: Final = counter(
    "internal_bytes_total",
    "Bytes of records sent to internal topics.",
    "How many internal bytes does each document cost, besides its output?",
    {"topic": _INTERNAL_TOPICS},
)

# ---------------------------------------------------------------- lag and freshness

CONSUMER_LAG: Final = gauge(
    "consumer_lag_messages",
    "Raw records between the group's committed offset and the end of the partition.",
    "How far behind is the output? For the partitions of this worker. The broker is queried "
    "every few seconds, so the figure stays right while the consumer is stuck.",
    {"topic": UNLISTED, "partition": UNLISTED},
)
STALLED_PARTITIONS: Final = gauge(
    "stalled_partitions",
    "Partitions where this worker had to act, and made no progress for stall_seconds.",
    "Is the worker stuck? Above 0, /healthz fails. Waiting for another worker does not count.",
)
BROKER_UP: Final = gauge(
    "broker_up",
    "Whether the broker answered the last query for the ends of partitions.",
    "Is the broker there? While it is 0, lag keeps its last known value.",
)
OPEN_TRANSACTION: Final = gauge(
    "open_transaction_seconds",
    "Age of the oldest open transaction, from when this worker saw it first; 0: none is open.",
    "Has the broker lost the end of a transaction? Committed readers stop there. For the raw "
    "partitions and changelogs of this worker; the worker of shard 0 watches the outputs as well.",
)
SKIPPED: Final = counter(
    "skipped_messages_total",
    "Offsets of a raw partition that were deleted before they were read.",
    "Was the group down for longer than the retention of the raw topic?",
    {"topic": UNLISTED, "partition": UNLISTED},
)
EXPIRED_OUTPUTS: Final = counter(
    "expired_outputs_total",
    "Output records older than their topic keeps records, as it was when the worker started.",
    "Does a topic delete outputs as soon as they are there? An archive needs topics that keep "
    "records for ever.",
    {"output": OUTPUTS},
)
LAST_RECORD: Final = gauge(
    "last_record_timestamp_seconds",
    "Newest record time decided, seconds since 1970.",
    "How fresh is the output? Now minus this value is its age while documents keep arriving; 0 "
    "before the first.",
)
LATENCY: Final = histogram(
    "end_to_end_latency_seconds",
    "From a record's time to its output.",
    "How long does a document take? The records' own times count, so old ones take long.",
    _LATENCY_SECONDS,
)
STAGE_DURATION: Final = histogram(
    "stage_duration_seconds",
    "Time of one batch in one step.",
    "Where does the time go, waiting included?",
    _STAGE_SECONDS,
    {"stage": _STAGES},
)
STAGE_CPU: Final = counter(
    "stage_cpu_seconds_total",
    "CPU time of each step, in the thread that does it.",
    "Which step uses the CPU? Without the threads of the Kafka client.",
    {"stage": _STAGES},
)
EVENT_LOOP_LAG: Final = histogram(
    "event_loop_lag_seconds",
    "How late the event loop runs what is due, by a beat every 0.2 s; missed beats count.",
    "Does one step hold up all others? Above stall_seconds /healthz fails.",
    _LOOP_LAG_SECONDS,
)

# ---------------------------------------------------------------- ordering and deciding

LOG_POSITION: Final = gauge(
    "log_position_offset",
    "Offset in the log that this worker reads next.",
    "How far has it read the log?",
)
LOG_END: Final = gauge(
    "log_end_offset",
    "End of the log, as this worker last saw it.",
    "How far behind is it? By the end minus the position; when idle both are equal.",
)
UNDECIDED_DOCUMENTS: Final = gauge(
    "undecided_documents",
    "Documents in the log without a verdict yet.",
    "Does deciding keep up with ordering? When idle it is 0.",
)
UNDECIDED_AGE: Final = gauge(
    "undecided_oldest_seconds",
    "Age of the oldest packet in the log that has no verdicts yet.",
    "Is deciding stuck? 0 where everything is decided. High as well while an old log is read.",
)
LEADER: Final = gauge(
    "leader",
    "Whether this worker is the leader, which decides.",
    "Who decides? The sum over all workers is 1, except briefly when the leader changes.",
)
REPORT_MISSING: Final = gauge(
    "report_missing",
    "1 for each shard whose report the leader is waiting for.",
    "Which shard holds up the verdicts? The leader reports it; normal for moments only.",
    {"partition": UNLISTED},
)
CONTROL_REFUSED: Final = counter(
    "control_records_refused_total",
    "Control records read in the log that are out of their chain, and ignored.",
    "Did a worker decide after another had become the leader? Harmless; some come with a change.",
)
PACKETS_SKIPPED: Final = counter(
    "packets_skipped_total",
    "Packets read in the log that do not continue their chain, and are ignored.",
    "How many packets were sent twice, or by a worker that no longer owned the partition?",
)
FOREIGN_RECORDS: Final = counter(
    "foreign_records_total",
    "Records of another index identity, or unreadable, on an internal topic; they are ignored.",
    "Does a worker with other settings write to the topics of this index?",
    {"topic": _INTERNAL_TOPICS},
)

# ---------------------------------------------------------------- index quality

CANDIDATES: Final = MetricDefinition(
    "firstseen_candidates_per_lookup",
    MetricKind.SUMMARY,
    "Candidates found by look-ups.",
    "Are buckets still small? The cost of a look-up depends on its candidates.",
)
DISTANCE: Final = histogram(
    "distance_bits",
    "Distance of duplicates to their originals.",
    "Is the threshold right? Many duplicates just below it suggest that it is too low.",
    _DISTANCE_BITS,
)
BUCKET_DOCUMENTS: Final = histogram(
    "bucket_documents",
    "Documents in each bucket that a look-up read, of one look-up in 32.",
    "Are there hot buckets?",
    _BUCKET_DOCUMENTS,
)

# ---------------------------------------------------------------- recovery and rebalances

ASSIGNED_SHARDS: Final = gauge(
    "assigned_shards", "Shards that this worker owns.", "Who does the work?"
)
OPENING_SHARDS: Final = gauge(
    "opening_shards",
    "Assigned shards that are still being opened.",
    "Is the worker ready? /readyz answers 200 once this is 0 and the log is read to its end.",
)
STANDBY_SHARDS: Final = gauge(
    "standby_shards",
    "Copies of other workers' shards that this worker keeps (setting standbys).",
    "If a worker is killed, do the others go on?",
)
STANDBY_LAG: Final = gauge(
    "standby_lag_messages",
    "Changelog records that standbys have not read yet.",
    "Are they up to date with their owners?",
)
RECOVERY_REMAINING: Final = gauge(
    "recovery_remaining_messages",
    "Changelog records still to be read by shards that are being opened.",
    "How long until a started worker is ready?",
)
RECOVERY_DURATION: Final = histogram(
    "recovery_duration_seconds",
    "Time until a shard was open, from its assignment.",
    "How long does a move of a shard take?",
    _RECOVERY_SECONDS,
)
REBALANCES: Final = counter(
    "rebalances_total", "Assignments of partitions received.", "Is the group stable?"
)
TRANSACTIONS: Final = counter(
    "transactions_total",
    "Transactions ended.",
    "Do commits go through?",
    {"outcome": tuple(outcome.value for outcome in TransactionOutcome)},
)

# ---------------------------------------------------------------- dead letters and errors

DEAD_LETTERS: Final = counter(
    "dead_letters_total",
    "Raw records that could not be read.",
    "What is wrong with the records that cannot be read?",
    {"reason": REJECTION_REASONS},
)
SCHEMA_FETCHES: Final = counter(
    "schema_fetches_total",
    "Requests for schemas to the schema registry.",
    "Does the registry answer, and does it know the schemas of the records?",
    {"outcome": tuple(outcome.value for outcome in FetchOutcome)},
)
REGISTRY_WAITING: Final = gauge(
    "registry_waiting",
    "1 while raw records wait because the schema registry does not answer.",
    "Why is nothing read? The worker is alive and tries again; nothing is lost.",
)
ERRORS: Final = counter(
    "errors_total",
    "Steps that failed.",
    "What fails in the service itself? Most failures end the worker, which starts again.",
    {"stage": _STAGES, "reason": tuple(reason.value for reason in ErrorReason)},
)

# ---------------------------------------------------------------- what runs

INDEX_INFO: Final = info(
    "index_info",
    "The index, by the short name of its identity, and how it is kept.",
    "Do all workers have one index?",
    "identity",
    "application_id",
    "profile",
    "delivery",
    "mode",
)
BUILD_INFO: Final = info(
    "build_info", "Versions.", "Which version runs where?", "version", "python_version"
)

DEFINITIONS: Final[tuple[MetricDefinition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, MetricDefinition)
)
"""In the order of this page."""
