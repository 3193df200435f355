"""One open RocksDB, which stores bytes and raises every error as a ``StoreError``.

- **Nothing outlives** ``close``. RocksDB keeps its lock as long as an iterator exists, even one in
  a traceback. So errors are raised without the tracebacks of their causes.
- **Closing may take seconds**, because memory is written to files, and may happen in a thread. Any
  use during or after it raises ``StoreClosedError``.
- **Damage is remembered.** RocksDB notices a damaged block only when it reads the block, perhaps
  days after the store was opened. So the directory is marked as damaged, and is refused from then
  on.
- **Rows that end early are an error.** An iterator at a damaged block is invalid, just like one at
  its end; only its status differs, so the status is checked each time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    ColumnFamily,
    DbClosedError,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
)

from simhash_core.errors import UsageError
from streams.store.row_codec import ENTRIES
from streams.store.row_store import (
    Rows,
    StoreAccessError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreMissingError,
)
from streams.store.shard_store import ShardStore

# ---- How RocksDB is opened for a shard, and why: every option that differs from its default.
#
# - **Entries in a column family of their own.** They are written in key order, so their files never
#   overlap and compaction moves them without reading them. In one family with rows that are
#   often rewritten, they were rewritten too, which took twice the processor time in all.
# - **Bloom filters.** A document without a fingerprint is looked up by its content, which is nearly
#   always new.
# - **Small write buffer, compaction at two files.** Each shard of a worker has two of them.
# - **No compression.** Fingerprints and sketches are random bits.
# - **One block cache for all shards of a process** (``block_cache``), of the lock-free kind.
# - **No memory mapping** of RocksDB's files, because it reads only a few entries per document.
# - **Write-ahead logs of two write buffers at most.** A log is kept while any column family has
#   rows that are in no file, and the few rows outside the entries need days to fill a buffer.
# - **Write-ahead log, not synchronised, read up to the first damaged record.** A commit is one
#   record. The operating system has it, so it survives kill -9. After a power loss the store is
#   in the state after an earlier commit, never between two commits; the rest is read again from
#   changelog or input.
# - **All column families are flushed together.** Otherwise a lost log removes rows of only one
#   family: rows by content then named entries that had expired.

MIB: Final = 1024 * 1024
BLOCK_CACHE_BYTES: Final = 256 * MIB
CACHE_BYTES_MIN: Final = MIB
_BLOCK_BYTES: Final = 8192
# For rows that are in no file yet; twice as much while it is written.
WRITE_BUFFER_BYTES: Final = 8 * MIB
_BLOOM_BITS_PER_KEY: Final = 10
_COMPACT_AT_FILES: Final = 2
_WAL_BUFFERS: Final = 2
_INFO_LOGS_KEPT: Final = 3
_INFO_LOG_BYTES: Final = 4 * MIB


def block_cache(capacity_bytes: int = BLOCK_CACHE_BYTES) -> Cache:
    """Return a block cache for all shards of a process; raise ``UsageError`` below a MiB."""
    if capacity_bytes < CACHE_BYTES_MIN:
        raise UsageError(
            f"a block cache of {capacity_bytes} bytes: it must have {CACHE_BYTES_MIN} or more"
        )
    return Cache.new_hyper_clock_cache(capacity_bytes, _BLOCK_BYTES)


def store_options(cache: Cache, write_buffer_bytes: int, *, create: bool) -> Options:
    table = BlockBasedOptions()
    table.set_block_size(_BLOCK_BYTES)
    table.set_block_cache(cache)
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)
    options = Options(raw_mode=True)
    # This copies the table options, so none may be set after it.
    options.set_block_based_table_factory(table)
    options.create_if_missing(create)
    options.set_write_buffer_size(write_buffer_bytes)
    options.set_max_total_wal_size(_WAL_BUFFERS * write_buffer_bytes)
    options.set_level_zero_file_num_compaction_trigger(_COMPACT_AT_FILES)
    options.set_compression_type(DBCompressionType.none())
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_atomic_flush(True)
    options.set_keep_log_file_num(_INFO_LOGS_KEPT)
    options.set_max_log_file_size(_INFO_LOG_BYTES)
    return options


def ordered_read_options(lower: bytes, upper: bytes) -> ReadOptions:
    """Return the options for reading keys from ``lower`` to before ``upper``."""
    options = ReadOptions()
    options.set_iterate_lower_bound(lower)
    options.set_iterate_upper_bound(upper)
    # A full scan is not repeated soon. The stubs lack this argument.
    options.fill_cache(False)  # type: ignore[call-arg]
    return options


def _has_rows(path: Path) -> bool:
    """Return whether anything was ever written to the database."""
    logs = any(log.stat().st_size for log in path.glob("*.log"))
    return logs or next(path.glob("*.sst"), None) is not None


# ---- RocksDB's own figures.

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
    shards: Collection[ShardStore], cache: Cache, cache_capacity_bytes: int
) -> dict[str, int]:
    """Sum the figures of a worker's shards; ``monitoring.metrics`` has a metric for each sum."""
    sums = {
        figure: sum(each.number(name) for each in shards) for figure, name in _PROPERTIES.items()
    }
    return sums | {
        "cache_bytes": cache.get_usage(),
        "cache_pinned_bytes": cache.get_pinned_usage(),
        "cache_capacity_bytes": cache_capacity_bytes,
    }


