"""Opens the stores of a worker's shards, and updates each to the end of its changelog.

The store is written after the commit, so it is normally not ahead of the changelog: it only lacks
the tail, which begins at the offset in the store. For an empty store the tail is the whole
changelog.

**Progress never goes back.** Without transactions, a paused worker may write an older progress
record after that of the next owner. The reader keeps the later progress, and skips entries that
came too late (``streams.store.changelog_codec``). Compaction may have removed the record with the
later progress. Then the shard starts from the older one, which repeats outputs and loses nothing.

**A store that is ahead is rebuilt.** Brokers that lose power may lose committed records. A store
that has read them would name originals that exist nowhere else. It is ahead if the changelog ends
before its offset, or if its last commit is not among those of the changelog
(``streams.store.lineage``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from secrets import token_bytes
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from simhash_core.errors import ErrorReason, FirstseenError, IndexMismatchError
from simhash_core.index.bucket_columns import completed
from simhash_core.index.document_index import DocumentIndex
from simhash_core.index.prints import Rows
from simhash_core.index.segment import build_segment
from simhash_core.text.profiles import REPLACE
from simhash_core.window import UNITS_MS
from streams.monitoring.metrics import Metrics
from streams.settings.settings import Delivery, Settings
from streams.store.changelog import Changelog, ChangelogLostError, LoggedBatch, Report
from streams.store.changelog_codec import WRITER_BYTES, Decoded, LoggedProgress, furthest
from streams.store.entry_batch import Removal
from streams.store.lineage import UNKNOWN, Lineage
from streams.store.rocksdb_store import block_cache, statistics_of
from streams.store.row_codec import EntryPrints, ProgressRow, StoreIdentity
from streams.store.row_store import (
    StoreAheadError,
    StoreCorruptError,
    StoreDisk,
    StoreVersionError,
)
from streams.store.shard_directory import RocksDisk, open_shard, shard_directory
from streams.store.shard_segments import (
    FILE_DOCUMENTS,
    FiledShard,
    SegmentOwner,
    ShardSegments,
    WorkerSegments,
    documents_limit,
    segments_directory,
)
from streams.store.shard_store import ShardStore
from streams.topics.plans import STANDSTILL_MS

# ---- Fills the index from a shard's segment files, and the rest from its rows.

logger = logging.getLogger(__name__)

_FILLED_TOGETHER: Final = 2048  # documents added to an index in one step of 12 ms


def make_missing_files(
    store: ShardStore, segments: ShardSegments, interrupted: threading.Event | None = None
) -> None:
    """Write segment files for rows that are in no file; rows too few for a file are the ``tail``.

    Blocking. Raises ``StoreError`` for unreadable rows, and ``InterruptedError`` soon after
    ``interrupted`` is set. If no file can be written, all rows are tail: the index is complete, but
    the next opening of the shard takes longer.
    """
    filed = store.filed()
    segments.find(filed, store.highest, store.expired_before, interrupted)
    if segments.filed() != filed:
        store.set_filed(segments.filed())
    limit = documents_limit(segments.files.scheme)
    parts: list[EntryPrints] = []
    documents = 0
    writable = True
    for part in store.prints(segments.files.scheme.sketch_bands, segments.next - 1):
        if interrupted is not None and interrupted.is_set():
            raise InterruptedError
        parts.append(part)
        documents += len(part.sequences)
        if writable and documents >= limit:
            parts = [EntryPrints.joined(parts)]
            writable = _written(store, segments, parts[0])
            if writable:
                parts, documents = [], 0
    if writable and documents >= FILE_DOCUMENTS:
        parts = [EntryPrints.joined(parts)]
        if _written(store, segments, parts[0]):
            parts = []
    segments.tail = parts


def fill_index(index: DocumentIndex, slot: int, store: ShardStore) -> Iterator[None]:
    """Add a shard's documents to an empty slot, in parts. Raises ``StoreError``."""
    segments = store.segments
    if segments is None:
        for part in store.prints(index.scheme.sketch_bands):
            yield from _add(index, slot, part)
        return
    files = {each.file.checksum: each.file for each in segments.claims}
    for file in files.values():
        number = file.head.number(segments.partition)
        assert number is not None
        index.claim(file.segment, number, slot, segments.ranges_in([file]))
        yield
    while segments.tail:
        yield from _add(index, slot, segments.tail.pop(0))
    index.remove(slot, np.array(store.gone(), dtype=np.uint64))


