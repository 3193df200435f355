"""Compares the local stores with the changelog, and both with the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from simhash_core.errors import FirstseenError
from simhash_core.text.profiles import index_digest
from streams.kafka.clients import AdminClient
from streams.maintenance import Report
from streams.maintenance.index_topics import (
    IndexTopics,
    LogGapError,
    LogState,
    changelog_of,
    committed_by,
    index_topics,
    read_log,
    shard_heads,
)
from streams.settings.settings import Settings
from streams.store.changelog import LoggedBatch
from streams.store.changelog_codec import LoggedProgress, furthest
from streams.store.row_codec import (
    ENTRIES,
    SOURCES,
    decode_source,
    encode_entry_rows,
    sequences_in,
)
from streams.store.row_store import SCANNED_ROWS, StoreCorruptError, StoreError, each_row
from streams.store.shard_directory import LocalShard, ShardView, shard_view
from streams.store.shard_segments import (
    SegmentDamagedError,
    SegmentOwner,
    check_columns,
    read_head,
    segment_paths,
    segments_directory,
)
from streams.worker.index_on_kafka import refuse_other_identity

# ---- The rows of a shard's store against the records of its changelog.
#
# Of each entry, only its sequence number and a digest of its content are in memory: 16 bytes for
# the store and 16 for the changelog. A shard of ten million entries takes 320 MB. RocksDB checks
# the checksum of each block, librdkafka that of each batch.

Where = Literal["disk", "changelog", "log", "group"]


class Finding(msgspec.Struct, frozen=True):
    """An inconsistency."""

    where: Where
    shard: int | None  # None: it concerns the whole index
    what: str  # names the file, record or document
    fix: str

    def __str__(self) -> str:
        shard = "" if self.shard is None else f" of shard {self.shard}"
        return f"{self.where}{shard}: {self.what}. {self.fix}"


_NAMED: Final = 10
_NONE: Final = np.empty(0, dtype=np.uint64)
_RESTORE: Final = (
    "Stop the worker and restore a checkpoint ('firstseen index restore'), or delete the store "
    "('firstseen index drop --shard'): the worker rebuilds it from the changelog"
)
_EITHER: Final = (
    "If a transaction of the changelog was aborted by hand, the disk is right and the changelog is "
    "not: keep the store, and see 'HungTransaction' in docs/operations.md. Otherwise: " + _RESTORE
)
_LOST: Final = (
    "The changelog itself is damaged: keep the store on disk, export it, and load the export "
    "into a new index ('firstseen index export', 'firstseen index load')"
)


class Entries(NamedTuple):
    """``sequences``: uint64 (n,), ascending. ``digests``: uint64 (n,)."""

    sequences: NDArray[np.uint64]
    digests: NDArray[np.uint64]


class ChangelogContent(NamedTuple):
    entries: Entries  # entries that are live at the changelog's end
    before: NDArray[np.uint64]  # entries before the offset up to which the store has read
    records_behind: int  # records after that offset
    findings: list[Finding]


def compare_shard(
    settings: Settings, view: ShardView, report: Report
) -> tuple[ChangelogContent, list[Finding]]:
    """Return the content of a shard's changelog, and its differences from the store."""
    findings: list[Finding] = []
    try:
        stored = _stored(view, report)
    except FirstseenError as error:
        findings.append(Finding("disk", view.owner.partition, _what(error), _RESTORE))
        stored = None
    logged = read_changelog(settings, view, report)
    findings += logged.findings
    if stored is not None and not logged.findings:
        findings += _differences(view, stored, logged)
    return logged, findings


def _stored(view: ShardView, report: Report) -> Entries:
    parts: list[Entries] = []
    bounds = ENTRIES.key(view.store.expired_before), ENTRIES.bounds[1]
    done = 0
    for keys, values in view.rows.scan(*bounds, SCANNED_ROWS):
        parts.append(Entries(sequences_in(keys), _digests(values)))
        done += len(keys)
        report(f"shard {view.owner.partition}: disk", done, len(view.store))
    return _joined(parts)


