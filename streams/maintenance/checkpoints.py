"""Checkpoints of shards: copies of stores with their log positions and digests.

::

    <directory>/shard-<partition>/           a RocksDB
    <directory>/shard-<partition>.json       what it is a copy of, and the digest of each file

The store of a stopped worker is copied file by file; that of a running worker row by row, from a
view of one commit. A restored store reads everything newer from its changelog.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Final

import msgspec

from simhash_core.errors import FirstseenError, UsageError
from streams.maintenance import Report
from streams.store.rocksdb_store import CACHE_BYTES_MIN, RocksStore, block_cache
from streams.store.row_codec import ENTRIES, sequences_in
from streams.store.row_store import StoreCorruptError, StoreLockedError
from streams.store.shard_directory import LocalShard, RocksDisk, ShardView, shard_view

CHECKPOINT_SCHEMA: Final = "firstseen.index-checkpoint/1"

_SCANNED_ROWS: Final = 8_192
_PARTIAL: Final = ".partial"
_RANGES: Final = ((b"\x00", ENTRIES.tag), ENTRIES.bounds, (ENTRIES.bounds[1], b"\xff"))


class CheckpointError(FirstseenError):
    """A checkpoint cannot be made or used; the message says why."""


class CheckpointFile(msgspec.Struct, frozen=True):
    """A file; ``digest`` is BLAKE2b-128 of its bytes, in hexadecimal."""

    name: str
    bytes: int
    digest: str


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a checkpoint: which shard and which state it is a copy of."""

    schema: str
    application: str
    partition: int
    index: str
    documents: int
    log_position: int | None  # where reading resumes; None for a store without progress
    next_raw: int | None
    changelog_offset: int
    files: list[CheckpointFile]