def _add(index: DocumentIndex, slot: int, part: EntryPrints) -> Iterator[None]:
    sequences, prints = part
    for first in range(0, len(sequences), _FILLED_TOGETHER):
        rows = slice(first, first + _FILLED_TOGETHER)
        index.add(slot, sequences[rows], prints.take(rows))
        yield


def _written(store: ShardStore, segments: ShardSegments, part: EntryPrints) -> bool:
    sequences, prints = part
    rows = Rows(sequences, np.zeros(len(sequences), dtype=np.uint16), prints)
    ranges = [(segments.next, int(sequences[-1]))]
    try:
        segment = completed(build_segment(segments.files.scheme, rows))
        file = segments.files.write(segment, [FiledShard(segments.partition, ranges)])
    except OSError as error:
        logger.warning("no segment file can be written: %s", error)
        return False
    segments.taken(file, ranges)
    store.set_filed(segments.filed())
    return True


# ---- Reads the changelog.


def catch_up(
    store: ShardStore, log: Changelog, identity: str, committed_next: int, report: Report
) -> int:
    """Read the tail of a changelog into the shard's store; return the number of records.

    ``committed_next`` is the raw offset that the group has committed (stable: without open
    transactions), 0 for none. The store's progress reaches it, unless the log may be cut. Blocking.
    Raises what ``Changelog.read`` raises, ``ChangelogFormatError`` for an unreadable record,
    ``IndexMismatchError`` for a changelog of another index, and ``StoreAheadError``.
    """
    start, before = store.changelog_offset, store.lineage
    last: Lineage | None = None  # of the last progress record that was read

    def lacks() -> str:
        """Return what is missing at the end of the changelog, where the store may prove ahead."""
        proven = None if log.may_go_back and last == UNKNOWN else last
        if not log.may_be_cut and is_ahead(before, proven):
            raise StoreAheadError(
                store.path,
                f"its commit {before.commit} is none of the changelog {log}: brokers have lost it",
            )
        stored = store.progress()
        reached = 0 if stored is None else stored.progress.next
        if reached >= committed_next:
            return ""
        return f"its progress is raw offset {reached}, the group's is {committed_next}"

    def load(batches: Iterable[LoggedBatch]) -> int:
        nonlocal last
        read = 0
        for batch in batches:
            decoded = batch.decoded()
            load_batch(store, batch, decoded, identity)
            last = _latest(decoded, last)
            read += sum(offset >= start for offset in batch.offsets)
        return read

    # The last progress record is read again, unless a later one has replaced it.
    first = start if log.may_be_cut else max(0, start - 1)
    read = load(log.read(first, report, lacks))
    stored = store.progress()
    if not log.may_go_back and stored is not None and stored.progress.next > committed_next:
        # The last commit may have begun another chain at an earlier offset, and not be readable.
        read += load(log.read(store.changelog_offset, report, waits=True))
    if missing := lacks():
        logger.warning(
            "the changelog %s lacks the last progress of the group: %s. The shard starts from the "
            "older one, so some documents are output twice",
            log,
            missing,
        )
    return read


def is_ahead(before: Lineage, last: Lineage | None) -> bool:
    """Return whether brokers have lost the last commit of a store.

    ``before`` is the lineage of the store before it read, ``last`` the last one that it read: at
    least that of its own last commit, unless that is lost.
    """
    return bool(before.commit) and (last is None or not last.continues(before))


def _latest(decoded: Decoded, last: Lineage | None = None) -> Lineage | None:
    """Return the lineage of the latest progress that has one; ``UNKNOWN`` if none of them has.

    ``last`` is that of earlier records. None: there is no progress.
    """
    for each in decoded.progress:
        if last is None or each.lineage != UNKNOWN:
            last = each.lineage
    return last


