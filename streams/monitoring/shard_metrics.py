"""The metrics of the shards of a worker: how many, how large, how far they are recovered."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry

from streams.monitoring import metric_definitions as defined
from streams.monitoring import state_definitions as state
from streams.monitoring.metric_families import BatchHistogram, PartitionGauge, counter, gauge
from streams.monitoring.metric_types import MetricDefinition

_MILLISECONDS: Final = 1000

STORE_FIGURES: Final[Mapping[str, MetricDefinition]] = MappingProxyType(
    {
        "files_bytes": state.STORE_BYTES,
        "memtable_bytes": state.MEMTABLES,
        "table_reader_bytes": state.TABLE_READERS,
        "pending_compaction_bytes": state.PENDING_COMPACTION,
        "running_compactions": state.RUNNING_COMPACTIONS,
        "level0_files": state.LEVEL0_FILES,
        "stopped_shards": state.STOPPED_WRITES,
        "background_errors": state.BACKGROUND_ERRORS,
        "cache_bytes": state.BLOCK_CACHE,
        "cache_pinned_bytes": state.BLOCK_CACHE_PINNED,
        "cache_capacity_bytes": state.BLOCK_CACHE_CAPACITY,
    }
)
"""The metric of each figure of ``streams.store.store_statistics.StoreStatistics``."""


class ShardMetrics:
    """What a worker notes of its shards. Methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Put the metrics on ``registry``."""
        self._lock = threading.Lock()
        self._recovering: dict[int, int] = {}
        self._store_documents = PartitionGauge(state.STORE_DOCUMENTS, registry)
        self._waiting_documents = PartitionGauge(state.WAITING_DOCUMENTS, registry)
        self._deletes = counter(state.DELETES, registry)
        removed = counter(state.REMOVED_ENTRIES, registry)
        self._removed = {reason: removed.labels(reason) for reason in ("deleted", "expired")}
        self._oldest_entry = gauge(state.OLDEST_ENTRY, registry)
        self._watermark = gauge(state.WATERMARK, registry)
        self._store_figures = {
            name: gauge(definition, registry) for name, definition in STORE_FIGURES.items()
        }
        self._disk_free = gauge(state.STATE_DISK_FREE, registry)
        self._disk_size = gauge(state.STATE_DISK_SIZE, registry)
        self._assigned_shards = gauge(defined.ASSIGNED_SHARDS, registry)
        self._opening_shards = gauge(defined.OPENING_SHARDS, registry)
        self._standby_shards = gauge(defined.STANDBY_SHARDS, registry)
        self._standby_lag = gauge(defined.STANDBY_LAG, registry)
        self._recovery_remaining = gauge(defined.RECOVERY_REMAINING, registry)
        self._recovery_duration = BatchHistogram(defined.RECOVERY_DURATION, registry)

    def assigned_shards(self, shards: int) -> None:
        """Note how many shards this worker owns; 0 forgets what was noted of each."""
        with self._lock:
            if shards == 0:
                self._store_documents.replace({})
                self._waiting_documents.replace({})
                self._recovering.clear()
                self._recovery_remaining.set(0)
            self._assigned_shards.set(shards)

    def shard_state(self, partition: int, entries: int, waiting: int) -> None:
        """Note the entries of a shard, and its raw records that are not put out yet."""
        self._store_documents.set((str(partition),), entries)
        self._waiting_documents.set((str(partition),), waiting)

    def removed(self, deletes: int, deleted: int, expired: int) -> None:
        """Count tombstones read, and entries that were deleted and that expired."""
        self._deletes.inc(deletes)
        self._removed["deleted"].inc(deleted)
        self._removed["expired"].inc(expired)

    def window(self, oldest_ms: int | None, watermark_ms: int | None) -> None:
        """Note the time of the oldest entry and the watermark, milliseconds; None: there is none.

        Both are 0 then, and so are times before 1970.
        """
        self._oldest_entry.set(max(0, oldest_ms or 0) / _MILLISECONDS)
        self._watermark.set(max(0, watermark_ms or 0) / _MILLISECONDS)

    def forget_shard(self, partition: int) -> None:
        """Remove the series of a shard that left this worker."""
        self._store_documents.remove((str(partition),))
        self._waiting_documents.remove((str(partition),))
        self.recovery_remaining(partition, 0)

    def open_shards(self, entries: Mapping[int, int]) -> None:
        """Take the shards that are open, with their entries: those of others leave, new ones come.

        A shard that puts nothing out notes no state itself.
        """
        noted = {int(partition) for (partition,) in self._store_documents.labels()}
        for partition in noted - entries.keys():
            self.forget_shard(partition)
        for partition in entries.keys() - noted:
            self.shard_state(partition, entries[partition], waiting=0)

    def recovery_remaining(self, partition: int, messages: int) -> None:
        """Note how many changelog records a shard still has to read."""
        with self._lock:
            self._recovering[partition] = messages
            self._recovery_remaining.set(sum(self._recovering.values()))

    def opening_shards(self, shards: int) -> None:
        """Note how many of the assigned shards are not open yet."""
        self._opening_shards.set(shards)

    def standbys(self, shards: int, lag: int) -> None:
        """Note how many standbys this worker keeps, and how many changelog records they lack."""
        self._standby_shards.set(shards)
        self._standby_lag.set(lag)

    def recovered(self, seconds: float) -> None:
        """Note how long a shard took to open, from its assignment."""
        self._recovery_duration.observe((seconds,))

    def store(self, figures: Mapping[str, int]) -> None:
        """Note RocksDB's own figures of all shards together, by the names of ``STORE_FIGURES``."""
        for name, figure in figures.items():
            self._store_figures[name].set(figure)

    def state_disk(self, free_bytes: int, size_bytes: int) -> None:
        """Note the room on the disk of the state."""
        self._disk_free.set(free_bytes)
        self._disk_size.set(size_bytes)