def make_checkpoint(shard: LocalShard, directory: Path, report: Report) -> Checkpoint:
    """Copy a store; raise ``StoreError``, or ``CheckpointError`` if it cannot be copied there."""
    target = directory / f"shard-{shard.partition}"
    if target.exists():
        raise CheckpointError(f"{directory} already has a checkpoint of shard {shard.partition}")
    with _beside(target) as partial:
        if not _copy_files(shard, partial):
            with shard_view(shard.path) as view:
                _copy_rows(view, partial, report)
        with shard_view(partial) as copied:
            stored = copied.store.progress()
            checkpoint = Checkpoint(
                schema=CHECKPOINT_SCHEMA,
                application=copied.owner.application_id,
                partition=copied.owner.partition,
                index=copied.owner.index_identity,
                documents=len(copied.store),
                log_position=None if stored is None else stored.progress.position,
                next_raw=None if stored is None else stored.progress.next,
                changelog_offset=copied.store.changelog_offset,
                files=_files(partial, report),
            )
        _manifest(directory, shard.partition).write_bytes(
            msgspec.json.format(msgspec.json.encode(checkpoint), indent=1) + b"\n"
        )
        partial.rename(target)
    return checkpoint


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Yield a directory beside ``target`` to fill and rename; remove it if that fails."""
    partial = target.with_name(target.name + _PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        yield partial
    except OSError as error:  # of a copied folder: a list of its files, each with its reason
        why = error.strerror or error.args[0][0][-1]
        raise CheckpointError(f"cannot write to {target.parent}: {why}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def read_checkpoint(directory: Path, partition: int) -> Checkpoint:
    """Return the manifest of a checkpoint, or raise ``CheckpointError``."""
    manifest = _manifest(directory, partition)
    try:
        checkpoint = msgspec.json.decode(manifest.read_bytes(), type=Checkpoint)
    except OSError as error:
        raise CheckpointError(f"cannot read {manifest}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{manifest} is damaged: {error}") from None
    if checkpoint.schema != CHECKPOINT_SCHEMA:
        raise CheckpointError(
            f"{manifest} has the schema {checkpoint.schema}, not {CHECKPOINT_SCHEMA}"
        )
    return checkpoint


def checkpoints_in(directory: Path, wanted: Sequence[int]) -> list[int]:
    """Return the ``wanted`` shards, or all with a checkpoint; raise ``UsageError``."""
    there = {
        int(each.name.removeprefix("shard-"))
        for each in directory.glob("shard-*")
        if each.is_dir() and each.name.removeprefix("shard-").isdecimal()
    }
    missing = sorted(set(wanted) - there)
    if missing or not there:
        which = f"of shard {missing[0]}" if missing else "of any shard"
        raise UsageError(f"there is no checkpoint {which} in {directory}")
    return sorted(set(wanted) or there)


def check_files(directory: Path, checkpoint: Checkpoint, report: Report) -> None:
    """Raise ``CheckpointError``, which names the file, if one has changed."""
    path = directory / f"shard-{checkpoint.partition}"
    there = {each.name: each for each in _files(path, report)}
    for each in checkpoint.files:
        present = there.pop(each.name, None)
        if present is None:
            raise CheckpointError(f"{path / each.name} is missing")
        if present != each:
            raise CheckpointError(
                f"{path / each.name} is damaged: digest {present.digest}, expected {each.digest}"
            )
    if there:
        raise CheckpointError(f"{path / min(there)} is not in the list of the checkpoint's files")


def restore_checkpoint(
    directory: Path, checkpoint: Checkpoint, shard: LocalShard, report: Report, *, force: bool
) -> None:
    """Copy a checkpoint to the store's place.

    ``force`` replaces an existing store, unless it is open. Raises ``CheckpointError`` for a
    damaged checkpoint, one of another shard, or a full disk, ``StoreLockedError``, ``StoreError``.
    """
    check_files(directory, checkpoint, report)
    if shard.path.exists() and any(shard.path.iterdir()):
        if not force:
            raise CheckpointError(
                f"{shard.path} already has a store: --force replaces it with the checkpoint"
            )
        refuse_open(shard)
    with _beside(shard.path) as partial:
        shutil.copytree(directory / f"shard-{checkpoint.partition}", partial)
        with shard_view(partial) as view:
            owner = view.owner
        if (owner.application_id, owner.partition) != (shard.path.parent.name, shard.partition):
            raise CheckpointError(
                f"the checkpoint is of shard {owner.partition} of application "
                f"{owner.application_id!r}, not of {shard.path}"
            )
        RocksDisk.discard(shard.path)
        partial.rename(shard.path)


def refuse_open(shard: LocalShard) -> None:
    """Raise ``StoreLockedError`` if a process has the store open."""
    with suppress(StoreCorruptError), closing(_opened(shard)):  # no process opens a damaged store
        return


def _copy_files(shard: LocalShard, target: Path) -> bool:
    """Copy a store that is not open; return False if it is."""
    try:
        store = _opened(shard)
    except StoreLockedError:
        return False
    # RocksDB makes hard links on the disk of the store. Damage to a file would affect all of them,
    # so copy these.
    links = shard.path.with_name(shard.path.name + ".links")
    shutil.rmtree(links, ignore_errors=True)
    try:
        with closing(store):
            store.checkpoint(links)
        shutil.copytree(links, target)
    finally:
        shutil.rmtree(links, ignore_errors=True)
    return True


def _opened(shard: LocalShard) -> RocksStore:
    if not RocksDisk.holds(shard.path):
        raise CheckpointError(f"there is no store in {shard.path}")
    return RocksStore(shard.path, block_cache(CACHE_BYTES_MIN))


def _copy_rows(view: ShardView, target: Path, report: Report) -> None:
    total, done, live = len(view.store), 0, 0
    with closing(RocksStore(target, block_cache(CACHE_BYTES_MIN), create=True)) as copy:
        for bounds in _RANGES:
            for keys, values in view.rows.scan(*bounds, _SCANNED_ROWS):
                batch = copy.batch()
                if bounds == ENTRIES.bounds:
                    batch.put_entries(keys, values)
                    done += len(keys)
                    live += int((sequences_in(keys) >= view.store.expired_before).sum())
                else:
                    for key, value in zip(keys, values, strict=True):
                        batch.put(key, value)
                batch.write()
                report(f"copying shard {view.owner.partition}", done, total)
    view.refuse_missing(live)


def _manifest(directory: Path, partition: int) -> Path:
    return directory / f"shard-{partition}.json"


def _files(path: Path, report: Report) -> list[CheckpointFile]:
    """Return the files of a store with their digests, without its lock and its text log."""
    paths = sorted(
        each
        for each in path.iterdir()
        if each.is_file() and each.name != "LOCK" and not each.name.startswith("LOG")
    )
    files: list[CheckpointFile] = []
    for done, each in enumerate(paths):
        report("digests", done, len(paths))
        with each.open("rb") as opened:
            digest = file_digest(opened, lambda: blake2b(digest_size=16)).hexdigest()
            os.fsync(opened.fileno())
        files.append(CheckpointFile(each.name, each.stat().st_size, digest))
    return files