# ---- The database.

logger = logging.getLogger(__name__)

DAMAGE_MARK: Final = "DAMAGED"
"""This file marks a store as damaged; it is in the store's directory and contains the message."""

_DEFAULT: Final = "default"
_ENTRIES: Final = "entries"


class RocksBatch:
    """A ``RowBatch`` of a ``RocksStore``. It keeps no handle, which would keep the lock."""

    def __init__(self, store: RocksStore) -> None:
        self._store = store
        self._batch = WriteBatch(raw_mode=True)

    def put(self, key: bytes, value: bytes) -> None:
        self._batch.put(key, value, self._store.family_of(key))

    def delete(self, key: bytes) -> None:
        self._batch.delete(key, self._store.family_of(key))

    def put_entries(self, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        put, entries = self._batch.put, self._store.family_of(ENTRIES.tag)
        for key, value in zip(keys, values, strict=True):
            put(key, value, entries)

    def delete_entries(self, lower: bytes, upper: bytes) -> None:
        self._batch.delete_range(lower, upper, self._store.family_of(ENTRIES.tag))

    def write(self) -> None:
        self._store.write(self._batch)


class RocksStore:
    def __init__(
        self,
        path: Path,
        cache: Cache,
        *,
        create: bool = False,
        write_buffer_bytes: int = WRITE_BUFFER_BYTES,
        view_directory: Path | None = None,
    ) -> None:
        """Open the database at ``path``.

        With ``view_directory``, open a read-only view of a database that another process may have
        open. The view takes no lock and shows what was written until now. RocksDB writes its own
        files for the view to this directory.
        """
        self.path = path
        self.closed = False
        self._errors = _Translation(path)
        options = store_options(cache, write_buffer_bytes, create=create)
        with self._errors:
            # A damaged manifest can lack the family of entries. A new family would be empty,
            # although the progress says otherwise.
            options.create_missing_column_families(not _has_rows(path))
            # Options are set for each column family. Otherwise RocksDB uses those in the database's
            # files: no filters, and a separate cache.
            families = {_DEFAULT: options, _ENTRIES: options}
            access = (
                AccessType.read_write()
                if view_directory is None
                else AccessType.secondary(str(view_directory))
            )
            self._db = Rdict(str(path), options, column_families=families, access_type=access)
            self._entries = self._db.get_column_family(_ENTRIES)
            self._entries_handle: ColumnFamily | None = self._db.get_column_family_handle(_ENTRIES)
        # A file that a view does not find may have been moved by the owner.
        self._errors.marks_damage = view_directory is None

    def get(self, key: bytes) -> bytes | None:
        with self._errors:
            value: bytes | None = self._of(key).get(key)
            return value

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        with self._errors:
            values: list[bytes | None] = self._of(keys[0]).get([*keys]) or []
            return values

    def batch(self) -> RocksBatch:
        return RocksBatch(self)

    def scan(self, lower: bytes, upper: bytes, limit: int) -> Iterator[Rows]:
        with self._errors:
            rows = self._of(lower).iter(ordered_read_options(lower, upper))
        try:
            with self._errors:
                rows.seek(lower)
            while True:
                if self.closed:  # the iterator would continue and keep the lock
                    raise StoreClosedError(self.path, "the store was closed")
                with self._errors:
                    batch = _next_rows(rows, limit)
                if batch[0]:
                    yield batch
                if len(batch[0]) < limit:
                    return
        finally:
            del rows  # an error keeps this frame, which must not keep the iterator

    def last_key_between(self, lower: bytes, upper: bytes) -> bytes | None:
        with self._errors:
            last = _last_key(self._of(lower).iter(ordered_read_options(lower, upper)))
        # RocksDB applies an iterator's lower bound only when it moves from a row to the next.
        return last if last is not None and last >= lower else None

    def number(self, name: str) -> int:
        with self._errors:
            return sum(each.property_int_value(name) or 0 for each in (self._db, self._entries))

    def family_of(self, key: bytes) -> ColumnFamily | None:
        """Return a key's column family, None for the default; storing it would keep the lock."""
        if key[:1] != ENTRIES.tag:
            return None
        if self._entries_handle is None:
            raise StoreClosedError(self.path, "the store was closed")
        return self._entries_handle

    def write(self, batch: WriteBatch) -> None:
        with self._errors:
            self._db.write(batch)

    def checkpoint(self, path: Path) -> None:
        """Copy the present state to a new database at ``path``; hard links share the files."""
        with self._errors:
            Checkpoint(self._db).create_checkpoint(str(path))

    def damaged(self, what: str) -> StoreCorruptError:
        """Mark the store as damaged, unless this is a view; return the error to raise."""
        error = StoreCorruptError(self.path, what)
        if self._errors.marks_damage:
            mark_damaged(error)
        return error

    def close(self) -> None:
        self._entries_handle = None  # it would keep the lock
        self.closed = True
        for family in (self._entries, self._db):
            try:
                with self._errors:
                    family.close()
            except StoreClosedError:
                continue
            except StoreError as error:
                # Closing writes memory to files, so that the next opening is faster. If that fails,
                # for example on a full disk, the write-ahead log still has all rows.
                logger.warning("closed without a flush: %s", error)

    def _of(self, key: bytes) -> Rdict:
        return self._entries if key[:1] == ENTRIES.tag else self._db


def mark_damaged(error: StoreCorruptError) -> None:
    try:
        (error.path / DAMAGE_MARK).write_text(f"{error}\n", "utf-8")
    except OSError as failed:
        logger.warning("%s: the damage marker cannot be written: %s", error.path, failed)


class _Translation:
    """Context manager that turns RocksDB's errors into ``StoreError``s."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.marks_damage = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del trace  # its frames have iterators, and the new error will keep this frame
        if isinstance(error, Exception) and _is_of_rocksdb(error):
            translated = _store_error(self._path, error)
            if self.marks_damage and isinstance(translated, StoreCorruptError):
                mark_damaged(translated)
            raise translated from error.with_traceback(None)


# RocksDB raises plain ``Exception``s with a text. The first phrase that the text contains decides.
# "Corruption" comes before "No such file", because a missing file of the store is damage.
_CLASS_BY_PHRASE: Final[tuple[tuple[str, type[StoreError]], ...]] = (
    ("lock hold by current process", StoreLockedError),
    ("While lock file", StoreLockedError),
    ("No space left on device", StoreFullError),
    ("Disk quota exceeded", StoreFullError),
    ("File too large", StoreFullError),
    ("Corruption", StoreCorruptError),
    ("Column family not found", StoreCorruptError),
    ("No such file or directory", StoreCorruptError),
    ("does not exist (create_if_missing", StoreMissingError),
)


def _is_of_rocksdb(error: Exception) -> bool:
    return type(error) is Exception or isinstance(error, OSError) or _is_of_closing(error)


def _is_of_closing(error: Exception) -> bool:
    """Return whether the database is closed, or is being closed, which may take seconds."""
    return isinstance(error, DbClosedError) or (
        isinstance(error, RuntimeError) and str(error) == "Already mutably borrowed"
    )


def _store_error(path: Path, error: Exception) -> StoreError:
    if _is_of_closing(error):
        return StoreClosedError(path, "the store was closed")
    text = str(error).rstrip(". \n")
    for phrase, error_class in _CLASS_BY_PHRASE:
        if phrase in text:
            return error_class(path, text)
    return StoreAccessError(path, text)


def _next_rows(rows: RdictIter, limit: int) -> Rows:
    keys: list[bytes] = []
    values: list[bytes] = []
    valid, advance, key, value = rows.valid, rows.next, rows.key, rows.value
    while len(keys) < limit:
        if not valid():
            rows.status()
            break
        keys.append(key())
        values.append(value())
        advance()
    return keys, values


def _last_key(rows: RdictIter) -> bytes | None:
    rows.seek_to_last()
    if rows.valid():
        last: bytes = rows.key()
        return last
    rows.status()
    return None
