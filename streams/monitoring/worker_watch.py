"""Watches a worker from a thread of its own, every two seconds: lag, stalls, the broker, the disk.

Everything that it watches may be stuck: the consumers, the agents, the event loop. What it finds
goes to the metrics and to the worker's health; each change of state is one line of the log.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.monitoring.group_watch import GroupWatch
from streams.monitoring.health import Health
from streams.monitoring.lag import PartitionLag, Stall, StallDetector, lag_of
from streams.monitoring.metrics import Metrics
from streams.monitoring.transaction_watch import TransactionWatch
from streams.monitoring.worker_state import WorkerView
from streams.topics.open_transactions import open_transactions
from streams.topics.sync_copies import SyncCopies, TooFewCopies
from streams.topics.watermarks import BrokerWatermarks

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 2.0
_COPIES_SECONDS: Final = 10.0
"""How often brokers are queried for the copies in sync."""
_TRANSACTIONS_SECONDS: Final = 10.0
"""How often brokers are queried for open transactions."""
_STOP_SECONDS: Final = 5.0
_QUIET_SECONDS: Final = 10.0
"""After so long without progress the watch checks that there is a record to process at all."""
_FAILURES_LIMIT: Final = 10
"""Different failures of the watch that are logged; more would be one with a number in it."""


class WatchedTopics(NamedTuple):
    """The topics whose lag is watched, by name; ``copies``: of the topics written to.

    ``transactions``: None where the broker has none.
    """

    raw: str
    log: str
    copies: SyncCopies | None = None
    transactions: TransactionWatch | None = None


class WorkerWatch:
    """Watches while it is entered."""

    def __init__(
        self,
        view: WorkerView,
        topics: WatchedTopics,
        broker: BrokerWatermarks,
        health: Health,
        metrics: Metrics,
        state_path: Path,
        stall_seconds: float,
        group: GroupWatch | None = None,
    ) -> None:
        """Begin with ``__enter__``. ``state_path`` is on the disk whose room is measured.

        ``group`` is kept fresh while somebody wants it.
        """
        self._group = group
        self._copies_at = 0.0
        self._transactions_at = 0.0
        self._too_few: list[TooFewCopies] = []
        self._view = view
        self._topics = topics
        self._broker = broker
        self._health = health
        self._metrics = metrics
        self._state_path = state_path
        self._detector = StallDetector(stall_seconds)
        self._quiet = StallDetector(min(_QUIET_SECONDS, stall_seconds / 2))
        self._markers: dict[TopicPartition, tuple[int, int]] = {}
        self._broker_up: bool | None = None
        self._stalls: Sequence[Stall] = ()
        self._failures: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, at the latest when a request in progress has timed out."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            for check in (
                self.check_disk,
                self.check_shards,
                self.check_lag,
                self.check_group,
                self.check_copies,
                self.check_transactions,
            ):
                try:
                    check()
                except Exception as error:  # noqa: BLE001 - nothing may end the watch
                    self._note_failure(error)
            self._stop.wait(_INTERVAL_SECONDS)

    def check_disk(self) -> None:
        """Measure the room on the disk of the state."""
        disk = shutil.disk_usage(self._state_path)
        self._metrics.state_disk(disk.free, disk.total)

    def check_shards(self) -> None:
        """Give every open shard its series, and no other."""
        shards = self._view.shards()
        self._metrics.open_shards({p: each.entries for p, each in shards.items() if each.is_open})

    def check_group(self) -> None:
        """Ask the broker for the group, while it answers and somebody looks."""
        if self._group is not None and self._broker_up:
            with contextlib.suppress(BrokerUnavailableError):
                self._group.refresh()

    def check_copies(self) -> None:
        """Log which topics take no records for want of copies in sync, and when they do again."""
        copies = self._topics.copies
        if copies is None or time.monotonic() < self._copies_at:
            return
        too_few = copies.too_few()
        if too_few is None:
            return
        self._copies_at = time.monotonic() + _COPIES_SECONDS
        if too_few and too_few != self._too_few:
            logger.warning(
                "%s. Nothing is lost: this worker waits until another broker is back",
                "; ".join(map(str, too_few)),
            )
        elif self._too_few and not too_few:
            logger.warning("all topics have enough copies in sync again")
        self._too_few = too_few

    def check_transactions(self) -> None:
        """Measure for how long transactions are open, and say which stay so."""
        watch = self._topics.transactions
        now = time.monotonic()
        if watch is None or not self._broker_up or now < self._transactions_at:
            return
        partitions = watch.partitions(self._view.shards().keys())
        try:
            watermarks = self._broker.of(partitions) if partitions else {}
        except BrokerUnavailableError:
            return  # the check of the lag says so
        self._transactions_at = now + _TRANSACTIONS_SECONDS
        self._metrics.open_transaction(watch.update(open_transactions(watermarks), now))

    def check_lag(self) -> None:
        """Ask the broker for the ends of partitions, and find those without progress."""
        try:
            with self._metrics.stage("watch"):
                raw, log = self._lags()
        except BrokerUnavailableError as error:
            self._note_broker(up=False, why=str(error))
            self._detector.pause()
            self._quiet.pause()
            self._note_stalls([])
            return
        self._note_broker(up=True)
        self._metrics.lag({partition: lag.messages for partition, lag in raw.items()})
        for lag in log.values():
            self._metrics.log_position(lag.position, lag.position + lag.messages)
        watched = {**raw, **log} if self._view.ready else log
        self._note_stalls(self._detector.update(watched, time.monotonic()))

    def _lags(
        self,
    ) -> tuple[dict[TopicPartition, PartitionLag], dict[TopicPartition, PartitionLag]]:
        """Return the lag of the raw partitions of this worker, and that of the log."""
        # First the positions, then the ends: a position may be a little old, an end never.
        shards, log_position = self._view.shards(), self._view.log_position
        positions: dict[TopicPartition, int] = {
            TopicPartition(self._topics.raw, partition): shard.next_offset
            for partition, shard in shards.items()
            if shard.is_open
        }
        opening = [
            TopicPartition(self._topics.raw, p) for p, shard in shards.items() if not shard.is_open
        ]
        committed = self._broker.committed(opening)
        log = TopicPartition(self._topics.log, 0)
        partitions = [*positions, *opening, *([] if log_position is None else [log])]
        watermarks = self._broker.of(partitions)
        raw = {
            partition: lag_of(positions.get(partition, committed.get(partition)), marks)
            for partition, marks in watermarks.items()
            if partition != log
        }
        waiting = {p for p, shard in shards.items() if shard.waiting}
        raw = self._without_markers(raw, waiting)
        if log_position is None or log not in watermarks:
            return raw, {}
        return raw, {log: lag_of(log_position, watermarks[log])}

    def _without_markers(
        self, lags: Mapping[TopicPartition, PartitionLag], waiting: Container[int]
    ) -> dict[TopicPartition, PartitionLag]:
        """Return lags without partition ends that hold nothing but markers of transactions.

        ``waiting``: the raw partitions with records that are under way, which need no check.
        """
        corrected = dict(lags)
        quiet = {partition: lag for partition, lag in lags.items() if partition[1] not in waiting}
        for stall in self._quiet.update(quiet, time.monotonic()):
            tail = (stall.position, stall.position + stall.messages)
            if self._markers.get(stall.partition) != tail:
                if self._broker.holds_record(stall.partition, stall.position):
                    continue
                self._markers[stall.partition] = tail
            corrected[stall.partition] = PartitionLag(stall.position, 0, 0)
        return corrected

    def _note_failure(self, error: Exception) -> None:
        """Log a failure of the watch itself, once and not every two seconds."""
        if repr(error) not in self._failures and len(self._failures) < _FAILURES_LIMIT:
            self._failures.add(repr(error))
            logger.error("the watch of this worker failed, and continues", exc_info=error)

    def _note_broker(self, *, up: bool, why: str = "") -> None:
        if up and self._broker_up is False:
            logger.warning("the broker answers again")
        elif not up and self._broker_up is not False:
            logger.warning(
                "the broker does not answer (%s): lag keeps its last known value; this worker "
                "waits for the broker, and stays alive",
                why,
            )
        self._broker_up = up
        self._metrics.broker_up(up=up)

    def _note_stalls(self, stalls: Sequence[Stall]) -> None:
        if stalls and not self._stalls:
            logger.error(
                "no progress, so /healthz fails from now on: %s (stall_seconds=%g)",
                "; ".join(map(str, stalls)),
                self._detector.limit_seconds,
            )
        elif self._stalls and not stalls:
            logger.warning("no longer stalled")
        self._stalls = stalls
        self._health.stalled(stalls)
        self._metrics.stalled_partitions(len(stalls))
