"""The metrics of the state of a worker: entries, disk, and RocksDB's own figures.

A part of the closed list of ``metric_definitions``.
"""

from __future__ import annotations

from typing import Final

from streams.monitoring.metric_types import UNLISTED, MetricDefinition, counter, gauge

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

STATE_DEFINITIONS: Final[tuple[MetricDefinition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, MetricDefinition)
)
"""All of them, in the order of this page."""