def read_changelog(settings: Settings, view: ShardView, report: Report) -> ChangelogContent:
    """Read the changelog of a shard as a worker without a store would. Blocking."""
    partition = view.owner.partition
    log = changelog_of(settings, partition)
    numbers: dict[tuple[str, int], int] = {
        decode_source(value): SOURCES.number(key)
        for key, value in each_row(view.rows, SOURCES.bounds)
    }
    reached = view.store.changelog_offset
    entries: list[Entries] = []
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
                progress = furthest(progress, decoded.progress)
                for deletions in decoded.deletions:
                    deleted.update(deletions.sequences)
                for block in decoded.blocks:
                    name = (block.chain.topic, block.chain.partition)
                    _, values = encode_entry_rows(block, numbers.setdefault(name, len(numbers)))
                    entries.append(Entries(block.sequences, _digests(values)))
                    if not is_behind:
                        before.append(block.sequences)
    except FirstseenError as error:
        finding = Finding("changelog", partition, _what(error), _LOST)
        return ChangelogContent(_joined([]), _NONE, behind, [finding])
    known = np.unique(np.concatenate([*before, _NONE]))
    return ChangelogContent(_live(_joined(entries), deleted, progress), known, behind, [])


def _differences(view: ShardView, stored: Entries, logged: ChangelogContent) -> Iterator[Finding]:
    partition = view.owner.partition
    wanted = logged.entries
    both, at_stored, at_logged = np.intersect1d(
        stored.sequences, wanted.sequences, assume_unique=True, return_indices=True
    )
    differing = both[stored.digests[at_stored] != wanted.digests[at_logged]]
    # Entries after the store's offset may be missing, and entries deleted there may still be on
    # disk.
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
        what = f"{len(stored.sequences):,} entries, but its counter is {len(view.store):,}"
        yield Finding("disk", partition, what, _RESTORE)


def _named(view: ShardView, sequence: int) -> str:
    entry = f"entry {sequence >> 16}:{sequence & 0xFFFF}"
    try:
        return f"{entry} (id {view.store.entries([sequence])[0].document_id!r})"
    except (FirstseenError, KeyError):
        return entry


def _live(entries: Entries, deleted: set[int], progress: LoggedProgress | None) -> Entries:
    """Return entries sorted, each once, without the deleted and expired ones."""
    sequences, at = np.unique(entries.sequences, return_index=True)
    digests = entries.digests[at]
    keep = ~np.isin(sequences, np.fromiter(deleted, np.uint64, len(deleted)))
    if progress is not None:
        keep &= sequences >= np.uint64(progress.expired_before)
    return Entries(sequences[keep], digests[keep])


def _split(batch: LoggedBatch, offset: int) -> Iterator[LoggedBatch]:
    at = int(np.searchsorted(np.array(batch.offsets), offset))
    for low, high in ((0, at), (at, len(batch.keys))):
        if high > low:
            yield batch._replace(
                keys=batch.keys[low:high],
                values=batch.values[low:high],
                offsets=batch.offsets[low:high],
            )


def _digests(rows: Sequence[bytes]) -> NDArray[np.uint64]:
    return np.fromiter(map(xxh3_64_intdigest, rows), np.uint64, len(rows))


