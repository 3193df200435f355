"""Databases in memory, on a simulated disk that keeps or loses what was written."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from streams.store.row_store import (
    Rows,
    StoreAccessError,
    StoreClosedError,
    StoreCorruptError,
    StoreLockedError,
    StoreMissingError,
)

_COMMITS_KEPT = 16

_Changes = list[tuple[bytes, bytes | None]]


class _Database:
    """A ``base`` and the last ``commits``; together they are ``values``, with sorted ``keys``."""

    def __init__(self, base: Mapping[bytes, bytes], commits: Iterable[_Changes] = ()) -> None:
        self.base = dict(base)
        self.commits = list(commits)
        self.damage: str | None = None
        self.is_open = False
        self.values = dict(self.base)
        for changes in self.commits:
            _apply(changes, self.values)
        self.keys = sorted(self.values)
        self.is_read = False  # whether a scan uses ``keys`` and ``values``

    def copy(self) -> _Database:
        copied = _Database(self.base, self.commits)
        copied.damage = self.damage
        return copied

    def write(self, changes: _Changes) -> None:
        self.commits.append(changes)
        if len(self.commits) > _COMMITS_KEPT:
            _apply(self.commits.pop(0), self.base)
        if self.is_read:
            self.keys, self.values = self.keys.copy(), self.values.copy()
            self.is_read = False
        for key, value in changes:
            if value is None:
                if self.values.pop(key, None) is not None:
                    del self.keys[bisect_left(self.keys, key)]
                continue
            if key not in self.values:
                insort(self.keys, key)
            self.values[key] = value


class MemoryDisk:
    """The databases of one machine, by directory. A ``StoreDisk``."""

    def __init__(self) -> None:
        self._databases: dict[Path, _Database] = {}
        self._failure: str | None = None

    # ---- calls of a worker

    def holds(self, path: Path) -> bool:
        database = self._databases.get(path)
        if database is not None and database.damage is not None:
            raise StoreCorruptError(path, database.damage)
        return database is not None

    def open(self, path: Path, *, create: bool) -> MemoryRows:
        if self._failure is not None:
            raise StoreAccessError(path, self._failure)
        if not self.holds(path):
            if not create:
                raise StoreMissingError(path, "there is no database here")
            self._databases[path] = _Database({})
        database = self._databases[path]
        if database.is_open:
            raise StoreLockedError(path, "it is open")
        database.is_open = True
        return MemoryRows(path, database)

    def discard(self, path: Path) -> None:
        if self._failure is not None:
            raise StoreAccessError(path, self._failure)
        database = self._databases.pop(path, None)
        if database is not None:
            assert not database.is_open, f"{path} is open"

    # ---- faults of the machine

    @property
    def paths(self) -> list[Path]:
        return sorted(self._databases)

    def kill(self) -> None:
        """End the process that has databases open: each keeps what was written, and is closed."""
        for path, database in self._databases.items():
            self._databases[path] = database.copy()

    def lose(self, path: Path, first: int, last: int = 0) -> None:
        """Lose commits of a closed database, numbered from the end; at most 16.

        ``lose(path, 3)`` loses the last three, as a loss of power does. ``lose(path, 3, 1)`` loses
        two commits before the last one, as a disk that loses a file.
        """
        database = self._closed(path)
        kept = len(database.commits)
        commits = database.commits[: max(0, kept - first)] + database.commits[kept - last :][:last]
        self._databases[path] = _Database(database.base, commits)

    def copy(self) -> MemoryDisk:
        copied = MemoryDisk()
        copied._databases = {path: each.copy() for path, each in self._databases.items()}
        return copied

    def put_back(self, copied: MemoryDisk) -> None:
        for path in self.paths:
            self._closed(path)
        self._databases = copied.copy()._databases

    def damage(self, path: Path, what: str = "a file is damaged") -> None:
        self._databases[path].damage = what

    def fail(self, what: str | None) -> None:
        """Refuse to open or delete databases, with the reason ``what``, until a call with None."""
        self._failure = what

    def _closed(self, path: Path) -> _Database:
        database = self._databases[path]
        assert not database.is_open, f"{path} is open"
        return database


class MemoryRows:
    """A ``RowStore`` that is open until ``close``; the protocol describes the methods."""

    def __init__(self, path: Path, database: _Database) -> None:
        self.path = path
        self.closed = False
        self._database = database

    def get(self, key: bytes) -> bytes | None:
        return self._opened().values.get(key)

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        return [*map(self._opened().values.get, keys)]

    def scan(self, lower: bytes, upper: bytes, limit: int) -> Iterator[Rows]:
        database = self._opened()
        database.is_read = True
        keys, values = database.keys, database.values
        first, end = bisect_left(keys, lower), bisect_left(keys, upper)
        for start in range(first, end, limit):
            self._opened()
            part = keys[start : min(start + limit, end)]
            yield part, [values[key] for key in part]

    def last_key_between(self, lower: bytes, upper: bytes) -> bytes | None:
        keys = self._opened().keys
        index = bisect_left(keys, upper) - 1
        return keys[index] if index >= 0 and keys[index] >= lower else None

    def number(self, name: str) -> int:
        del name
        self._opened()
        return 0  # only RocksDB has these figures

    def batch(self) -> MemoryBatch:
        return MemoryBatch(self)

    def write(self, changes: _Changes) -> None:
        self._opened().write(changes)

    def keys_between(self, lower: bytes, upper: bytes) -> list[bytes]:
        keys = self._opened().keys
        return keys[bisect_left(keys, lower) : bisect_left(keys, upper)]

    def damaged(self, what: str) -> StoreCorruptError:
        self._database.damage = what
        return StoreCorruptError(self.path, what)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._database.is_open = False

    def _opened(self) -> _Database:
        database = self._database
        if self.closed:
            raise StoreClosedError(self.path, "the store was closed")
        if database.damage is not None:
            raise StoreCorruptError(self.path, database.damage)
        return database


class MemoryBatch:
    """A ``RowBatch`` of ``MemoryRows``."""

    def __init__(self, store: MemoryRows) -> None:
        self._store = store
        self._changes: _Changes = []

    def put(self, key: bytes, value: bytes) -> None:
        self._changes.append((key, value))

    def delete(self, key: bytes) -> None:
        self._changes.append((key, None))

    def put_entries(self, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        self._changes += zip(keys, values, strict=True)

    def delete_entries(self, lower: bytes, upper: bytes) -> None:
        put = [key for key, value in self._changes if value is not None and lower <= key < upper]
        there = self._store.keys_between(lower, upper)
        self._changes += [(key, None) for key in [*there, *put]]

    def write(self) -> None:
        self._store.write(self._changes)
        self._changes = []


def _apply(changes: _Changes, values: dict[bytes, bytes]) -> None:
    for key, value in changes:
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
