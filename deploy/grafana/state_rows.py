"""The rows of the dashboard on the workers: state, recovery, failures, processes."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Kind, Panel, Query, Row, each, rate, recorded, total


def _age(metric: str) -> str:
    """How far a time lies back; 0 where there is none."""
    return f"(time() - {each(metric)}) * ({each(metric)} > bool 0)"


STATE: Final = Row(
    "State",
    (
        Panel(
            "Entries by worker",
            "Documents of the index in the shards of each worker: one entry per unique document.",
            "short",
            (Query(total("firstseen_store_documents", "instance"), "{{instance}}"),),
        ),
        Panel(
            "Entries by shard",
            "The ten largest shards, with the worker that owns each.",
            "short",
            (
                Query(
                    f"topk(10, {each('firstseen_store_documents')})",
                    "shard {{partition}}, {{instance}}",
                ),
            ),
        ),
        Panel(
            "Documents in flight by shard",
            "The ten shards with the most raw records that are read and not put out yet.",
            "short",
            (
                Query(
                    f"topk(10, {each('firstseen_waiting_documents')})",
                    "shard {{partition}}, {{instance}}",
                ),
            ),
        ),
        Panel(
            "Deletes and removed entries",
            "Tombstones a second, and entries that left the index, by reason.",
            "short",
            (
                Query(rate("firstseen_deletes_total"), "tombstones"),
                Query(rate("firstseen_removed_entries_total", "reason"), "entries {{reason}}"),
            ),
        ),
        Panel(
            "Age of the index",
            "How far the oldest entry and the watermark lie back. Without a window there is no "
            "watermark, and it is 0.",
            "s",
            (
                Query(
                    _age("firstseen_oldest_entry_timestamp_seconds"),
                    "oldest entry, {{instance}}",
                ),
                Query(
                    _age("firstseen_watermark_timestamp_seconds"),
                    "watermark, {{instance}}",
                ),
            ),
        ),
        Panel(
            "Bytes on disk",
            "Sorted files of the shards, without the write-ahead log.",
            "bytes",
            (Query(each("firstseen_store_bytes"), "{{instance}}"),),
        ),
        Panel(
            "Room on the state disk",
            "Bytes free, and the size of the disk. A worker whose disk is full ends.",
            "bytes",
            (
                Query(each("firstseen_state_disk_free_bytes"), "free, {{instance}}"),
                Query(each("firstseen_state_disk_size_bytes"), "size, {{instance}}"),
            ),
        ),
        Panel(
            "Block cache",
            "Blocks of files in memory, of those the ones in use, and how many there may be.",
            "bytes",
            (
                Query(total("firstseen_rocksdb_block_cache_bytes"), "used"),
                Query(total("firstseen_rocksdb_block_cache_pinned_bytes"), "pinned"),
                Query(total("firstseen_rocksdb_block_cache_capacity_bytes"), "capacity"),
            ),
        ),
        Panel(
            "Memory beside the block cache",
            "Writes that are not in a file yet, and filters and indexes of open files.",
            "bytes",
            (
                Query(total("firstseen_rocksdb_memtable_bytes"), "memtables"),
                Query(total("firstseen_rocksdb_table_reader_bytes"), "table readers"),
            ),
            stacked=True,
        ),
        Panel(
            "Compaction debt",
            "Bytes that compaction has yet to rewrite. If it only rises, the disk is too slow.",
            "bytes",
            (Query(each("firstseen_rocksdb_pending_compaction_bytes"), "{{instance}}"),),
        ),
        Panel(
            "Compactions and files above the levels",
            "Compactions under way, and files that a look-up searches beside the sorted levels.",
            "short",
            (
                Query(total("firstseen_rocksdb_running_compactions"), "compactions"),
                Query(total("firstseen_rocksdb_level0_files"), "level 0 files"),
            ),
        ),
        Panel(
            "RocksDB in trouble",
            "Shards whose writes RocksDB has stopped, and flushes and compactions that failed.",
            "short",
            (
                Query(total("firstseen_rocksdb_stopped_shards"), "stopped shards"),
                Query(total("firstseen_rocksdb_background_errors"), "background errors"),
            ),
            red_from=1,
        ),
    ),
)

RECOVERY: Final = Row(
    "Recovery and rebalances",
    (
        Panel(
            "Shards",
            "Shards that each worker has, those being opened, and copies of others' shards.",
            "short",
            (
                Query(each("firstseen_assigned_shards"), "assigned, {{instance}}"),
                Query(each("firstseen_opening_shards"), "opening, {{instance}}"),
                Query(each("firstseen_standby_shards"), "standby, {{instance}}"),
            ),
        ),
        Panel(
            "Changelog records to read",
            "Changelog records that shards still have to read until they are open, and standbys.",
            "short",
            (
                Query(each("firstseen_recovery_remaining_messages"), "{{instance}}"),
                Query(each("firstseen_standby_lag_messages"), "standbys, {{instance}}"),
            ),
        ),
        Panel(
            "Time until a shard is open",
            "From its assignment, of all shards since the workers started.",
            "s",
            tuple(
                Query(
                    f"histogram_quantile({part}, sum by (le) "
                    f"({each('firstseen_recovery_duration_seconds_bucket')}))",
                    f"{part:.0%}",
                )
                for part in (0.5, 0.99)
            ),
        ),
        Panel(
            "Rebalances",
            "Assignments of partitions in 15 minutes, by worker; many of them are a storm.",
            "short",
            (
                Query(
                    f"sum by (instance) (increase({each('firstseen_rebalances_total')}[15m]))",
                    "{{instance}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Transactions",
            "Transactions a second, by how they ended. At-least-once delivery has none.",
            "short",
            (Query(rate("firstseen_transactions_total", "outcome"), "{{outcome}}"),),
            width=12,
        ),
    ),
)

FAILURES: Final = Row(
    "Dead letters and errors",
    (
        Panel(
            "Dead letters",
            "Records a second that could not be read, by reason.",
            "short",
            (Query(rate("firstseen_dead_letters_total", "reason"), "{{reason}}"),),
            width=12,
            stacked=True,
        ),
        Panel(
            "Errors",
            "Steps a second that failed in the workers, by step and reason. Most end the worker.",
            "short",
            (Query(rate("firstseen_errors_total", "stage, reason"), "{{stage}}: {{reason}}"),),
            width=12,
            stacked=True,
        ),
        Panel(
            "Share of dead letters and failed transactions",
            "Of the last 15 and 10 minutes; the alerts allow 1% and 5%.",
            "percentunit",
            (
                Query(recorded("firstseen:dead_letter_ratio:rate15m"), "dead letters"),
                Query(
                    f"{recorded('firstseen:failed_transactions:ratio_rate10m')} or vector(0)",
                    "failed transactions",
                ),
            ),
            width=12,
        ),
        Panel(
            "Schema registry",
            "Schemas asked for, a second, by outcome; and workers that wait for a schema.",
            "short",
            (
                Query(rate("firstseen_schema_fetches_total", "outcome"), "{{outcome}}"),
                Query(total("firstseen_registry_waiting"), "waiting"),
            ),
            width=12,
        ),
    ),
)

PROCESS: Final = Row(
    "Process",
    (
        Panel(
            "CPU",
            "Cores in use by each worker. Python computes on one, the Kafka client on others.",
            "short",
            (Query(rate("process_cpu_seconds_total", "instance"), "{{instance}}"),),
        ),
        Panel(
            "Memory",
            "Memory of each worker that is in the machine.",
            "bytes",
            (Query(each("process_resident_memory_bytes"), "{{instance}}"),),
        ),
        Panel(
            "Open files",
            "Files and connections of each worker, and how many it may have.",
            "short",
            (
                Query(each("process_open_fds"), "open, {{instance}}"),
                Query(each("process_max_fds"), "limit, {{instance}}"),
            ),
        ),
        Panel(
            "Running for",
            "Time since each worker started: a saw says that they end again and again.",
            "s",
            (Query(f"time() - {each('process_start_time_seconds')}", "{{instance}}"),),
        ),
        Panel(
            "Versions",
            "What runs where.",
            "short",
            (Query(each("firstseen_build_info")),),
            Kind.TABLE,
        ),
        Panel(
            "Indexes",
            "The index of each worker, by the first 12 digits of its identity. All workers of a "
            "job must have the same. 'firstseen config show' has the whole identity.",
            "short",
            (Query(each("firstseen_index_info")),),
            Kind.TABLE,
        ),
    ),
)

ROWS: Final = (STATE, RECOVERY, FAILURES, PROCESS)