def _joined(parts: Sequence[Entries]) -> Entries:
    parts = [Entries(_NONE, _NONE), *parts]
    return Entries(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _what(error: FirstseenError) -> str:
    """Return what is wrong, without the fix: a finding has its own."""
    if isinstance(error, StoreError):
        return f"{error.path}: {error.what}"
    return error.what if isinstance(error, LogGapError) else str(error)


_REBUILD: Final = (
    "Stop the worker and start it again: it rebuilds the file from the rows of the store"
)
_NEW_LOG: Final = "Stop the workers and run 'firstseen index new-log'"


class VerifiedShard(msgspec.Struct, frozen=True):
    partition: int
    documents: int
    records_behind: int  # changelog records that its store has not read


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    application: str
    index: str
    shards: list[VerifiedShard]
    log_start: int | None
    log_end: int | None
    undecided: int | None  # documents in the log without a verdict
    findings: list[Finding]


def verify_index(
    settings: Settings,
    admin: AdminClient,
    identity: str,
    stores: Sequence[LocalShard],
    report: Report,
) -> Verified:
    """Compare everything; safe beside running workers. Blocking.

    Raises ``UnansweredError`` and ``BrokerUnavailableError``, and ``OtherSettingsError`` for an
    index of other settings.
    """
    findings: list[Finding] = []
    shards: list[VerifiedShard] = []
    sequences: list[NDArray[np.uint64]] = []
    for shard in stores:
        try:
            with shard_view(shard.path) as view:
                refuse_other_identity(view.owner.index_identity, identity, str(shard.path))
                logged, findings_of_shard = compare_shard(settings, view, report)
                findings += findings_of_shard
                sequences.append(logged.entries.sequences)
                documents = len(view.store)
            shards.append(VerifiedShard(shard.partition, documents, logged.records_behind))
        except StoreCorruptError as error:
            findings.append(Finding("disk", shard.partition, _what(error), _RESTORE))
        except StoreError as error:
            findings.append(Finding("disk", shard.partition, str(error), ""))
    findings += _in_two_shards(sequences)
    owner = SegmentOwner(identity, settings.application_id)
    for directory in {segments_directory(each.path) for each in stores}:
        findings += check_segments(directory, owner, report)
    report("log", 0, 0)
    topics = index_topics(admin, settings, changes=False)
    state: LogState | None = None
    try:
        state = read_log(settings, identity, topics.shards)
    except FirstseenError as error:
        findings.append(Finding("log", None, _what(error), _NEW_LOG))
    else:
        findings += _of_log(state, topics)
    findings += _offsets(settings, topics)
    return Verified(
        application=settings.application_id,
        index=index_digest(identity),
        shards=shards,
        log_start=None if state is None else state.start,
        log_end=None if state is None else state.end,
        undecided=None if state is None else state.undecided,
        findings=findings,
    )


def _of_log(state: LogState, topics: IndexTopics) -> Iterator[Finding]:
    for damage in state.damaged:
        yield Finding("log", None, damage, _NEW_LOG)
    known = {chain.partition for chain, _ in state.heads}
    for each in topics.shards:
        if each.latest_entry >= state.end:
            what = f"it ends at {state.end}, but a shard has an entry at {each.latest_entry}"
            yield Finding("log", each.partition, what, _NEW_LOG)
        elif each.progress is not None and state.replica.lacks_committed(
            each.progress.progress.position, each.latest_entry
        ):
            what = (
                f"it has decisions only on what is before {state.replica.decided_before}, but the "
                "shard has committed what follows from later ones"
            )
            yield Finding("log", each.partition, what, _NEW_LOG)
        elif state.heads and each.latest_entry >= 0 and each.partition not in known:
            what = "the shard has entries, and no control record names it"
            yield Finding("log", each.partition, what, _NEW_LOG)


def _in_two_shards(sequences: Sequence[NDArray[np.uint64]]) -> list[Finding]:
    whole = np.concatenate([*sequences, _NONE])
    numbers, counts = np.unique(whole, return_counts=True)
    twice = int((counts > 1).sum())
    if not twice:
        return []
    first = int(numbers[counts > 1][0])
    what = f"{twice:,} entries are in two shards, the first at {first >> 16}:{first & 0xFFFF}"
    return [Finding("changelog", None, what, "Report this with a copy of the changelog")]


def _offsets(settings: Settings, topics: IndexTopics) -> list[Finding]:
    """Compare the group's offsets with the progress; one commit moves both."""
    committed = committed_by(settings, settings.application_id, topics.raw)
    findings: list[Finding] = []
    # A running worker may commit in between: read the progress last, so that it is at least as far.
    for each in shard_heads(settings, sorted(committed)):
        progress = None if each.progress is None else each.progress.progress
        if progress is None or not progress.chain.is_of(topics.raw.identifier):
            continue
        if progress.next < committed[each.partition]:
            what = (
                f"the group's offset is {committed[each.partition]}, but the shard has committed "
                f"outputs up to {progress.next}"
            )
            fix = "The group's offsets were set by hand: set them back to the progress of the shard"
            findings.append(Finding("group", each.partition, what, fix))
    return findings


def check_segments(directory: Path, owner: SegmentOwner, report: Report) -> Iterator[Finding]:
    """Yield what is wrong with the segment files of a worker.

    Safe beside a worker, which may delete a file meanwhile. Blocking.
    """
    paths = segment_paths(directory)
    for number, path in enumerate(paths):
        report("segment files", number, len(paths))
        try:
            head = read_head(path)
            check_columns(path, head)
        except FileNotFoundError:
            continue  # the worker has merged it with others
        except (SegmentDamagedError, OSError) as error:
            yield Finding("disk", None, str(error), _REBUILD)
            continue
        if head.owner != owner:
            yield Finding("disk", None, f"{path}: it is of another index", _REBUILD)
