"""The errors of a shard's store on disk, as one tree, and what RocksDB's messages mean.

::

    FirstseenError
    ├── StoreError                 any of these; ``path`` is the directory of the shard
    │   ├── StoreMissingError      there is no store, and there must be one
    │   ├── StoreLockedError       another process, or this one, has it open
    │   ├── StoreMismatchError     it belongs to another application or shard
    │   ├── StoreVersionError      its format is of another version of Firstseen
    │   ├── StoreCorruptError      its files are damaged
    │   ├── StoreFullError         there is no room to write
    │   ├── StoreAccessError       the file system refused: permissions, input or output error
    │   └── StoreClosedError       the caller's mistake: used after ``close``
    └── IndexMismatchError         (core) it was made under another index identity

A worker's store is a view of its shard's changelog, so the last way out is always the same: stop
the worker, delete the directory, start again. The state of a command without a broker has no
changelog, and is lost then.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocksdict import DbClosedError

from simhash_core.errors import ErrorReason, FirstseenError
from streams.errors import StateMismatchError

_REBUILD: Final = (
    "delete the directory and start again: a worker rebuilds it from the changelog; a state "
    "without a broker begins empty"
)


class StoreError(FirstseenError):
    """Something is wrong with the store of a shard.

    ``path``: its directory; ``what``: what is wrong, without the fix.
    """

    reason = ErrorReason.STORAGE

    fix = ""
    """What to do, as it ends the message."""

    def __init__(self, path: Path, what: str) -> None:
        """Keep the path and what is wrong; the message is both, and the fix."""
        self.path = path
        self.what = what
        self.hint = self.fix
        super().__init__(f"{path}: {what}. {self.fix}".rstrip())


class StoreMissingError(StoreError):
    """There is no store, and there must be one."""

    fix = "Is the path right? It begins with state_dir and the application id."


class StoreLockedError(StoreError):
    """The store is open already, in another process or in this one."""

    fix = "Only one process at a time can use it: stop the other, or set another state_dir here."


class StoreMismatchError(StoreError, StateMismatchError):
    """The store belongs to another application or shard."""

    reason = ErrorReason.FORMAT

    fix = "Restore the old value, or set another state_dir here."


class OtherChangelogError(StoreMismatchError):
    """The store was filled from another changelog topic of the same name."""

    fix = (
        "Is this the right cluster? If it is, delete this directory: the worker fills a new one "
        "from the changelog. Or set another state_dir."
    )


class StoreVersionError(StoreError, StateMismatchError):
    """The store has a format that this version of Firstseen does not read."""

    reason = ErrorReason.FORMAT

    fix = f"Use the version that wrote it, or a newer one; or {_REBUILD}."


class StoreCorruptError(StoreError):
    """Files of the store are damaged, missing, or not ours."""

    reason = ErrorReason.FORMAT

    fix = f"Stop what uses it, {_REBUILD}."


class StoreFullError(StoreError):
    """There is no room to write; nothing of the commit was written."""

    fix = "Make room on the disk (or raise the quota), then start again: nothing is lost."


class StoreAccessError(StoreError):
    """The file system refused to read or write."""

    fix = "Check the owner and the permissions of the directory, and the disk."


class StoreClosedError(StoreError):
    """The store was used after ``close``."""


# RocksDB's errors arrive as plain ``Exception`` with a text. The first phrase that stands in the
# text decides; "Corruption" stands before "No such file", because a file of the store that is gone
# is damage, whoever took it.
_CLASS_BY_PHRASE: Final[tuple[tuple[str, type[StoreError]], ...]] = (
    ("lock hold by current process", StoreLockedError),
    ("While lock file", StoreLockedError),
    ("No space left on device", StoreFullError),
    ("Disk quota exceeded", StoreFullError),
    ("File too large", StoreFullError),
    ("Corruption", StoreCorruptError),
    ("No such file or directory", StoreCorruptError),
    ("does not exist (create_if_missing", StoreMissingError),
)


def is_of_rocksdb(error: Exception) -> bool:
    """Return whether ``error`` comes from RocksDB, and is no mistake in our own code."""
    return type(error) is Exception or isinstance(error, (DbClosedError, OSError))


def store_error(path: Path, error: Exception) -> StoreError:
    """Return what RocksDB's ``error`` about the store at ``path`` means."""
    if isinstance(error, DbClosedError):
        return StoreClosedError(path, "the store was closed")
    text = str(error)
    for phrase, error_class in _CLASS_BY_PHRASE:
        if phrase in text:
            return error_class(path, text.rstrip(". \n"))
    return StoreAccessError(path, text.rstrip(". \n"))
