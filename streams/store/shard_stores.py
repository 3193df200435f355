"""Opens the stores of a worker's shards, brought up to what is committed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from simhash_core.durations import UNITS_MS
from streams.monitoring.metrics import Metrics
from streams.settings.settings import Delivery, Settings
from streams.store.changelog_reader import Changelog
from streams.store.index_filling import make_missing_files
from streams.store.recovery import Recovery, catch_up
from streams.store.rocksdb_options import block_cache
from streams.store.segment_file import SegmentOwner
from streams.store.shard_directory import discard_store, open_shard_store, shard_directory
from streams.store.shard_segments import ShardSegments
from streams.store.shard_store import ShardStore
from streams.store.state_codec import StoreIdentity
from streams.store.store_errors import StoreCorruptError
from streams.store.store_statistics import statistics_of
from streams.topics.plans import STANDSTILL_MS

logger = logging.getLogger(__name__)

_SAY_SECONDS: Final = 5.0
_MILLISECONDS: Final = 1000
_MARKERS: Final = 1
"""Behind the last record of a transaction its end takes an offset."""

AWAY_LIMIT_MS: Final = STANDSTILL_MS - UNITS_MS["d"]
"""A store that has not read its changelog for so long begins again with all of it: compaction keeps
the tombstones of what was deleted since for ``STANDSTILL_MS`` alone."""


class ShardStores:
    """The stores of one worker share one block cache."""

    def __init__(
        self,
        settings: Settings,
        changelog_config: Mapping[str, Any],
        identity: str,
        changelog_id: str,
        metrics: Metrics,
    ) -> None:
        """Open nothing yet.

        ``changelog_config``: librdkafka's, with a ``group.id``. ``identity``: the index's.
        ``changelog_id``: of the topic, "" where the broker has none.
        """
        self._settings = settings
        self._config = changelog_config
        self._identity = identity
        self._changelog_id = changelog_id
        self._metrics = metrics
        self._profile = settings.index_profile()
        self._cache = block_cache(settings.block_cache_bytes)
        self._open: dict[int, ShardStore] = {}
        self._recoveries: dict[int, Recovery] = {}

    def measure(self) -> None:
        """Note RocksDB's figures of the open stores; in the thread that closes them."""
        for partition, store in list(self._open.items()):
            if store.closed:
                del self._open[partition]
        figures = statistics_of(self._open.values(), self._cache, self._settings.block_cache_bytes)
        self._metrics.store(figures._asdict())

    def recoveries(self) -> dict[int, Recovery]:
        """Return how far each shard has come that was opened here. From any thread."""
        return self._recoveries.copy()

    def open(self, partition: int, committed_next: int, interrupted: threading.Event) -> ShardStore:
        """Open the store of a shard and catch up with its changelog. Blocking.

        ``committed_next``: as of ``recovery.catch_up``. Raises ``StoreError``,
        ``IndexMismatchError``, ``ChangelogFormatError``, ``RecoveryError``, ``UnansweredError``;
        and ``InterruptedError`` soon after ``interrupted`` is set.
        """
        with self._metrics.stage("recover"):
            log = self._changelog(partition, interrupted)
            store = self._not_too_old(self._open_or_rebuild(partition), partition, log)
            try:
                self._catch_up(store, partition, committed_next, log)
                self._make_files(store, partition, interrupted)
            except BaseException:
                store.close()
                raise
        self._open[partition] = store
        return store

    def _open_or_rebuild(self, partition: int) -> ShardStore:
        """Open the store of a shard; an empty one where it is damaged."""
        settings = self._settings
        path = shard_directory(settings.state_dir, settings.application_id, partition)
        owner = StoreIdentity(
            self._identity, settings.application_id, partition, self._changelog_id
        )
        try:
            return open_shard_store(path, owner, self._profile.bits, self._cache)
        except StoreCorruptError as error:
            logger.warning("shard %d is rebuilt from its changelog: %s", partition, error)
            self._metrics.error("recover", error.reason)
            discard_store(path)
            return open_shard_store(path, owner, self._profile.bits, self._cache)

    def _not_too_old(self, store: ShardStore, partition: int, log: Changelog) -> ShardStore:
        """Return the store, or an empty one where tombstones that it has not read may be gone."""
        if log.may_be_cut or not store.changelog_offset:
            return store
        away_ms = time.time() * _MILLISECONDS - store.changelog_time_ms
        try:
            if away_ms < AWAY_LIMIT_MS or log.ends()[1] <= store.changelog_offset + _MARKERS:
                return store
        except BaseException:
            store.close()
            raise
        logger.warning(
            "shard %d was closed for %.1f days: the changelog may no longer have all deletes "
            "since, so the shard is rebuilt",
            partition,
            away_ms / UNITS_MS["d"],
        )
        store.close()
        discard_store(store.path)
        return self._open_or_rebuild(partition)

    def _changelog(self, partition: int, interrupted: threading.Event) -> Changelog:
        settings = self._settings
        return Changelog(
            settings.topics.changelog,
            partition,
            self._config,
            settings.send_timeout_seconds,
            interrupted,
            may_be_cut=settings.delivery is Delivery.AT_LEAST_ONCE,
        )

    def _make_files(self, store: ShardStore, partition: int, interrupted: threading.Event) -> None:
        """Make the segment files that are missing, so that the index is filled from files."""
        owner = SegmentOwner(self._identity, self._settings.application_id, partition)
        with_times = self._profile.window is not None
        segments = ShardSegments(store.path, owner, self._profile.scheme(), with_times=with_times)
        make_missing_files(store, segments, interrupted)
        store.segments = segments

    def _catch_up(
        self, store: ShardStore, partition: int, committed_next: int, log: Changelog
    ) -> None:
        started = time.monotonic()
        report = self._report_of(partition)
        records = catch_up(store, log, self._identity, committed_next, report)
        seconds = time.monotonic() - started
        if records:
            logger.info(
                "shard %d caught up with %d changelog records in %.1f s: %d entries",
                partition,
                records,
                seconds,
                len(store),
            )

    def _report_of(self, partition: int) -> Callable[[int], None]:
        """Return what notes how many records are left: the metric always, the log at times."""
        said = time.monotonic()
        total = 0

        def report(left: int) -> None:
            nonlocal said, total
            total = max(total, left)
            self._recoveries[partition] = Recovery(left, total)
            self._metrics.recovery_remaining(partition, left)
            if time.monotonic() - said > _SAY_SECONDS:
                said = time.monotonic()
                logger.info("shard %d: %d changelog records left to read", partition, left)

        return report
