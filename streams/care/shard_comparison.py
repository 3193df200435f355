"""Compares the rows of a shard's store with the records of its changelog, entry by entry.

Of each side an entry is its sequence number and a digest of all that is known of it, 16 bytes in
memory; so a shard of ten million entries takes 320 MB. Rows are read by RocksDB, which checks the
checksum of each block; records by librdkafka, which checks those of each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from simhash_core.errors import FirstseenError
from streams.care.changelog_heads import changelog_of
from streams.settings.settings import Settings
from streams.store.changelog_codec import LoggedProgress
from streams.store.changelog_reader import LoggedBatch
from streams.store.entry_rows import encode_entry_rows
from streams.store.shard_view import ShardView
from streams.store.state_codec import (
    ENTRY_TAG,
    SOURCE_TAG,
    after,
    decode_source,
    entry_key,
    source_number,
)

Where = Literal["disk", "changelog", "log", "group"]


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it must be. ``shard`` None: it is of the whole index.

    ``what``: a sentence that names the file, the record or the document. ``fix``: what to do.
    """

    where: Where
    shard: int | None
    what: str
    fix: str

    def __str__(self) -> str:
        """One line for people."""
        shard = "" if self.shard is None else f" of shard {self.shard}"
        return f"{self.where}{shard}: {self.what}. {self.fix}"


Report = Callable[[str, int, int], None]

_SCANNED_ROWS: Final = 16_384
_NAMED: Final = 10
_RESTORE: Final = (
    "Stop the worker and restore a checkpoint ('firstseen index restore'), or delete the store "
    "('firstseen index drop --shard'): the worker rebuilds it from the changelog"
)
_EITHER: Final = (
    "If a transaction of the changelog was aborted by hand, the disk is right and the changelog is "
    "not: keep the store, and see 'HungTransaction' in docs/operations.md. Otherwise: " + _RESTORE
)
_LOST: Final = (
    "The changelog itself is damaged: keep the store on disk, and load an export of it into a "
    "new index ('firstseen index export', 'firstseen index load')"
)


class Entries(NamedTuple):
    """``sequences``: uint64 (n,), rising. ``digests``: uint64, in step."""

    sequences: NDArray[np.uint64]
    digests: NDArray[np.uint64]


class ChangelogContent(NamedTuple):
    """What a changelog says. ``entries``: all that are live at its end.

    ``before``: those that were written before the offset up to which the store has read.
    ``records_behind``: how many are behind it. ``progress``: the last one.
    """

    entries: Entries
    before: NDArray[np.uint64]
    records_behind: int
    progress: LoggedProgress | None
    findings: list[Finding]


def compare_shard(
    settings: Settings, view: ShardView, report: Report
) -> tuple[ChangelogContent, list[Finding]]:
    """Return what the changelog of a shard has, and what differs from the store. Blocking.

    Raises ``UnansweredError`` where the broker says nothing.
    """
    partition = view.owner.partition
    findings: list[Finding] = []
    try:
        stored = _stored(
            view, lambda done: report(f"shard {partition}: disk", done, len(view.store))
        )
    except FirstseenError as error:
        findings.append(Finding("disk", partition, _short(error), _RESTORE))
        stored = None
    logged = read_changelog(settings, view, report)
    findings += logged.findings
    if stored is not None and not logged.findings:
        findings += _differences(view, stored, logged)
    return logged, findings


def _stored(view: ShardView, report: Callable[[int], None]) -> Entries:
    """Read all rows of entries; raises ``StoreError``."""
    sequences: list[NDArray[np.uint64]] = []
    digests: list[NDArray[np.uint64]] = []
    done = 0
    lower = entry_key(view.store.expired_before)
    for keys, values in view.rows.scan(lower, after(ENTRY_TAG), _SCANNED_ROWS):
        sequences.append(_numbers(keys))
        digests.append(np.fromiter(map(xxh3_64_intdigest, values), np.uint64, len(values)))
        done += len(keys)
        report(done)
    return _joined(sequences, digests)


