"""How RocksDB is opened for a shard, and why: every option that differs from its default.

- **Entries in a column family of their own.** They are written in the order of their keys, so their
  files never overlap and compaction moves them down without reading them; beside rows that are
  written again and again they were rewritten too, at twice the processor time in all.
- **Bloom filters.** A document without a fingerprint is looked up by its content, which is nearly
  always new.
- **Small write buffer, compaction at two files.** There are two for each shard of a worker.
- **No compression.** Fingerprints and sketches are random bits.
- **One block cache for all shards of a process** (``block_cache``), of the kind that takes no lock.
- **No memory mapping** of RocksDB's files: it reads a few entries a document.
- **Write-ahead logs of two write buffers at most.** A log is kept for as long as any column family
  has rows in it that are in no file, and the few rows beside the entries fill no buffer for days.
- **Write-ahead log, up to the first damaged record.** A commit is one record. After a loss of
  power the store is as it was after some earlier commit, never between two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    ReadOptions,
    WriteOptions,
)

from simhash_core.errors import UsageError

MIB: Final = 1024 * 1024
BLOCK_CACHE_BYTES: Final = 256 * MIB
CACHE_BYTES_MIN: Final = MIB
_BLOCK_BYTES: Final = 8192
_BLOOM_BITS_PER_KEY: Final = 10
_COMPACT_AT_FILES: Final = 2
_WAL_BUFFERS: Final = 2
_INFO_LOGS_KEPT: Final = 3
_INFO_LOG_BYTES: Final = 4 * MIB


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How a store writes. Raises ``UsageError`` for a value out of range.

    ``sync``: whether each commit waits until the disk has it. Without it a commit survives the
    death of the process, kill -9 included, because the operating system has it; a loss of power
    takes the last commits, whole. The store then says how far it goes, and what follows is read
    again: from the changelog, or from the input.

    ``write_buffer_bytes``: memory for what is not in a sorted file yet; twice as much is used
    while it is written.
    """

    sync: bool = False
    write_buffer_bytes: int = 8 * MIB

    def __post_init__(self) -> None:
        """Check the range."""
        if not MIB <= self.write_buffer_bytes <= 1024 * MIB:
            raise UsageError(
                f"write_buffer_bytes is {self.write_buffer_bytes}: it must be from {MIB} "
                f"to {1024 * MIB}"
            )


def block_cache(capacity_bytes: int = BLOCK_CACHE_BYTES) -> Cache:
    """Return a cache of blocks of files, to be shared by all shards of a process.

    Raises ``UsageError`` for less than a MiB.
    """
    if capacity_bytes < CACHE_BYTES_MIN:
        raise UsageError(
            f"a block cache of {capacity_bytes} bytes: it must have {CACHE_BYTES_MIN} or more"
        )
    return Cache.new_hyper_clock_cache(capacity_bytes, _BLOCK_BYTES)


def store_options(settings: StoreSettings, cache: Cache, *, create: bool) -> Options:
    """Return the options of a shard's store, for each of its column families."""
    table = BlockBasedOptions()
    table.set_block_size(_BLOCK_BYTES)
    table.set_block_cache(cache)
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)  # a copy: nothing may be set on it after this
    options.create_if_missing(create)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(settings.write_buffer_bytes)
    options.set_max_total_wal_size(_WAL_BUFFERS * settings.write_buffer_bytes)
    options.set_level_zero_file_num_compaction_trigger(_COMPACT_AT_FILES)
    options.set_compression_type(DBCompressionType.none())
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_keep_log_file_num(_INFO_LOGS_KEPT)
    options.set_max_log_file_size(_INFO_LOG_BYTES)
    return options


def ordered_read_options(lower: bytes, upper: bytes) -> ReadOptions:
    """Return how keys from ``lower`` up to, not including, ``upper`` are read."""
    options = ReadOptions()
    options.set_iterate_lower_bound(lower)
    options.set_iterate_upper_bound(upper)
    # What is read from end to end is not read again soon. The stubs lack the argument.
    options.fill_cache(False)  # type: ignore[call-arg]
    return options


def write_options(settings: StoreSettings) -> WriteOptions:
    """Return how a commit is written."""
    options = WriteOptions()
    options.sync = settings.sync
    return options