def load_batch(store: ShardStore, batch: LoggedBatch, decoded: Decoded, identity: str) -> Removal:
    """Write changelog records to the store; return what they remove. Raises as ``catch_up``."""
    for read in decoded.progress:
        if read.identity != identity:
            raise IndexMismatchError(f"the changelog {batch.log}", read.identity, identity)

    def refused(read: LoggedProgress, known: LoggedProgress) -> None:
        store.progress_refused += 1
        if store.progress_refused == 1:
            logger.warning(
                "the changelog %s: %s has written progress that goes back, raw offset %d after %d. "
                "This worker was paused, and lost the shard meanwhile. The later progress counts",
                batch.log,
                read.writer,
                read.progress.next,
                known.progress.next,
            )

    stored = store.progress()
    known = None
    if stored is not None:
        known = LoggedProgress(
            stored.progress,
            stored.identity,
            stored.reading,
            lineage=stored.lineage,
            leader_epoch=stored.leader_epoch,
        )
    row = ProgressRow(None, batch.next_offset, batch.time_ms)
    if (logged := furthest(known, decoded.progress, refused)) is not None:
        row = replace(
            row,
            progress=logged.progress,
            identity=logged.identity,
            reading=logged.reading,
            expired_before=logged.expired_before,
            lineage=logged.lineage,
            leader_epoch=logged.leader_epoch,
        )
    removal = Removal(decoded.deletions, decoded.ends)
    store.load(decoded.blocks, row, removal, decoded.written)
    ended = {key for key, value in zip(batch.keys, batch.values, strict=True) if value is None}
    store.late = [each for each in (*store.late, *decoded.late) if each not in ended]
    return removal


def load_next(store: ShardStore, batch: LoggedBatch, identity: str) -> tuple[Removal, bool]:
    """Write what follows in a changelog to the store; return what it removes.

    The second value tells whether it was compared with the store's last commit. Raises as
    ``load_batch``, and ``StoreAheadError`` if brokers have lost that commit.
    """
    decoded = batch.decoded()
    last = _latest(decoded)
    if last is not None and is_ahead(store.lineage, last):
        raise StoreAheadError(
            store.path,
            f"the changelog {batch.log} continues with commit {last.commit}, which does not "
            f"follow its commit {store.lineage.commit}: brokers have lost it",
        )
    is_late = last == UNKNOWN and bool(store.place.writer)
    return load_batch(store, batch, decoded, identity), last is not None and not is_late


def _make_ids(store: ShardStore, interrupted: threading.Event) -> None:
    """Write the rows by id, which the first packet needs in an index with replacing documents."""
    while not store.make_ids():
        if interrupted.is_set():
            raise InterruptedError(f"the ids of {store.path} are not made yet")


# ---- The stores of a worker's shards.


class Recovery(NamedTuple):
    """The number of changelog records still to read, and the number at the beginning."""

    remaining: int
    total: int


_LOG_SECONDS: Final = 5.0
_MILLISECONDS: Final = 1000
_MARKERS: Final = 1  # the commit marker of a transaction takes one offset

AWAY_LIMIT_MS: Final = STANDSTILL_MS - UNITS_MS["d"]
"""A store that did not read its changelog for longer is rebuilt: compaction keeps tombstones for
``STANDSTILL_MS`` only."""


