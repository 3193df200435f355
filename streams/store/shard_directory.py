"""Where a shard's store lives, and how it is created, opened and checked.

::

    <state_dir>/<application id>/shard-<partition>/     one RocksDB

A store names its owner: index identity, application, partition, changelog topic. A store of another
owner is never opened or changed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from rocksdict import Cache
from tenacity import retry, retry_if_exception_type, stop_after_attempt

from simhash_core.errors import IndexMismatchError, UsageError
from streams.errors import Problem, SettingsError
from streams.settings.settings import Settings
from streams.store.rocksdb_store import (
    CACHE_BYTES_MIN,
    DAMAGE_MARK,
    WRITE_BUFFER_BYTES,
    RocksStore,
    block_cache,
)
from streams.store.row_codec import (
    COMMITS,
    ENTRIES,
    FORMAT_VERSION,
    IDENTITY_KEY,
    StateDecodeError,
    StoreIdentity,
    decode_identity,
    encode_identity,
    format_version,
)
from streams.store.row_store import (
    OtherChangelogError,
    RowStore,
    StoreAccessError,
    StoreCorruptError,
    StoreDisk,
    StoreFullError,
    StoreMismatchError,
    StoreMissingError,
    StoreVersionError,
)
from streams.store.shard_store import ShardStore

# RocksDB names its current state in this file; a directory without it has no database.
_CURRENT: Final = "CURRENT"
_DATA_FILES: Final = ("*.sst", "*.log")
_DISCARDED: Final = ".discarded"
_ALL_ROWS: Final = (b"\x00", b"\xff")


def shard_directory(state_dir: Path, application_id: str, partition: int) -> Path:
    """Return the directory of a shard's store; raise ``UsageError`` for a bad application id."""
    if application_id in {"", ".", ".."} or "/" in application_id or "\0" in application_id:
        raise UsageError(f"application id {application_id!r}: it must be a valid directory name")
    return state_dir / application_id / f"shard-{partition}"


def bytes_under(directory: Path) -> int:
    """Return the bytes of all files below a directory; files may come and go."""
    total = 0
    for path, _, files in os.walk(directory):  # leaves out directories that are gone
        for file in files:
            with suppress(OSError):
                total += (Path(path) / file).stat().st_size
    return total


def make_state_directory(settings: Settings) -> None:
    """Create the directory of the shards; raise ``SettingsError`` if it cannot be written to.

    Raises ``StoreFullError`` if there is no space, and ``StoreAccessError`` if the disk fails.
    """
    path = settings.state_path()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFullError(path, str(error)) from error
        if error.errno == errno.EIO:
            raise StoreAccessError(path, str(error)) from error
        message = (
            f"the worker cannot write to {path}: {error.strerror}. Give its user write "
            "permission, or set state_dir (FIRSTSEEN_STATE_DIR) to a directory where it can write"
        )
        value = repr(str(settings.state_dir))
        problem = Problem("state_dir", value, "the worker's settings", message)
        raise SettingsError([problem]) from error


class RocksDisk:
    """The databases of a process, which share ``cache`` (``rocksdb_store.block_cache``)."""

    def __init__(self, cache: Cache, write_buffer_bytes: int = WRITE_BUFFER_BYTES) -> None:
        self._cache = cache
        self._write_buffer_bytes = write_buffer_bytes

    @staticmethod
    def holds(path: Path) -> bool:
        try:
            if (path / DAMAGE_MARK).exists():
                raise StoreCorruptError(
                    path, f"it was marked as damaged: see {DAMAGE_MARK} there for the reason"
                )
            if (path / _CURRENT).exists():
                return True
            ruins = sorted(file.name for each in _DATA_FILES for file in path.glob(each))
        except OSError as error:
            raise StoreAccessError(path, f"cannot be listed: {error}") from error
        if ruins:
            # RocksDB would start with an empty database here, and delete the files that it does not
            # know.
            raise StoreCorruptError(path, f"{_CURRENT} is missing, but {ruins[0]} exists")
        return False

    def open(self, path: Path, *, create: bool) -> RocksStore:
        if create:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreAccessError(path, f"the directory cannot be created: {error}") from error
        buffer = self._write_buffer_bytes
        return RocksStore(path, self._cache, create=create, write_buffer_bytes=buffer)

    @staticmethod
    def discard(path: Path) -> None:
        # It is renamed first, so that a crash never leaves a store without some files.
        aside = path.with_name(path.name + _DISCARDED)
        try:
            if aside.exists():
                shutil.rmtree(aside)
            if path.exists():
                path.rename(aside)
                shutil.rmtree(aside)
        except OSError as error:
            raise StoreAccessError(path, f"cannot be deleted: {error}") from error


def open_shard(
    path: Path, identity: StoreIdentity, bits: int, disk: StoreDisk, *, must_exist: bool = False
) -> ShardStore:
    """Open the store in the directory ``path``, or create it if there is none.

    ``bits`` is the width of a fingerprint. Raises ``StoreMissingError`` if there is none although
    it ``must_exist``, ``IndexMismatchError`` for the store of another index, and another
    ``StoreError`` if it cannot be opened.
    """
    if not disk.holds(path) and must_exist:
        raise StoreMissingError(path, "there is no store here")
    store = disk.open(path, create=not must_exist)
    try:
        _check_identity(store, identity, may_be_new=not must_exist)
        return ShardStore(store, bits)
    except BaseException:
        store.close()
        raise


