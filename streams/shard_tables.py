"""Opens block tables for a worker's shards, brought up to what is committed."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from functools import partial

from simhash_core.placement import Placement
from streams.changelog_reader import catch_up
from streams.group_offsets import refuse_without_state
from streams.kafka_config import librdkafka_config
from streams.metrics import Metrics
from streams.rocksdb_options import block_cache
from streams.rocksdb_table import RocksBlockTable
from streams.settings import Delivery, Settings
from streams.shard_directory import open_block_table, shard_directory
from streams.state_codec import StoreIdentity
from streams.store_errors import StoreCorruptError

logger = logging.getLogger(__name__)


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

    def open(self, partition: int, interrupted: threading.Event) -> RocksBlockTable:
        """Open the table of a shard; with a changelog, also catch up with it. Blocking.

        Raises ``StoreError``, ``IndexMismatchError``, ``RecoveryError``; and ``InterruptedError``
        soon after ``interrupted`` is set.
        """
        if self._settings.delivery is Delivery.AT_LEAST_ONCE:
            table = self._open_store(partition)
            try:
                next_offset = table.in_flight().progress.offset
                refuse_without_state(self._settings, partition, next_offset)
            except BaseException:
                table.close()
                raise
            return table
        try:
            table = self._open_store(partition)
        except StoreCorruptError as error:
            logger.warning("shard %d is rebuilt from its changelog: %s", partition, error)
            shutil.rmtree(error.path)
            table = self._open_store(partition)
        try:
            self._catch_up(table, partition, interrupted)
        except BaseException:
            table.close()
            raise
        return table

    def _open_store(self, partition: int) -> RocksBlockTable:
        settings = self._settings
        path = shard_directory(settings.state_dir, settings.application_id, partition)
        return open_block_table(
            path,
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
        with self._metrics.stage("recover"):
            records = catch_up(
                table,
                settings.topics.changelog,
                partition,
                librdkafka_config(settings),
                silence_seconds=settings.send_timeout_seconds,
                interrupted=interrupted,
                report=partial(self._metrics.recovery_remaining, partition),
            )
        if records:
            logger.info(
                "shard %d caught up with %d changelog records in %.1f s",
                partition,
                records,
                time.monotonic() - started,
            )
