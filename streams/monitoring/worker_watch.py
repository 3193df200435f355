"""Watches a worker from its own thread, every two seconds: lag, stalls, the broker, the disk.

Offsets of many partitions are requested less often, so that an idle worker stays idle.

It has its own thread because all that it watches may be stuck: consumers, tasks, the event loop.
Results go to the metrics and to the worker's health; each change of state is one log line.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from simhash_core.documents import TopicPartition
from streams.errors import BrokerUnavailableError
from streams.monitoring.group_watch import GroupWatch
from streams.monitoring.health import (
    Health,
    PartitionLag,
    Stall,
    StallDetector,
    UnmovedOffset,
    lag_of,
    unmoved_since,
)
from streams.monitoring.metrics import Metrics
from streams.monitoring.worker_state import NextStep, WorkerView
from streams.topics.checking import SyncCopies, TooFewCopies
from streams.topics.watermarks import (
    HUNG_ADVICE,
    BrokerWatermarks,
    OpenTransaction,
    open_transactions,
)

# ---- How long transactions are open.
#
# A transaction on a raw partition stops this worker's intake there, without a stall. One on a
# changelog or an output stops only the next worker that opens the shard, and readers of the
# outputs.

logger = logging.getLogger(__name__)

LOGGED_AFTER_SECONDS: Final = 60.0
"""It is longer than workers' transactions: ``session_timeout_seconds`` is 10 by default."""


class TransactionWatch:
    """Times the first open transaction of each partition, by any monotonic clock."""

    def __init__(self, shard_topics: Collection[str], others: Iterable[TopicPartition]) -> None:
        """Begin without open transactions.

        ``shard_topics`` have a partition for each shard, which the shard's worker watches. The
        worker of shard 0 watches ``others``.
        """
        self._shard_topics = shard_topics
        self._others = list(others)
        self._seen: dict[TopicPartition, UnmovedOffset] = {}
        self._logged: dict[TopicPartition, int] = {}

    def partitions(self, shards: Collection[int]) -> list[TopicPartition]:
        own = [TopicPartition(topic, each) for topic in self._shard_topics for each in shards]
        return [*own, *(self._others if 0 in shards else [])]

    def update(self, is_open: Mapping[TopicPartition, OpenTransaction], now: float) -> float:
        """Note the open transactions, log long ones, and return the oldest one's age in seconds."""
        offsets = {partition: each.offset for partition, each in is_open.items()}
        self._seen = unmoved_since(self._seen, offsets, now)
        for partition in [p for p, offset in self._logged.items() if offsets.get(p) != offset]:
            logger.warning("%s: the transaction has ended", partition)
            del self._logged[partition]
        for partition, (offset, since) in self._seen.items():
            if now - since >= LOGGED_AFTER_SECONDS and partition not in self._logged:
                self._logged[partition] = offset
                logger.warning(
                    "%s; it was first seen %.0f s ago. The broker ends it after the "
                    "transaction.timeout.ms of its producer. If it does not: %s",
                    is_open[partition],
                    now - since,
                    HUNG_ADVICE,
                )
        return max((now - each.since for each in self._seen.values()), default=0.0)


# ---- A beat of the event loop, which measures its lateness and makes calls every second.
#
# A late beat also counts for the beats that it delayed. Otherwise a loop that stands still for a
# minute leaves one value among thousands, which no quantile shows (*coordinated omission*).

EVERY_SECONDS: Final = 0.2  # an idle worker spends 0.06 % of a core on it
_LATE_BEATS_MAX: Final = 5_000
"""The most beats that a late one counts for: a thousand seconds, above any liveness limit."""
_BEATS_A_SECOND: Final = 5