def _check_identity(store: RowStore, ours: StoreIdentity, *, may_be_new: bool) -> None:
    value = store.get(IDENTITY_KEY)
    # The first commit writes the identity, so a store without identity must be empty.
    last = (store.last_key_between(*each) for each in (_ALL_ROWS, ENTRIES.bounds))
    if value is None and may_be_new and not any(last):
        _write_identity(store, ours, is_new=True)
        return
    theirs = _identity_in(store.path, value)
    for name in ("application_id", "partition"):
        there, here = getattr(theirs, name), getattr(ours, name)
        if there != here:
            raise StoreMismatchError(
                store.path, f"it belongs to {name.replace('_', ' ')} {there}, not {here}"
            )
    if theirs.index_identity != ours.index_identity:
        raise IndexMismatchError(str(store.path), theirs.index_identity, ours.index_identity)
    # Store the id of the topic that filled the store, if it was unknown until now.
    if ours.changelog_id and not theirs.changelog_id:
        _write_identity(store, ours)
    elif ours.changelog_id and theirs.changelog_id != ours.changelog_id:
        raise OtherChangelogError(
            store.path,
            f"it was filled from another changelog topic (id {theirs.changelog_id}, here "
            f"{ours.changelog_id}): one of another cluster, or one that was deleted since",
        )


def _identity_in(path: Path, value: bytes | None) -> StoreIdentity:
    if value is None:
        raise StoreCorruptError(path, "it does not name its index")
    try:
        version = format_version(value)
        if version != FORMAT_VERSION:
            raise StoreVersionError(
                path, f"it has format {version}, this version reads {FORMAT_VERSION}"
            )
        return decode_identity(value)
    except StateDecodeError as error:
        raise StoreCorruptError(path, str(error)) from error


def _write_identity(store: RowStore, identity: StoreIdentity, *, is_new: bool = False) -> None:
    batch = store.batch()
    if is_new:
        # So that the first commits, too, cannot be missing unnoticed.
        batch.put(COMMITS.key(0), b"")
    batch.put(IDENTITY_KEY, encode_identity(identity))
    batch.write()


# ---- A read-only view of a shard's store, even while a worker has it open.

_BITS: Final = re.compile(r"\bbits=(\d+)")
_CACHE_BYTES: Final = 8 * CACHE_BYTES_MIN
_TRIES: Final = 3


class ShardView(NamedTuple):
    """A read-only store: its owner, its entries, and its rows."""

    owner: StoreIdentity
    store: ShardStore
    rows: RocksStore

    def refuse_missing(self, entries: int) -> None:
        """Raise ``StoreCorruptError`` if the store has more than the ``entries`` that were read.

        RocksDB opens a view without the files that are missing or cut, and does not say so.
        """
        if entries != len(self.store):
            what = f"{entries:,} entries can be read, but its counter is {len(self.store):,}"
            raise StoreCorruptError(self.rows.path, what)


@contextmanager
def shard_view(path: Path) -> Iterator[ShardView]:
    """Open a view of the store in the directory ``path``; the end of the block closes it.

    The view is a secondary instance of RocksDB: it takes no lock, writes nothing to the directory,
    and shows what was written until it was opened. Raises ``StoreMissingError`` if there is no
    store, ``StoreCorruptError`` if it is marked as damaged, and other ``StoreError``s.
    """
    if not RocksDisk.holds(path):
        raise StoreMissingError(path, "there is no store here")
    with tempfile.TemporaryDirectory(prefix="firstseen-view-") as directory:
        view = _opened(path, Path(directory))
        with closing(view.store):
            yield view


@retry(  # the owner may delete a file meanwhile
    retry=retry_if_exception_type(StoreCorruptError), stop=stop_after_attempt(_TRIES), reraise=True
)
def _opened(path: Path, directory: Path) -> ShardView:
    rows = RocksStore(path, block_cache(_CACHE_BYTES), view_directory=directory)
    with ExitStack() as after_errors:
        after_errors.callback(rows.close)
        owner = _identity_in(path, rows.get(IDENTITY_KEY))
        bits = _BITS.search(owner.index_identity)
        if bits is None:
            raise StoreCorruptError(path, f"its identity has no width: {owner.index_identity}")
        view = ShardView(owner, ShardStore(rows, int(bits[1])), rows)
        after_errors.pop_all()
        return view


# ---- The shards of an index on this machine's disk.

_NAME: Final = re.compile(r"shard-(\d+)")


class LocalShard(NamedTuple):
    partition: int
    path: Path


def local_shards(settings: Settings, wanted: Sequence[int]) -> list[LocalShard]:
    """Return the ``wanted`` shards, or all on this disk; raise ``UsageError`` for missing ones."""
    root = settings.state_path()
    shards = {
        int(match[1]): each
        for each in (sorted(root.iterdir()) if root.is_dir() else [])
        if (match := _NAME.fullmatch(each.name))
    }
    missing = sorted(set(wanted) - shards.keys())
    if missing or not shards:
        which = f"no shard {missing[0]}" if missing else "no shard of any index"
        raise UsageError(
            f"there is {which} in {root}: is it on another machine, or under another state_dir "
            f"or application_id?"
        )
    return [LocalShard(each, shards[each]) for each in sorted(set(wanted) or shards)]


def local_shard(settings: Settings, partition: int) -> LocalShard:
    path = shard_directory(settings.state_dir, settings.application_id, partition)
    return LocalShard(partition, path)
