"""Where a shard's store lives, and how it is opened: made, or found to be the one that is meant.

::

    <state_dir>/<application id>/shard-<partition>/     one RocksDB

A store names its owner: index identity, application, partition, changelog topic. A store that
differs in any of these is refused, never adapted.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from rocksdict import Cache, WriteBatch

from simhash_core.errors import IndexMismatchError, UsageError
from streams.store.rocksdb_options import StoreSettings, store_options, write_options
from streams.store.rocksdb_store import DAMAGE_MARK, RocksStore
from streams.store.shard_store import ShardStore
from streams.store.state_codec import (
    ENTRY_TAG,
    FORMAT_VERSION,
    IDENTITY_KEY,
    StateDecodeError,
    StoreIdentity,
    after,
    decode_identity,
    encode_identity,
    format_version,
)
from streams.store.store_errors import (
    OtherChangelogError,
    StoreAccessError,
    StoreCorruptError,
    StoreMismatchError,
    StoreMissingError,
    StoreVersionError,
)

# RocksDB points at its newest state with this file; a directory without it holds no database.
_CURRENT: Final = "CURRENT"
_DATA_FILES: Final = ("*.sst", "*.log")
_DISCARDED: Final = ".discarded"
_ALL_ROWS: Final = (b"\x00", b"\xff")
_ALL_ENTRIES: Final = (ENTRY_TAG, after(ENTRY_TAG))


def shard_directory(state_dir: Path, application_id: str, partition: int) -> Path:
    """Return where the store of a shard lives.

    Raises ``UsageError`` for an application id that is not the name of a directory.
    """
    if application_id in {"", ".", ".."} or "/" in application_id or "\0" in application_id:
        raise UsageError(f"application id {application_id!r}: it must be a name for a directory")
    return state_dir / application_id / f"shard-{partition}"


def open_shard_store(
    path: Path,
    identity: StoreIdentity,
    bits: int,
    cache: Cache,
    settings: StoreSettings | None = None,
    *,
    must_exist: bool = False,
) -> ShardStore:
    """Open the store in the directory ``path``, and make it where there is none.

    ``bits``: of a fingerprint. ``cache`` is for all stores of the process
    (``rocksdb_options.block_cache``). Raises ``StoreMissingError`` for none with ``must_exist``,
    ``IndexMismatchError`` for one of another index, and ``StoreError`` (its tree says which) for
    whatever else keeps it from being opened.
    """
    if not holds_a_store(path):
        if must_exist:
            raise StoreMissingError(path, "there is no store here")
        _make_directory(path)
    settings = settings or StoreSettings()
    options = store_options(settings, cache, create=not must_exist)
    store = RocksStore(path, options, write_options(settings))
    try:
        _check_identity(store, identity, may_be_new=not must_exist)
        return ShardStore(store, bits)
    except BaseException:
        store.close()
        raise


def discard_store(path: Path) -> None:
    """Delete the store in the directory ``path``, if there is one; it must be closed.

    It is moved aside first, so that a crash never leaves a store that lacks some of its files.
    Raises ``StoreAccessError``.
    """
    aside = path.with_name(path.name + _DISCARDED)
    try:
        if aside.exists():
            shutil.rmtree(aside)
        if path.exists():
            path.rename(aside)
            shutil.rmtree(aside)
    except OSError as error:
        raise StoreAccessError(path, f"cannot be deleted: {error}") from error


def holds_a_store(path: Path) -> bool:
    """Return whether there is a store; raises ``StoreCorruptError`` for the ruins of one."""
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
        # RocksDB would start from nothing here, and delete what it does not know of.
        raise StoreCorruptError(path, f"{_CURRENT} is missing, but {ruins[0]} exists")
    return False


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreAccessError(path, f"the directory cannot be made: {error}") from error


def _check_identity(store: RocksStore, ours: StoreIdentity, *, may_be_new: bool) -> None:
    """Check whose store it is; one that is new becomes ours."""
    value = store.get(IDENTITY_KEY)
    if value is None:
        # The first commit of a store is its identity: where there is none, there is nothing.
        last = [store.last_key_between(*each) for each in (_ALL_ROWS, _ALL_ENTRIES)]
        if not may_be_new or any(last):
            raise StoreCorruptError(store.path, "it does not name its index")
        _write_identity(store, ours)
        return
    try:
        version = format_version(value)
        if version != FORMAT_VERSION:
            raise StoreVersionError(
                store.path, f"it has format {version}, this version reads {FORMAT_VERSION}"
            )
        theirs = decode_identity(value)
    except StateDecodeError as error:
        raise StoreCorruptError(store.path, str(error)) from error
    for name in ("application_id", "partition"):
        there, here = getattr(theirs, name), getattr(ours, name)
        if there != here:
            raise StoreMismatchError(
                store.path,
                f"it belongs to {name.replace('_', ' ')} {there}, not {here}",
            )
    if theirs.index_identity != ours.index_identity:
        raise IndexMismatchError(str(store.path), theirs.index_identity, ours.index_identity)
    _check_changelog(store, theirs, ours)


def _check_changelog(store: RocksStore, theirs: StoreIdentity, ours: StoreIdentity) -> None:
    """Check which topic the store was filled from; one that does not name it gets its name."""
    if not ours.changelog_id:
        return
    if not theirs.changelog_id:
        _write_identity(store, ours)
    elif theirs.changelog_id != ours.changelog_id:
        raise OtherChangelogError(
            store.path,
            f"it was filled from another changelog topic (id {theirs.changelog_id}, here "
            f"{ours.changelog_id}): that of another cluster, or one that was deleted since",
        )


def _write_identity(store: RocksStore, identity: StoreIdentity) -> None:
    batch = WriteBatch(raw_mode=True)
    batch.put(IDENTITY_KEY, encode_identity(identity))
    store.write(batch)
