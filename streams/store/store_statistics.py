"""RocksDB's own figures, added up over the shards of a worker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from rocksdict import Cache


class Measured(Protocol):
    """The store of a shard, as far as it is measured."""

    def number(self, name: str) -> int:
        """Return one of RocksDB's properties, ``rocksdb.…``; a microsecond each."""
        ...


class StoreStatistics(NamedTuple):
    """Figures of all open shards of a worker together.

    ``streams.monitoring.shard_metrics`` has the metric of each.
    """

    files_bytes: int
    memtable_bytes: int
    table_reader_bytes: int
    pending_compaction_bytes: int
    running_compactions: int
    level0_files: int
    stopped_shards: int
    background_errors: int
    cache_bytes: int
    cache_pinned_bytes: int
    cache_capacity_bytes: int


_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "files_bytes": "rocksdb.total-sst-files-size",
        "memtable_bytes": "rocksdb.size-all-mem-tables",
        "table_reader_bytes": "rocksdb.estimate-table-readers-mem",
        "pending_compaction_bytes": "rocksdb.estimate-pending-compaction-bytes",
        "running_compactions": "rocksdb.num-running-compactions",
        "level0_files": "rocksdb.num-files-at-level0",
        "stopped_shards": "rocksdb.is-write-stopped",
        "background_errors": "rocksdb.background-errors",
    }
)


def statistics_of(
    tables: Collection[Measured], cache: Cache, cache_capacity_bytes: int
) -> StoreStatistics:
    """Add up the figures of the tables, which share ``cache``."""
    sums = {
        figure: sum(table.number(name) for table in tables) for figure, name in _PROPERTIES.items()
    }
    return StoreStatistics(
        **sums,
        cache_bytes=cache.get_usage(),
        cache_pinned_bytes=cache.get_pinned_usage(),
        cache_capacity_bytes=cache_capacity_bytes,
    )
