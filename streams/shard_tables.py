"""Opens block tables for a worker's shards, brought up to what is committed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from simhash_core.placement import Placement
from streams.changelog_reader import Changelog, catch_up
from streams.group_offsets import refuse_without_state
from streams.kafka_config import changelog_group, librdkafka_config
from streams.metrics import Metrics
from streams.ops_page.fullest_buckets import FullestBuckets
from streams.recovery_progress import Recovery
from streams.rocksdb_options import block_cache
from streams.rocksdb_table import RocksBlockTable
from streams.settings import Delivery, Settings
from streams.shard_directory import discard_store, open_block_table, shard_directory
from streams.state_codec import StoreIdentity
from streams.store.store_errors import StoreCorruptError
from streams.store_statistics import statistics_of
from streams.topic_plans import STANDSTILL_MS

logger = logging.getLogger(__name__)

_SAY_SECONDS: Final = 5.0
_DAY_MS: Final = 24 * 60 * 60 * 1000
_LONGEST_AWAY_MS: Final = STANDSTILL_MS - _DAY_MS


class ShardTables:
    """The tables of one worker share one block cache."""

    def __init__(
        self, settings: Settings, identity: str, placement: Placement, metrics: Metrics
    ) -> None:
        """``identity``: that of the index. Nothing is opened yet."""
        self._settings = settings
        self._identity = identity
        self._placement = placement
        self._metrics = metrics
        self._cache = block_cache(settings.block_cache_bytes)
        self._open: dict[int, RocksBlockTable] = {}
        self._recoveries: dict[int, Recovery] = {}
        self.fullest = FullestBuckets()

    def measure(self) -> None:
        """Note what RocksDB tells of the open tables; in the thread that closes them."""
        for partition, table in list(self._open.items()):
            if table.closed:
                del self._open[partition]
        self._metrics.store(
            statistics_of(
                self._open.values(),
                self._cache,
                self._settings.block_cache_bytes,
            )
        )

    def open(self, partition: int, interrupted: threading.Event) -> RocksBlockTable:
        """Open the table of a shard; with a changelog, also catch up with it. Blocking.

        Raises ``StoreError``, ``IndexMismatchError``, ``RecoveryError``, ``UnansweredError``; and
        ``InterruptedError`` soon after ``interrupted`` is set.
        """
        with self._metrics.stage("recover"):
            table = self._opened(partition, interrupted)
        table.bucket_sizes = partial(self._note_buckets, partition)
        self._open[partition] = table
        return table

    def recoveries(self) -> dict[int, Recovery]:
        """Return how far each shard has come that was opened here. From any thread."""
        return self._recoveries.copy()

    def _note_buckets(self, partition: int, sizes: Iterable[int]) -> None:
        sizes = list(sizes)
        self._metrics.bucket_documents(sizes)
        self.fullest.note(partition, sizes)

    def _opened(self, partition: int, interrupted: threading.Event) -> RocksBlockTable:
        if self._settings.delivery is Delivery.AT_LEAST_ONCE:
            table = self._open_store(partition)
            try:
                next_offset = table.in_flight().progress.offset
                refuse_without_state(self._settings, partition, next_offset)
            except BaseException:
                table.close()
                raise
            return table
        table = self._open_or_rebuild(partition)
        try:
            self._catch_up(table, partition, interrupted)
        except BaseException:
            table.close()
            raise
        return table

    def _open_or_rebuild(self, partition: int) -> RocksBlockTable:
        """Open the store of a shard, or an empty one where it is of no more use."""
        try:
            table = self._open_store(partition)
        except StoreCorruptError as error:
            logger.warning("shard %d is rebuilt from its changelog: %s", partition, error)
            discard_store(error.path)
            return self._open_store(partition)
        progress = table.in_flight().progress
        age_ms = time.time() * 1000 - progress.log_time_ms
        if progress.log_offset == 0 or age_ms < _LONGEST_AWAY_MS:
            return table
        # Compaction drops tombstones in the end; a table that has not read them keeps what they
        # delete, and documents would wait behind a pending entry that nobody settles.
        logger.warning(
            "shard %d is rebuilt from its changelog: its table was last written %.1f days ago",
            partition,
            age_ms / _DAY_MS,
        )
        table.close()
        discard_store(self._directory(partition))
        return self._open_store(partition)

    def _directory(self, partition: int) -> Path:
        settings = self._settings
        return shard_directory(settings.state_dir, settings.application_id, partition)

    def _open_store(self, partition: int) -> RocksBlockTable:
        settings = self._settings
        return open_block_table(
            self._directory(partition),
            StoreIdentity(
                self._identity, settings.application_id, partition, self._placement.partitions
            ),
            self._placement,
            self._cache,
        )

    def _catch_up(
        self, table: RocksBlockTable, partition: int, interrupted: threading.Event
    ) -> None:
        settings = self._settings
        started = time.monotonic()
        log = Changelog(
            settings.topics.changelog,
            partition,
            librdkafka_config(settings, group_id=changelog_group(settings)),
            settings.send_timeout_seconds,
            interrupted,
        )
        records = catch_up(table, log, self._identity, self._report_of(partition))
        if records:
            logger.info(
                "shard %d caught up with %d changelog records in %.1f s",
                partition,
                records,
                time.monotonic() - started,
            )

    def _report_of(self, partition: int) -> Callable[[int], None]:
        """Return what is told of the records that are left: the metric always, the log at times."""
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