class ShardStores:
    def __init__(
        self,
        settings: Settings,
        changelog_config: Mapping[str, Any],  # with a group.id
        identity: str,  # of the index
        changelog_id: str,  # of the topic; "": the broker has none
        metrics: Metrics,
        disk: StoreDisk | None = None,  # None: RocksDB
    ) -> None:
        self._settings = settings
        self._config = changelog_config
        self._identity = identity
        self._changelog_id = changelog_id
        self._has_transactions = settings.delivery is Delivery.EXACTLY_ONCE
        self._may_be_cut = not (self._has_transactions or changelog_id)
        self._metrics = metrics
        self._profile = settings.index_profile()
        self._cache = block_cache(settings.block_cache_bytes)
        self._disk = disk or RocksDisk(self._cache)
        self._open: dict[int, ShardStore] = {}
        self._recoveries: dict[int, Recovery] = {}

    @cached_property
    def _segments(self) -> WorkerSegments:
        return WorkerSegments(
            segments_directory(self._path(0)),
            SegmentOwner(self._identity, self._settings.application_id),
            self._profile.scheme(),
            with_times=self._profile.window is not None,
        )

    def measure(self) -> None:
        """Report RocksDB's figures of the open stores; call it in the thread that closes them."""
        measured = self._open.copy()  # other threads may open stores at the same time
        for partition, store in measured.items():
            if store.closed:
                del self._open[partition]
        stores = [each for each in measured.values() if not each.closed]
        figures = statistics_of(stores, self._cache, self._settings.block_cache_bytes)
        self._metrics.store(figures)

    def recoveries(self) -> dict[int, Recovery]:
        """Return the recovery of each shard that was opened here; thread-safe."""
        return self._recoveries.copy()

    def open(self, partition: int, committed_next: int, interrupted: threading.Event) -> ShardStore:
        """Open the store of a shard and catch up with its changelog. Blocking.

        ``committed_next`` is as for ``catch_up``. Raises ``StoreError``, ``IndexMismatchError``,
        ``ChangelogFormatError``, ``RecoveryError`` or ``UnansweredError``, and ``InterruptedError``
        soon after ``interrupted`` is set.
        """
        with self._metrics.stage("recover"):
            log = self._changelog(partition, interrupted)
            store = self._open_or_rebuild(partition)
            try:
                if self._is_too_old(store, partition, log):
                    store.close()
                    self._disk.discard(store.path)
                    store = self._opened(partition)
                try:
                    self._catch_up(store, partition, committed_next, log)
                except (StoreAheadError, ChangelogLostError) as error:
                    if isinstance(error, ChangelogLostError) and not self._changelog_id:
                        raise  # the changelog may be that of another cluster
                    store.close()
                    store = self._rebuilt(partition, error)
                    self._catch_up(store, partition, committed_next, log)
                if self._profile.same_id == REPLACE:
                    _make_ids(store, interrupted)
                segments = ShardSegments(self._segments, partition)
                make_missing_files(store, segments, interrupted)
                store.segments = segments
            except BaseException:
                store.close()
                raise
        self._open[partition] = store
        return store

    def _open_or_rebuild(self, partition: int) -> ShardStore:
        try:
            return self._opened(partition)
        except (StoreCorruptError, StoreVersionError) as error:
            return self._rebuilt(partition, error)

    def _rebuilt(self, partition: int, error: FirstseenError) -> ShardStore:
        """Return an empty store, which will be filled from the changelog."""
        logger.warning("shard %d is rebuilt from its changelog: %s", partition, error)
        self._metrics.error("recover", error.reason)
        self._disk.discard(self._path(partition))
        return self._opened(partition)

    def _opened(self, partition: int) -> ShardStore:
        application = self._settings.application_id
        owner = StoreIdentity(self._identity, application, partition, self._changelog_id)
        return open_shard(self._path(partition), owner, self._profile.bits, self._disk)

    def _path(self, partition: int) -> Path:
        return shard_directory(self._settings.state_dir, self._settings.application_id, partition)

    def _is_too_old(self, store: ShardStore, partition: int, log: Changelog) -> bool:
        """Return whether tombstones that the store has not read may be gone."""
        if log.may_be_cut or not store.changelog_offset:
            return False
        away_ms = time.time() * _MILLISECONDS - store.changelog_time_ms
        if away_ms < AWAY_LIMIT_MS or log.ends()[1] <= store.changelog_offset + _MARKERS:
            return False
        logger.warning(
            "shard %d was closed for %.1f days: the changelog may no longer have all deletes "
            "since, so the shard is rebuilt",
            partition,
            away_ms / UNITS_MS["d"],
        )
        return True

    def _changelog(self, partition: int, interrupted: threading.Event) -> Changelog:
        settings = self._settings
        return Changelog(
            settings.topics.changelog,
            partition,
            self._config,
            settings.send_timeout_seconds,
            interrupted,
            may_be_cut=self._may_be_cut,
            may_go_back=not self._has_transactions,
        )

    def _catch_up(
        self, store: ShardStore, partition: int, committed_next: int, log: Changelog
    ) -> None:
        started = time.monotonic()
        report = self._report_of(partition)
        try:
            # Without transactions, the writer must know before which offset all was read.
            end = 0 if self._has_transactions else log.ends(store.changelog_offset)[1]
            records = catch_up(store, log, self._identity, committed_next, report)
        except BaseException:
            self._recoveries.pop(partition, None)  # nothing reads this changelog any more
            raise
        if not self._has_transactions:
            store.write_at(token_bytes(WRITER_BYTES), end)
        seconds = time.monotonic() - started
        for _ in range(store.progress_refused):
            self._metrics.error("recover", ErrorReason.FENCED)
        if records:
            logger.info(
                "shard %d caught up with %d changelog records in %.1f s: %d entries",
                partition,
                records,
                seconds,
                len(store),
            )

    def _report_of(self, partition: int) -> Callable[[int], None]:
        """Return a callback that sets the metric of remaining records and sometimes logs it."""
        logged_at = time.monotonic()
        total = 0

        def report(left: int) -> None:
            nonlocal logged_at, total
            total = max(total, left)
            self._recoveries[partition] = Recovery(left, total)
            self._metrics.recovery_remaining(partition, left)
            if time.monotonic() - logged_at > _LOG_SECONDS:
                logged_at = time.monotonic()
                logger.info("shard %d: %d changelog records left to read", partition, left)

        return report
