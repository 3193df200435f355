"""One open RocksDB: bytes in, bytes out, and every error of it as a ``StoreError``.

**Nothing outlives** ``close``. RocksDB keeps its lock as long as an iterator lives, hence also one
that a traceback holds; so errors are raised with the tracebacks of their causes cut off.

**Damage is remembered.** A damaged block is met when it is read, perhaps days after the store was
opened, and opening it again would find nothing wrong; so the directory is marked, and refused from
then on.

**Rows that end early are an error.** An iterator that meets a damaged block is no more valid, just
like one at its end; the difference is its status, which is asked for each time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rocksdict import Options, Rdict, RdictIter, WriteBatch, WriteOptions

from streams.rocksdb_options import bucket_read_options, ordered_read_options
from streams.store_errors import (
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    is_of_rocksdb,
    store_error,
)

logger = logging.getLogger(__name__)

DAMAGE_MARK: Final = "DAMAGED"
"""The file in the directory of a store that was found damaged; it holds the message."""

Rows = tuple[list[bytes], list[bytes]]
"""Keys and values, in step."""


class RocksStore:
    """A database that is open until ``close``; all methods raise ``StoreError``."""

    def __init__(self, path: Path, options: Options, write_options: WriteOptions) -> None:
        """Open the database at ``path``."""
        self.path = path
        self.closed = False
        self._errors = _Translation(path)
        self._write_options = write_options
        self._read_options = bucket_read_options()
        self._iterator: RdictIter | None = None
        with self._errors:
            # Named for the column family too: an existing database would be opened with the options
            # of its files for that, without filters and with a cache of its own.
            self._db = Rdict(str(path), options, column_families={"default": options})
        self._errors.marks_damage = True

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None where there is none."""
        with self._errors:
            value: bytes | None = self._db.get(key)
            return value

    def rows_of(self, prefixes: Iterable[bytes]) -> Rows:
        """Return all that begins with each of the prefixes, which are no shorter than a bucket's.

        The rows of a prefix stand in order, and the prefixes in theirs.
        """
        with self._errors:
            # One iterator for all look-ups between two writes: to make one for each bucket costs
            # more than to read it. It sees the database as it was when it was made.
            if self._iterator is None:
                self._iterator = self._db.iter(self._read_options)
            return _rows_of(self._iterator, prefixes)

    def rows_between(self, lower: bytes, upper: bytes) -> Rows:
        """Return all from ``lower`` up to, not including, ``upper``, in order."""
        with self._errors:
            rows = self._db.iter(ordered_read_options(lower, upper))
            return _rows_between(rows, lower)

    def last_key_between(self, lower: bytes, upper: bytes) -> bytes | None:
        """Return the last key from ``lower`` up to, not including, ``upper``; None for none."""
        with self._errors:
            rows = self._db.iter(ordered_read_options(lower, upper))
            return _last_key(rows)

    def number(self, name: str) -> int:
        """Return one of RocksDB's figures of itself, ``rocksdb.…``; 0 where it has none."""
        with self._errors:
            return self._db.property_int_value(name) or 0

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, whole or not at all; look-ups see it from now on."""
        with self._errors:
            self._db.write(batch, self._write_options)
        self._iterator = None

    def damaged(self, what: str) -> StoreCorruptError:
        """Mark the store as damaged, and return the error to raise."""
        error = StoreCorruptError(self.path, what)
        mark_damaged(error)
        return error

    def close(self) -> None:
        """Let go of the files and of the lock. Closing again has no effect."""
        self._iterator = None
        self.closed = True
        try:
            with self._errors:
                self._db.close()
        except StoreClosedError:
            return
        except StoreError as error:
            # RocksDB writes its memory to files now, so as to open faster the next time. Where it
            # cannot, as on a disk that is full, the write-ahead log has all that was committed.
            logger.warning("closed without writing to files: %s", error)


def mark_damaged(error: StoreCorruptError) -> None:
    """Leave a mark in the directory of a store, by which the next opening knows of ``error``."""
    try:
        (error.path / DAMAGE_MARK).write_text(f"{error}\n", "utf-8")
    except OSError as failed:
        logger.warning("%s: the mark of damage cannot be written: %s", error.path, failed)


class _Translation:
    """A block in which errors of RocksDB become those of ``streams.store_errors``."""

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


def _rows_of(rows: RdictIter, prefixes: Iterable[bytes]) -> Rows:
    keys: list[bytes] = []
    values: list[bytes] = []
    seek, valid, advance, key, value = rows.seek, rows.valid, rows.next, rows.key, rows.value
    for prefix in prefixes:
        seek(prefix)
        while valid():
            found = key()
            # The filters' prefix is that of a block's bucket; a content bucket has a longer one.
            if not found.startswith(prefix):
                break
            keys.append(found)
            values.append(value())
            advance()
        else:
            rows.status()
    return keys, values


def _rows_between(rows: RdictIter, lower: bytes) -> Rows:
    keys: list[bytes] = []
    values: list[bytes] = []
    rows.seek(lower)
    while rows.valid():
        keys.append(rows.key())
        values.append(rows.value())
        rows.next()
    rows.status()
    return keys, values


def _last_key(rows: RdictIter) -> bytes | None:
    rows.seek_to_last()
    if rows.valid():
        last: bytes = rows.key()
        return last
    rows.status()
    return None