class LoopBeat:
    """Beats while its loop runs. Faust's timers start later, and miss a loop that stands still."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_lag: Callable[[Sequence[float]], None],  # called with the lateness of beats, in seconds
        every_second: Sequence[Callable[[], None]] = (),  # called from the first beat on
    ) -> None:
        self._loop = loop
        self._on_lag = on_lag
        self._every_second = every_second
        self._beats_left = 1
        self._due = loop.time()
        loop.call_soon(self._beat)

    def _beat(self) -> None:
        now = self._loop.time()
        late = max(0.0, now - self._due)
        missed = min(int(late / EVERY_SECONDS), _LATE_BEATS_MAX)
        self._due = now + EVERY_SECONDS
        self._loop.call_at(self._due, self._beat)
        self._on_lag([late - number * EVERY_SECONDS for number in range(missed + 1)])
        self._beats_left -= 1
        if self._beats_left <= 0 or missed >= _BEATS_A_SECOND:
            self._beats_left = _BEATS_A_SECOND
            for call in self._every_second:
                call()


_INTERVAL_SECONDS: Final = 2.0
_COPIES_SECONDS: Final = 10.0
_TRANSACTIONS_SECONDS: Final = 10.0
_TRANSACTIONS_A_SECOND: Final = 20
"""How many partitions are searched per second, beyond the first; the alert comes after minutes."""
_OFFSETS_A_SECOND: Final = 50
"""How many partitions' offsets are requested per second, beyond the first request: 0.5 % of a core.
A worker with 1,000 partitions reports their lag every 20 s."""
_STALLS_SEEN: Final = 6  # how often offsets are requested at least, within ``stall_seconds``
_STOP_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 10.0
"""After this long without progress, check whether there is a record to process at all."""
_FAILURES_LIMIT: Final = 10
"""Limit of logged failures of the watch: more would be one failure with a changing number."""


class WatchedTopics(NamedTuple):
    raw: str
    log: str
    changelog: str
    copies: SyncCopies  # of the topics that are written to
    transactions: TransactionWatch | None  # None if the broker has none


class _Lags(NamedTuple):
    raw: Mapping[TopicPartition, PartitionLag]  # of all shards
    open: Collection[TopicPartition]  # of open shards
    log: Mapping[TopicPartition, PartitionLag]  # empty before reading begins
    changelog: Mapping[TopicPartition, PartitionLag]  # of shards in recovery


class WorkerWatch:
    def __init__(
        self,
        view: WorkerView,
        topics: WatchedTopics,
        broker: BrokerWatermarks,
        health: Health,
        metrics: Metrics,
        state_path: Path,
        stall_seconds: float,
        group: GroupWatch,
    ) -> None:
        """Watch from ``__enter__`` on; ``state_path`` is on the disk whose room is measured."""
        self._group = group
        self._copies_at = 0.0
        self._lag_at = 0.0
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
        # What follows in partitions without progress: from a position to an end only markers; from
        # a position to None also records.
        self._tails: dict[TopicPartition, tuple[int, int | None]] = {}
        self._broker_up: bool | None = None
        self._waits: Mapping[TopicPartition, UnmovedOffset] = {}  # the first undecided offset
        self._wait_logged = False
        self._failures: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; leave a request under way to the thread, which does not keep the process alive."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            for check in (
                self.check_disk,
                self.check_shards,
                self.check_lag,
                self.check_waits,
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
        disk = shutil.disk_usage(self._state_path)
        self._metrics.state_disk(disk.free, disk.total)

    def check_shards(self) -> None:
        shards = self._view.shards()
        self._metrics.open_shards({p: each.entries for p, each in shards.items() if each.is_open})

    def check_group(self) -> None:
        if self._broker_up:
            with contextlib.suppress(BrokerUnavailableError):
                self._group.refresh()

    def check_copies(self) -> None:
        """Log which topics take no records for lack of copies in sync, and when they do again."""
        if time.monotonic() < self._copies_at:
            return
        too_few = self._topics.copies.too_few()
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
        watch = self._topics.transactions
        now = time.monotonic()
        if watch is None or not self._broker_up or now < self._transactions_at:
            return
        partitions = watch.partitions(self._view.shards().keys())
        try:
            watermarks = self._broker.of(partitions, starts=False) if partitions else {}
        except BrokerUnavailableError:
            return  # the check of the lag reports it
        wait = max(_TRANSACTIONS_SECONDS, len(partitions) / _TRANSACTIONS_A_SECOND)
        self._transactions_at = now + wait
        self._metrics.open_transaction(watch.update(open_transactions(watermarks), now))

    def check_lag(self) -> None:
        now = time.monotonic()
        if self._broker_up and now < self._lag_at:
            return
        wait = len(self._view.shards()) / _OFFSETS_A_SECOND - _INTERVAL_SECONDS
        self._lag_at = now + min(wait, self._detector.limit_seconds / _STALLS_SEEN)
        try:
            with self._metrics.stage("watch"):
                lags = self._lags()
        except BrokerUnavailableError as error:
            self._note_broker(up=False, why=str(error))
            self._detector.pause()
            self._quiet.pause()
            self._note_stalls([])
            return
        self._note_broker(up=True)
        self._metrics.lag({partition: lag.messages for partition, lag in lags.raw.items()})
        for lag in lags.log.values():
            self._metrics.log_position(lag.position, lag.position + lag.messages)
        ready, waits = self._view.ready, self._view.waits()
        own = {
            partition: lag
            for partition, lag in lags.raw.items()
            if partition in lags.open and waits.is_own_step(partition.partition, ready=ready)
        }
        watched = {**own, **lags.log, **lags.changelog}
        self._note_stalls(self._detector.update(watched, time.monotonic()))

    def check_waits(self) -> None:
        """Report which other worker documents wait for, if they have waited for a while."""
        waits, now = self._view.waits(), time.monotonic()
        opening = {p: shard for p, shard in self._view.shards().items() if not shard.is_open}
        awaited, limit = waits.awaited(opening), self._detector.limit_seconds
        log = TopicPartition(self._topics.log, 0)
        offsets = {log: waits.undecided.offset} if waits.undecided and awaited else {}
        self._waits = unmoved_since(self._waits, offsets, now)
        seconds = max((now - each.since for each in self._waits.values()), default=0.0)
        why = (
            f"documents have waited {seconds:.0f} s for {awaited}; "
            "a restart of this worker would not help"
        )
        self._health.why_waiting = why if seconds >= self._quiet.limit_seconds else None
        if self._wait_logged and seconds < limit:
            self._wait_logged = False
            logger.warning("documents no longer wait for other workers")
        if not self._wait_logged and seconds >= limit:
            self._wait_logged = True
            logger.warning("this worker is healthy, but documents wait for %s", awaited)

    def _lags(self) -> _Lags:
        # Read positions first, then ends: a position may be old, but an end must not.
        shards, log_position = self._view.shards(), self._view.log_position
        positions: dict[TopicPartition, int] = {
            TopicPartition(self._topics.raw, partition): shard.next_offset
            for partition, shard in shards.items()
            if shard.is_open
        }
        opening = [
            TopicPartition(self._topics.raw, p) for p, shard in shards.items() if not shard.is_open
        ]
        recovering = {
            TopicPartition(self._topics.changelog, partition): shard.recovery_remaining
            for partition, shard in shards.items()
            if not shard.is_open and shard.recovery_remaining
        }
        committed = self._broker.committed(opening)
        log = TopicPartition(self._topics.log, 0)
        logs = [] if log_position is None else [log]
        watermarks = self._broker.of([*positions, *opening, *recovering, *logs])
        raw = {
            partition: lag_of(positions.get(partition, committed.get(partition)), marks)
            for partition, marks in watermarks.items()
            if partition.topic == self._topics.raw
        }
        return _Lags(
            self._without_markers(raw),
            positions.keys(),
            {log: lag_of(log_position, watermarks[log])} if log in watermarks and logs else {},
            {
                partition: PartitionLag(
                    max(0, watermarks[partition].readable_end - remaining), remaining, remaining
                )
                for partition, remaining in recovering.items()
                if partition in watermarks
            },
        )

    def _without_markers(
        self, lags: Mapping[TopicPartition, PartitionLag]
    ) -> dict[TopicPartition, PartitionLag]:
        """Return lags, 0 where only transaction markers remain; those in work are not checked."""
        steps = self._view.waits().steps
        idle = {
            p: lag for p, lag in lags.items() if steps.get(p.partition) in {None, NextStep.READ}
        }
        tails = {
            stall.partition: (stall.position, stall.position + stall.messages)
            for stall in self._quiet.update(idle, time.monotonic())
        }
        unknown = {
            p: position
            for p, (position, end) in tails.items()
            if self._tails.get(p) not in {(position, end), (position, None)}
        }
        for p, holds_record in self._broker.hold_records(unknown).items():
            self._tails[p] = (unknown[p], None if holds_record else tails[p][1])
        at_end = {
            p: position for p, (position, _) in tails.items() if self._tails[p][1] is not None
        }
        return {**lags, **{p: PartitionLag(at, 0, 0) for p, at in at_end.items()}}

    def _note_failure(self, error: Exception) -> None:
        if repr(error) not in self._failures and len(self._failures) < _FAILURES_LIMIT:
            self._failures.add(repr(error))
            logger.error("a check of this worker failed; the next one follows", exc_info=error)

    def _note_broker(self, *, up: bool, why: str = "") -> None:
        if up and self._broker_up is False:
            logger.warning("the broker answers again")
        elif not up and self._broker_up is not False:
            logger.warning(
                "the broker does not answer (%s): lag keeps its last known value; this worker "
                "waits for the broker and stays healthy",
                why,
            )
        self._broker_up = up
        self._metrics.broker_up(up=up)

    def _note_stalls(self, stalls: Sequence[Stall]) -> None:
        before, self._health.stalls = self._health.stalls, stalls
        if stalls and not before:
            logger.error(
                "no progress, so /healthz fails from now on: %s (stall_seconds=%g)",
                "; ".join(map(str, stalls)),
                self._detector.limit_seconds,
            )
        elif before and not stalls:
            logger.warning("no longer stalled")
        self._metrics.stalled_partitions(len(stalls))