def read_changelog(settings: Settings, view: ShardView, report: Report) -> ChangelogContent:
    """Read the changelog of a shard as a worker would that has no store. Blocking."""
    partition = view.owner.partition
    log = changelog_of(settings, partition)
    numbers = _source_numbers(view)
    reached = view.store.changelog_offset
    sequences: list[NDArray[np.uint64]] = []
    digests: list[NDArray[np.uint64]] = []
    before: list[NDArray[np.uint64]] = []
    deleted: set[int] = set()
    progress: LoggedProgress | None = None
    behind = 0
    total = 0

    def left(records: int) -> None:
        nonlocal total
        total = max(total, records)
        report(f"shard {partition}: changelog", total - records, total)

    try:
        for whole in log.read(log.ends(reached)[0], left):
            for batch in _split(whole, reached):
                decoded = batch.decoded()
                is_behind = batch.offsets[0] >= reached
                behind += len(batch.keys) if is_behind else 0
                progress = decoded.progress or progress
                for deletions in decoded.deletions:
                    deleted.update(deletions.sequences)
                for block in decoded.blocks:
                    name = (block.chain.topic, block.chain.partition)
                    rows = encode_entry_rows(block, numbers.setdefault(name, len(numbers)))
                    sequences.append(block.sequences)
                    digests.append(
                        np.fromiter(map(xxh3_64_intdigest, rows.values), np.uint64, len(block))
                    )
                    if not is_behind:
                        before.append(block.sequences)
    except FirstseenError as error:
        finding = Finding("changelog", partition, _short(error), _LOST)
        none = np.empty(0, dtype=np.uint64)
        return ChangelogContent(Entries(none, none), none, behind, progress, [finding])
    entries = _live(_joined(sequences, digests), deleted, progress)
    known = np.unique(np.concatenate([*before, np.empty(0, dtype=np.uint64)]))
    return ChangelogContent(entries, known, behind, progress, [])


def _differences(view: ShardView, stored: Entries, logged: ChangelogContent) -> Iterator[Finding]:
    partition = view.owner.partition
    wanted = logged.entries
    both, at_stored, at_logged = np.intersect1d(
        stored.sequences, wanted.sequences, assume_unique=True, return_indices=True
    )
    differing = both[stored.digests[at_stored] != wanted.digests[at_logged]]
    # What the store has not read yet may be missing, and what is deleted there may still be here.
    missing = np.setdiff1d(wanted.sequences, stored.sequences, assume_unique=True)
    missing = missing[np.isin(missing, logged.before)]
    extra = np.setdiff1d(stored.sequences, wanted.sequences, assume_unique=True)
    if logged.records_behind:
        extra = extra[~np.isin(extra, logged.before)]
    for kind, sequences in (
        ("differs from the changelog", differing),
        ("is in the changelog and not on disk", missing),
        ("is on disk and not in the changelog", extra),
    ):
        advice = _EITHER if sequences is extra else _RESTORE
        for sequence in sequences[:_NAMED].tolist():
            yield Finding("disk", partition, f"{_named(view, sequence)} {kind}", advice)
        if len(sequences) > _NAMED:
            more = len(sequences) - _NAMED
            yield Finding("disk", partition, f"{more:,} more entries: each {kind}", advice)
    if len(stored.sequences) != len(view.store):
        what = f"{len(stored.sequences):,} entries, but its counter says {len(view.store):,}"
        yield Finding("disk", partition, what, _RESTORE)


def _named(view: ShardView, sequence: int) -> str:
    """Return what an entry is called: its place in the log, and its id where the disk has it."""
    entry = f"entry {sequence >> 16}:{sequence & 0xFFFF}"
    try:
        return f"{entry} (id {view.store.entries([sequence])[0].document_id!r})"
    except (FirstseenError, KeyError):
        return entry


def _live(entries: Entries, deleted: set[int], progress: LoggedProgress | None) -> Entries:
    """Return entries in order, each once, without those that are deleted or have expired."""
    sequences, at = np.unique(entries.sequences, return_index=True)
    digests = entries.digests[at]
    keep = ~np.isin(sequences, np.fromiter(deleted, np.uint64, len(deleted)))
    if progress is not None:
        keep &= sequences >= np.uint64(progress.expired_before)
    return Entries(sequences[keep], digests[keep])


def _split(batch: LoggedBatch, offset: int) -> Iterator[LoggedBatch]:
    """Divide a batch at an offset."""
    at = int(np.searchsorted(np.array(batch.offsets), offset))
    for low, high in ((0, at), (at, len(batch.keys))):
        if high > low:
            yield batch._replace(
                keys=batch.keys[low:high],
                values=batch.values[low:high],
                offsets=batch.offsets[low:high],
            )


def _source_numbers(view: ShardView) -> dict[tuple[str, int], int]:
    """Return the numbers by which rows name raw partitions."""
    numbers: dict[tuple[str, int], int] = {}
    for keys, values in view.rows.scan(SOURCE_TAG, after(SOURCE_TAG), _SCANNED_ROWS):
        for key, value in zip(keys, values, strict=True):
            name = decode_source(value)
            numbers[name.topic, name.partition] = source_number(key)
    return numbers


def _numbers(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    joined = b"".join([key[1:] for key in keys])
    return np.frombuffer(joined, dtype=">u8").astype(np.uint64)


def _joined(
    sequences: Sequence[NDArray[np.uint64]], digests: Sequence[NDArray[np.uint64]]
) -> Entries:
    none = np.empty(0, dtype=np.uint64)
    return Entries(np.concatenate([*sequences, none]), np.concatenate([*digests, none]))


def _short(error: FirstseenError) -> str:
    """Return what an error says without its advice."""
    return str(error).split(". Stop what uses it")[0].rstrip(".")
