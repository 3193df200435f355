"""One open RocksDB: bytes in, bytes out, and every error of it as a ``StoreError``.

**Nothing outlives** ``close``. RocksDB keeps its lock as long as an iterator lives, hence also one
that a traceback holds; so errors are raised with the tracebacks of their causes cut off.

**Damage is remembered.** A damaged block is noticed when it is read, perhaps days after the store
was opened, and opening it again would find nothing wrong; so the directory is marked, and refused
from then on.

**Rows that end early are an error.** An iterator at a damaged block is no longer valid, just
like one at its end; the difference is its status, which is read each time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rocksdict import (
    AccessType,
    Checkpoint,
    ColumnFamily,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteOptions,
)

from streams.store.rocksdb_options import ordered_read_options
from streams.store.state_codec import ENTRY_TAG
from streams.store.store_errors import (
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    is_of_rocksdb,
    store_error,
)

logger = logging.getLogger(__name__)

DAMAGE_MARK: Final = "DAMAGED"
"""The file in the directory of a store that was found damaged; it holds the message."""

_DEFAULT: Final = "default"
_ENTRIES: Final = "entries"

Rows = tuple[list[bytes], list[bytes]]
"""Keys and values, in step."""


class RocksStore:
    """A database that is open until ``close``; all methods raise ``StoreError``."""

    def __init__(
        self,
        path: Path,
        options: Options,
        write_options: WriteOptions,
        view_directory: Path | None = None,
    ) -> None:
        """Open the database at ``path``.

        ``view_directory``: for a view of a database that another process may have open. Nothing is
        written to the database, and no lock is taken; it shows what was written until now. RocksDB
        keeps files of the view itself in this directory.
        """
        self.path = path
        self.closed = False
        self._errors = _Translation(path)
        self._write_options = write_options
        with self._errors:
            # Named for each column family: an existing database would be opened with the options of
            # its files for that, without filters and with a cache of its own.
            families = {_DEFAULT: options, _ENTRIES: options}
            access = (
                AccessType.read_write()
                if view_directory is None
                else AccessType.secondary(str(view_directory))
            )
            self._db = Rdict(str(path), options, column_families=families, access_type=access)
            self._entries = self._db.get_column_family(_ENTRIES)
            self._entries_handle: ColumnFamily | None = self._db.get_column_family_handle(_ENTRIES)
        # What a view misses may have been moved by its owner.
        self._errors.marks_damage = view_directory is None

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None where there is none."""
        with self._errors:
            value: bytes | None = self._of(key).get(key)
            return value

    def put_entries(
        self, batch: WriteBatch, keys: Iterable[bytes], values: Iterable[bytes]
    ) -> None:
        """Add rows of entries to a batch that is for this store."""
        put, handle = batch.put, self._entries_handle
        for key, value in zip(keys, values, strict=True):
            put(key, value, handle)

    def delete_entry(self, batch: WriteBatch, key: bytes) -> None:
        """Add the deletion of an entry's row to a batch that is for this store."""
        batch.delete(key, self._entries_handle)

    def delete_entries(self, batch: WriteBatch, lower: bytes, upper: bytes) -> None:
        """Add the deletion of entries from ``lower`` up to, not including, ``upper``: one row."""
        batch.delete_range(lower, upper, self._entries_handle)

    def scan(self, lower: bytes, upper: bytes, limit: int) -> Iterator[Rows]:
        """Yield rows from ``lower`` up to, not including, ``upper``, in order, ``limit`` at a time.

        Both begin with the same tag, or neither with that of entries.
        """
        with self._errors:
            rows = self._of(lower).iter(ordered_read_options(lower, upper))
        try:
            with self._errors:
                rows.seek(lower)
            while True:
                with self._errors:
                    batch = _next_rows(rows, limit)
                if batch[0]:
                    yield batch
                if len(batch[0]) < limit:
                    return
        finally:
            del rows  # an error holds this frame, and must not hold the iterator

    def last_key_between(self, lower: bytes, upper: bytes) -> bytes | None:
        """Return the last key from ``lower`` up to, not including, ``upper``; None for none."""
        with self._errors:
            return _last_key(self._of(lower).iter(ordered_read_options(lower, upper)))

    def number(self, name: str) -> int:
        """Return one of RocksDB's figures of itself, ``rocksdb.…``; 0 where it has none."""
        with self._errors:
            return sum(each.property_int_value(name) or 0 for each in (self._db, self._entries))

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, whole or not at all; look-ups see it from now on."""
        with self._errors:
            self._db.write(batch, self._write_options)

    def checkpoint(self, path: Path) -> None:
        """Make a database at ``path`` that has what this one has now; files are shared by links."""
        with self._errors:
            Checkpoint(self._db).create_checkpoint(str(path))

    def damaged(self, what: str) -> StoreCorruptError:
        """Mark the store as damaged, unless this is a view; return the error to raise."""
        error = StoreCorruptError(self.path, what)
        if self._errors.marks_damage:
            mark_damaged(error)
        return error

    def close(self) -> None:
        """Let go of the files and of the lock. Closing again has no effect."""
        self._entries_handle = None  # it would keep the lock
        self.closed = True
        for family in (self._entries, self._db):
            try:
                with self._errors:
                    family.close()
            except StoreClosedError:
                continue
            except StoreError as error:
                # RocksDB writes its memory to files now, so as to open faster the next time. Where
                # it cannot, as on a disk that is full, the write-ahead log has all of it.
                logger.warning("closed without writing to files: %s", error)

    def _of(self, key: bytes) -> Rdict:
        """Return the column family that a key is in."""
        return self._entries if key[:1] == ENTRY_TAG else self._db


def mark_damaged(error: StoreCorruptError) -> None:
    """Leave a mark in the directory of a store, by which the next opening knows of ``error``."""
    try:
        (error.path / DAMAGE_MARK).write_text(f"{error}\n", "utf-8")
    except OSError as failed:
        logger.warning("%s: the mark of damage cannot be written: %s", error.path, failed)


class _Translation:
    """A block in which errors of RocksDB become those of ``streams.store.store_errors``."""

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
        del trace  # its frames hold iterators, and the new error will hold this frame
        if isinstance(error, Exception) and is_of_rocksdb(error):
            translated = store_error(self._path, error)
            if self.marks_damage and isinstance(translated, StoreCorruptError):
                mark_damaged(translated)
            raise translated from error.with_traceback(None)


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
