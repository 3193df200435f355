"""The database interface of a shard's store, and its errors.

Workers use ``RocksStore``, simulations ``tests.rigs.memory_rows``; one contract suite tests both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import StateMismatchError

_REBUILD: Final = (
    "delete the directory and start again: a worker rebuilds it from the changelog; a state "
    "without a broker begins empty"
)


class StoreError(FirstseenError):
    """Something is wrong with a shard's store; ``what`` does not include the fix."""

    reason = ErrorReason.STORAGE

    fix = ""  # the end of the message: what to do

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self.what = what
        self.hint = self.fix
        super().__init__(f"{path}: {what}. {self.fix}".rstrip())


class StoreMissingError(StoreError):
    fix = "Is the path correct? It begins with state_dir and the application id."


class StoreLockedError(StoreError):
    fix = "Only one process can use it at a time: stop the other, or set another state_dir here."


class StoreMismatchError(StoreError, StateMismatchError):
    reason = ErrorReason.FORMAT

    fix = "Restore the old value, or set another state_dir here."


class OtherChangelogError(StoreMismatchError):
    fix = (
        "Is this the correct cluster? If so, delete this directory: the worker fills a new one "
        "from the changelog. Or set another state_dir."
    )


class StoreVersionError(StoreError, StateMismatchError):
    reason = ErrorReason.FORMAT

    fix = f"Use the version that wrote it, or a newer one; or {_REBUILD}."


class StoreCorruptError(StoreError):
    """Files of the store are damaged, missing, or not written by Firstseen."""

    reason = ErrorReason.FORMAT

    fix = f"Stop the process that uses it, {_REBUILD}."


class StoreAheadError(StoreCorruptError):
    """The store has commits that the changelog no longer has."""


class MissingEntryError(StoreCorruptError, KeyError):
    """An entry is not in the store.

    It is damage only if the store must have the entry; otherwise it is a plain ``KeyError``, and
    the store is not marked.
    """

    def __init__(self, path: Path, sequence: int) -> None:
        self.sequence = sequence
        super().__init__(path, f"entry {sequence} is missing")

    __str__ = Exception.__str__  # a KeyError would give the repr of its argument


class StoreFullError(StoreError):
    fix = "Make room on the disk (or raise the quota), then start again: nothing is lost."


class StoreAccessError(StoreError):
    fix = "Check the owner and the permissions of the directory, and the disk."


class StoreClosedError(StoreError):
    """The store was used after it was closed."""


SCANNED_ROWS: Final = 16_384

Rows = tuple[list[bytes], list[bytes]]


class RowBatch(Protocol):
    """Changes that are written together."""

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def put_entries(self, keys: Iterable[bytes], values: Iterable[bytes]) -> None: ...

    def delete_entries(self, lower: bytes, upper: bytes) -> None:
        """Delete all entries from ``lower`` to before ``upper``."""
        ...

    def write(self) -> None:
        """Write all changes or none; later reads see them. Raises ``StoreError``."""
        ...


class RowStore(Protocol):
    """An open database. All methods raise ``StoreError``, and ``StoreClosedError`` once closed."""

    @property
    def path(self) -> Path: ...

    @property
    def closed(self) -> bool: ...

    def get(self, key: bytes) -> bytes | None: ...

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the values of keys; all keys must have the same tag."""
        ...

    def scan(self, lower: bytes, upper: bytes, limit: int) -> Iterator[Rows]:
        """Yield present rows from ``lower`` to before ``upper``, ``limit`` at a time.

        Both bounds have one tag, or neither has the tag of entries.
        """
        ...

    def last_key_between(self, lower: bytes, upper: bytes) -> bytes | None:
        """Return the last key from ``lower`` to before ``upper``."""
        ...

    def number(self, name: str) -> int:
        """Return one of RocksDB's properties, ``rocksdb.…``; 0 if it does not exist."""
        ...

    def batch(self) -> RowBatch: ...

    def damaged(self, what: str) -> StoreCorruptError:
        """Mark the store as damaged, so that it is not opened again; return the error to raise."""
        ...

    def close(self) -> None:
        """Release the files and the lock; a second call has no effect."""
        ...


def each_row(store: RowStore, bounds: tuple[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield rows one by one, from the first of ``bounds`` to before the second."""
    for keys, values in store.scan(*bounds, SCANNED_ROWS):
        yield from zip(keys, values, strict=True)


class StoreDisk(Protocol):
    def holds(self, path: Path) -> bool:
        """Return whether there is a database; raise ``StoreCorruptError`` for a damaged one."""
        ...

    def open(self, path: Path, *, create: bool) -> RowStore:
        """Open the database in a directory, or create it with ``create``. Raises ``StoreError``."""
        ...

    def discard(self, path: Path) -> None:
        """Delete a closed database, completely even after a crash. Raises ``StoreAccessError``."""
        ...
